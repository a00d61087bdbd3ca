"""Layers of many models at once, written for processors."""
