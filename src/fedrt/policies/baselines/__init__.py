"""Policies of other papers, one file each, for comparisons (docs/baselines.md)."""
