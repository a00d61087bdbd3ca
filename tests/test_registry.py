"""The registries: every entry can be loaded, its facts are true, and one more is one line."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import is_dataclass

import numpy as np
import pytest
from support.learning_cases import small
from support.tiny import tiny

from fedrt import make_policy, make_world, registry
from fedrt.errors import InputError
from fedrt.learning.aggregators import make_aggregator
from fedrt.learning.optimisers import make_optimiser
from fedrt.learning.servers import make_server_optimiser
from fedrt.learning.tasks import make_task
from fedrt.messages import CODECS
from fedrt.registry import Entry
from fedrt.runs.loop import simulate_rounds

ALL = {
    f"{kind}: {name}": (name, entry)
    for kind, entries in {**vars(registry), "CODECS": CODECS}.items()
    if kind.isupper() and isinstance(entries, dict)
    for name, entry in entries.items()
}


def test_there_are_entries_of_every_kind():
    kinds = ("CHANNELS", "OPTIMISERS", "SERVER_OPTIMISERS", "SCHEDULES", "TASKS", "TRANSFORMS")
    assert {key.partition(":")[0] for key in ALL} == {*kinds, "AGGREGATORS", "CODECS"}


@pytest.mark.parametrize("key", ALL)
def test_an_entry_says_what_its_file_has(key):
    name, entry = ALL[key]
    part = entry.load()
    if entry.has_options:
        assert is_dataclass(part)
        assert part.kind == name


CODE = """
import sys
from fedrt import registry
for entries in vars(registry).values():
    for entry in entries.values() if isinstance(entries, dict) else ():
        if getattr(entry, "has_options", False):
            entry.load()
print(sorted({"torch", "numba"} & set(sys.modules)))
"""


def test_files_whose_options_a_scenario_reads_load_no_torch():
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[]\n"


def test_one_line_adds_a_part_of_training(monkeypatch):
    """Names, options and messages follow from it."""
    entry = Entry("support.one_more:SignDescent", has_options=True)
    monkeypatch.setitem(registry.OPTIMISERS, "sign", entry)
    monkeypatch.setitem(registry.SERVER_OPTIMISERS, "half", Entry("support.one_more:HalfWay"))
    monkeypatch.setitem(registry.AGGREGATORS, "first", Entry("support.one_more:First"))
    monkeypatch.setitem(registry.TASKS, "squares", Entry("support.one_more:Squares"))
    learning = small(
        'learning.optimiser={kind="sign",decay=0.5}',
        'learning.server_optimiser="half"',
        'learning.averaging="first"',
        'learning.task="squares"',
    ).learning
    optimiser = make_optimiser(learning, 0.25)
    assert (optimiser.decay, optimiser.learning_rate) == (0.5, 0.25)
    made = (make_server_optimiser(learning), make_aggregator(learning), make_task(learning))
    assert [type(part).__name__ for part in made] == ["HalfWay", "First", "Squares"]
    with pytest.raises(InputError, match="one of sgd, adam, adamw, sign, or"):
        small('learning.optimiser="sing"')
    with pytest.raises(InputError, match=r"optimiser.decay = 2: must be"):
        small('learning.optimiser={kind="sign",decay=2}')


def test_one_line_adds_a_channel(monkeypatch):
    entry = Entry("support.one_more:Steady", has_options=True)
    monkeypatch.setitem(registry.CHANNELS, "steady", entry)
    world = make_world(tiny("channel={kind='steady',level_db=7.0}"), 0)
    (first, *_) = simulate_rounds(world, make_policy("fedrt"))
    np.testing.assert_allclose(10 * np.log10(first.edge_rounds[0].seen.snr), 7.0)
    with pytest.raises(InputError, match="one of uniform, gauss-markov, path-loss, trace, steady"):
        tiny("channel.kind=stead")
