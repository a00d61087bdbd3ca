"""Runs on real devices: predictions beside measurements, for the page."""
