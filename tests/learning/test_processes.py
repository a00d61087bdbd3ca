"""Methods and tasks in several processes: whole runs are those of the sequential engine."""

from __future__ import annotations

import pytest
from support.own_parts import trained

pytestmark = pytest.mark.numerical

TOKENS = (
    'learning.dataset="support.task_data:tokens"',
    'learning.model="support.task_data:Reader"',
    'learning.task="next-token"',
    'learning.partition={kind="owner"}',
)
METHODS = (
    "learning.scaffold=true",
    "learning.momentum=0",
    "learning.clip_norm=0.5",
    "learning.proximal=0.3",
    'learning.schedule={kind="cosine",last=0.1,warm_up_rounds=1}',
    'learning.server_optimiser={kind="fedyogi",learning_rate=0.1,tau=0.01}',
    "rounds={global_rounds=2,edge_rounds=2,local_steps=2,gossip_steps=1}",
)


@pytest.mark.parametrize("engine", ["workers", pytest.param("ray", marks=pytest.mark.slow)])
def test_everything_at_once(engine):
    """Tokens, variates and rates reach every process; servers remember in the trainer."""
    wanted, found = (trained(name, *TOKENS, *METHODS) for name in ("sequential", engine))
    assert float((found - wanted).norm() / wanted.norm()) <= 1e-12
