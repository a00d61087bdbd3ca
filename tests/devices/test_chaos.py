"""Devices and edge servers that are killed while a run goes on: all that was acknowledged counts.

`benchmarks/devices_chaos.py` is the long form, with processes, the coordinator and cut uploads.
"""

from __future__ import annotations

import random
from threading import Event, Thread

import pytest
from support.parties import spread
from support.replayed import check_run
from support.running import running

ROUNDS = 6
LIVES = 12


def kill_some(fleet, ended, killed):
    """Kill parties at random moments, and start them again at once."""
    chance = random.Random(0)
    while len(killed) < LIVES and not ended.is_set():
        if chance.random() < 0.3:
            number = chance.randrange(3)
            fleet.cut(f"edge-{number}")
            fleet.start_edge(number, keep_updates=True)
            killed.append(f"edge-{number}")
        else:
            number = chance.randrange(6)
            fleet.cut(f"device-{number}")
            fleet.start_device(number)
            killed.append(f"device-{number}")
        ended.wait(chance.uniform(0.02, 0.2))


@pytest.mark.parametrize("policy", ["fedrt", "fedrt-plus"])
def test_every_average_is_of_what_was_acknowledged_whoever_is_killed(tmp_path, policy):
    length = f"global_rounds={ROUNDS},edge_rounds=2,local_steps=2,gossip_steps=2"
    scenario = spread(3, 6, f"rounds={{{length}}}")
    killed, stopped, ended = [], [], Event()
    with running(tmp_path, scenario) as fleet:
        fleet.start_all(keep_updates=True)
        killer = Thread(target=kill_some, args=(fleet, ended, killed))

        def begin(done):
            if done.last.t == 0 and not killer.ident:
                killer.start()
            if done.last.t == ROUNDS // 2 and not stopped:
                stopped.append(done.last.t)
                raise KeyboardInterrupt

        limits = {"least_deadline_s": 20.0, "deadline_factor": 1.0}
        try:
            with pytest.raises(KeyboardInterrupt):
                fleet.coordinate(policy, progress=begin, **limits)
            summary = fleet.coordinate(policy, progress=begin, **limits)
        finally:
            ended.set()
            killer.join()
    assert summary["global_rounds"] == ROUNDS
    assert killed
    counts = check_run(tmp_path, scenario)
    assert counts["averages"] >= ROUNDS
    assert counts["gossips"] >= 1
    assert counts["updates_of_the_run"] > 0
