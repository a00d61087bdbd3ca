"""Holds devices to their planned bandwidth and CPU frequency, and measures their energy."""
