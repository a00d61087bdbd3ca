"""The fastest-mixing weights as Xiao and Boyd state them: a semidefinite programme, by Clarabel."""

from __future__ import annotations

import cvxpy as cp
import numpy as np


def least_zeta(topology: np.ndarray) -> float:
    """The least zeta of any symmetric weights on the links whose rows sum to one."""
    size = len(topology)
    rows, cols = np.nonzero(np.triu(topology, k=1))
    ends = np.zeros((size, len(rows)))
    ends[rows, np.arange(len(rows))] = 1.0
    ends[cols, np.arange(len(rows))] = -1.0
    weight, s = cp.Variable(len(rows)), cp.Variable()
    rest = np.eye(size) - ends @ cp.diag(weight) @ ends.T - np.ones((size, size)) / size
    inside = [s * np.eye(size) - rest >> 0, s * np.eye(size) + rest >> 0]
    cp.Problem(cp.Minimize(s), inside).solve(solver=cp.CLARABEL)
    return float(s.value)
