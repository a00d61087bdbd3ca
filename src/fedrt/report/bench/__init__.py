"""The tables of the bench."""
