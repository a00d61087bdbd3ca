"""Which codec each device sends its update with."""
