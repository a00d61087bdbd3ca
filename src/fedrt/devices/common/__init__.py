"""What all parties have: settings, logs, and numbers for monitoring."""
