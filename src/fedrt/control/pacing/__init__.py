"""Pacing: what a joule is worth over a run, and when a global round is expected to end."""
