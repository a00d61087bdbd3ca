"""The step size of gossip by coded differences: how far a step goes without amplifying errors.

In a step of coded gossip every server's model x moves by (W - I) times the copies, if they are the
same on all its links, which miss what the codec has lost. With d = x - copy after the messages, the
step and the difference that the next messages have to code are

    x' = W x + (I - W) d,        u' = (2 I - W) d - (I - W) x.

Take the losses to be independent of each other and of what is coded, each with delta times the
squared norm of what its server codes, where delta is the codec's distortion. A loss d_j then adds
to server c's next messages (2 I - W)_cj^2 d_j^2, and through the models, step by step, the squares
of (I - W) W^k (I - W). So the squared losses d^2 of all servers are multiplied, over all later
steps, by delta M with

    M = (2 I - W)^2 + sum over k >= 0 of ((I - W)^2 W^k)^2          (squares entry by entry),

and die out if delta times the greatest eigenvalue of M is below one. It is large for weights that
swing, with eigenvalues near -1, as the fastest weights have on sparse graphs. With the step size
gamma, W becomes I + gamma (W - I), which swings less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MOST = 0.35
"""The most that losses may be multiplied by: well below one, as numbers that are not normal lose
more, and as what is multiplied often keeps models apart (`benchmarks/coded_gossip.py`)."""
SIZES = 8
"""Step sizes are eighths: rounding decides nothing."""
ENOUGH = 1e-6
MOST_TERMS = 2_000


def loss_gain(mixing: FloatArray) -> float:
    """The greatest eigenvalue of M: what later messages have to code of a squared loss."""
    one = np.eye(len(mixing))
    apart = one - mixing
    gain = (2 * one - mixing) ** 2
    term = apart @ apart
    for _ in range(MOST_TERMS):
        squared = term**2
        gain = gain + squared
        if squared.max() <= ENOUGH * gain.max():
            break
        term = mixing @ term
    return float(np.linalg.eigvalsh(gain)[-1])


def damped(mixing: FloatArray, distortion: float) -> FloatArray:
    """The mixing weights of coded gossip: I + gamma (W - I), with the greatest gamma that may be.

    That is one unless the codec loses too much for these weights. The rows still add up to one.
    """
    one = np.eye(len(mixing))
    for eighths in range(SIZES, 1, -1):
        weights = mixing if eighths == SIZES else one + eighths / SIZES * (mixing - one)
        if distortion * loss_gain(weights) <= MOST:
            return weights
    return one + (mixing - one) / SIZES
