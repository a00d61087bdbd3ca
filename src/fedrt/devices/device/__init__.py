"""The device agent: holds its own data, trains what its edge server orders, and sends updates."""
