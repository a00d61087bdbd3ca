"""The allocation: how much bandwidth and which CPU frequency every device gets."""
