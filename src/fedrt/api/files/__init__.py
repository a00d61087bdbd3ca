"""Functions about files: data sets, the paper's table and figures, and the bench."""

NAMES = (
    "table",
    "fig-convergence",
    "fig-energy",
    "fig-noniid",
    "fig-basegraph",
    "choices",
    "beyond",
    "joint",
)
"""What of the paper can be reproduced."""
