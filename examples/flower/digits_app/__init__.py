"""Handwritten digits with PyTorch and Flower."""
