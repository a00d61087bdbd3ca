"""The stacked engine: many devices trained as one model."""
