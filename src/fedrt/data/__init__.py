"""Data sets: their formats, where they come from, and which device holds what."""
