"""Measures a device for its class in a scenario: seconds per local step, headers, uploads."""
