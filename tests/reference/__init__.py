"""Independent oracles: slower, plainer or another tool's answers to what the package computes."""
