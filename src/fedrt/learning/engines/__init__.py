"""Engines, which carry out local training, and the sequential engine."""
