"""The fast engine: many devices trained as one model."""
