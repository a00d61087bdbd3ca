"""Bandwidth and CPU frequency of every device."""
