"""Parties without a network train what the sequential engine does, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from support.parties import Parties, carry_out, six, split
from support.watched import run

NORMED = (
    "learning.model='support.trained:Normed'",
    "learning.model_bits=10176",
    "learning.model_buffers=9",
)
CASES = {
    "no codec": (),
    "float32": ("learning.upload=float32",),
    "int4": ("learning.upload=int4",),
    "float16": ("learning.upload=float16",),
    "top-k": ("learning.upload=top-k", "learning.top_k=0.1"),
    "int8 gossip": ("learning.gossip=int8",),
    "int3 gossip, int4": ("learning.gossip=int3", "learning.upload=int4"),
    "batch norm": NORMED,
    "batch norm, int4, float32 gossip": (
        *NORMED,
        "learning.upload=int4",
        "learning.gossip=float32",
    ),
}


def compare(tmp_path, settings, policy="fedrt", *, restarts=False):
    scenario = six(*settings)
    trainer, rounds = run(scenario, policy)
    parties = Parties(split(tmp_path, scenario), scenario)

    def watch(moment, t, r):
        for edge, model in zip(parties.edges, trainer.moments[moment, t, r], strict=True):
            assert edge.model() == parties.edges[0].parts.pack(model), (moment, t, r, edge.edge)

    found = carry_out(parties, rounds, watch, restarts=restarts)
    for ours, done in zip(found, rounds, strict=True):
        for name in ours.keys() - {"wall_s"}:
            np.testing.assert_equal(ours[name], done.metrics[name], err_msg=name)
    return parties, trainer, rounds


@pytest.mark.parametrize("case", CASES)
def test_edge_models_and_metrics_are_the_sequential_engines(case, tmp_path):
    compare(tmp_path, CASES[case])
