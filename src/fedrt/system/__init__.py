"""Files, processes, signals, compiled code, and users' own code."""
