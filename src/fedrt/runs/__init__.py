"""Whole runs: the loop, its history, and the directory it is saved in."""
