"""Functions of the commands for real devices."""
