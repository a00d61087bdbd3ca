"""Functions about files: data sets, and the paper's table and figures."""

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
