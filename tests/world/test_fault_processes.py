"""Faults as processes: how often, how long, keyed by what is drawn, and what each one means."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.tiny import tiny

from fedrt.errors import InputError
from fedrt.graph import parts_of
from fedrt.seeding import uniforms
from fedrt.world.faults import Failures
from fedrt.world.simulated import SimulatedWorld

EVERYTHING = (
    "rounds.global_rounds=40",
    "faults.silent={kind='markov',mean_up=4,mean_down=2}",
    "faults.absent={kind='markov',mean_up=6,mean_down=3}",
    "faults.straggler={kind='random',probability=0.3}",
    "faults.server_down={kind='markov',mean_up=4,mean_down=2}",
    "faults.link_down={kind='random',probability=0.2}",
    "faults.cut={kind='markov',mean_up=4,mean_down=3}",
)
MANY = ("fleet.num_devices=2000", "fleet.num_edges=2", "fleet.cluster_sizes=even")


def world(*settings: str, seed: int = 0) -> SimulatedWorld:
    return SimulatedWorld(tiny(*settings), seed)


def fails(of: SimulatedWorld, t: int, r: int) -> Failures:
    return of.failures(of.observe(t, r))


def told(of: SimulatedWorld, t: int, r: int):
    """All that fails in an edge round."""
    return [of.observe(t, r).device, *vars(fails(of, t, r)).values(), of.links_up(t)]


def test_without_faults_nothing_fails():
    of = world()
    assert fails(of, 0, 0) is None
    assert of.links_up(0) is of.base_graph


def test_the_order_of_asking_changes_nothing():
    one, two = world(*EVERYTHING), world(*EVERYTHING)
    places = [(t, r) for t in range(40) for r in range(2)]
    forwards = {place: told(one, *place) for place in places}
    for place in np.random.default_rng(0).permutation(places).tolist():
        for a, b in zip(forwards[tuple(place)], told(two, *place), strict=True):
            assert_array_equal(a, b)
    other = world(*EVERYTHING, seed=1)
    assert any(told(other, *place)[1].tolist() != forwards[place][1].tolist() for place in places)


@pytest.mark.parametrize(("mean_up", "mean_down"), [(4, 2), (10, 5), (2.5, 8), (1, 3)])
def test_how_often_and_how_long(mean_up, mean_down):
    """Spells up and down as long as given, on average. 2,000 devices, 60 edge rounds."""
    markov = f"{{kind='markov',mean_up={mean_up},mean_down={mean_down}}}"
    of = world(*MANY, "rounds.global_rounds=30", f"faults.silent={markov}")
    down = np.array([fails(of, t, r).silent for t in range(30) for r in range(2)])
    share = mean_down / (mean_up + mean_down)
    # 120,000 states, correlated over a few rounds: a deviation of about 0.002 to 0.004.
    assert down.mean() == pytest.approx(share, abs=0.015)
    assert down[0].mean() == pytest.approx(share, abs=0.04), "not stationary from the start"
    ends = (down[:-1] & ~down[1:]).sum() / down[:-1].sum()
    begins = (~down[:-1] & down[1:]).sum() / (~down[:-1]).sum()
    assert ends == pytest.approx(1 / mean_down, abs=0.02)
    assert begins == pytest.approx(1 / mean_up, abs=0.02)
    # Devices fail by themselves, not together.
    assert np.abs(np.corrcoef(down[:, :50].T)[~np.eye(50, dtype=bool)]).mean() < 0.25


def test_random_faults_and_stragglers():
    of = world(
        *MANY,
        "faults.silent={kind='random',probability=0.1}",
        "faults.straggler={kind='random',probability=0.2}",
        "faults.straggler_speed=0.5",
    )
    both = [fails(of, t, r) for t in range(4) for r in range(2)]
    assert np.mean([f.silent for f in both]) == pytest.approx(0.1, abs=0.01)
    slow = np.array([f.cpu_fraction for f in both])
    assert set(np.unique(slow)) == {0.5, 1.0}
    assert (slow < 1).mean() == pytest.approx(0.2, abs=0.015)


def test_who_is_there_to_train():
    """Expected devices are started, absent or idle; a server that is down has none and no link."""
    of = world(*EVERYTHING)
    seen_down = 0
    for t in range(40):
        found = fails(of, t, 1)
        started = of.observe(t, 1).cluster_size
        assert_array_equal(started + found.absent + found.idle, found.expected)
        assert_array_equal(found.expected, [2, 3, 2])
        down = ~found.server_up
        assert not started[down].any()
        assert_array_equal(found.idle[~down], 0)
        up = of.links_up(t)
        assert_array_equal(up, up.T)
        assert not (up & ~of.base_graph).any()
        assert not up[down].any()
        assert found.links_down == 3 - up.sum() // 2
        assert_array_equal(of.backhaul_bps(t) > 0, up)
        seen_down += int(down.sum())
    assert 0 < seen_down < 120


def test_only_some_may_fail():
    of = world(
        "faults.server_down={kind='random',probability=1,only=[1]}",
        "faults.absent={kind='random',probability=1,only=[0,6]}",
    )
    found = fails(of, 0, 0)
    assert_array_equal(found.server_up, [True, False, True])
    assert_array_equal(of.observe(0, 0).device, [1, 5])
    assert_array_equal(found.absent, [1, 0, 1])
    assert_array_equal(found.idle, [0, 3, 0])


EIGHT = ("fleet={num_edges=8,num_devices=8,cluster_sizes='even'}", "rounds.global_rounds=60")


def test_a_cut_makes_two_halves_that_stay_until_it_heals():
    of = world(*EIGHT, "faults.cut={kind='markov',mean_up=3,mean_down=3}")
    parts = [parts_of(of.links_up(t)) for t in range(60)]
    sizes = {tuple(sorted(len(part) for part in each)) for each in parts}
    assert sizes == {(8,), (4, 4)}
    spells, sides = 0, set()
    for t in range(60):
        if len(parts[t]) == 2:
            sides.add(tuple(parts[t][0].tolist()))
            if t and len(parts[t - 1]) == 2:
                assert_array_equal(parts[t][0], parts[t - 1][0])
            else:
                spells += 1
    assert spells > 3
    assert len(sides) > 1


@pytest.mark.parametrize("number", [2, 3, 5])
def test_a_cut_takes_the_half_with_the_least_draws_rounded_down(number):
    """Part of what a seed means: of five servers the two with the least draws are cut off."""
    fleet = f"fleet={{num_edges={number},num_devices={number},cluster_sizes='even'}}"
    for seed in range(8):
        of = world(fleet, "faults.cut={kind='random',probability=1}", seed=seed)
        draw = uniforms(np.arange(number), seed, "cut sides", 0)
        cut_off = np.isin(draw, np.sort(draw)[: number // 2])
        together = cut_off[:, None] == cut_off[None, :]
        assert_array_equal(of.links_up(0), together & ~np.eye(number, dtype=bool))


def test_given_sides_of_a_cut():
    of = world(*EIGHT, "faults.cut={kind='random',probability=1}", "faults.cut_servers=[2,5,7]")
    two = [part.tolist() for part in parts_of(of.links_up(9))]
    assert two == [[0, 1, 3, 4, 6], [2, 5, 7]]


def test_attackers_are_a_share_of_each_cluster_all_through():
    nine = "fleet={num_edges=4,num_devices=36,cluster_sizes='even'}"
    of = world(nine, "faults.attack={kind='sign-flip',share=0.2223}")
    assert_array_equal(np.bincount(of.fleet.edge_of_device[of.faults.attackers]), [2, 2, 2, 2])
    other = world(nine, "faults.attack={kind='sign-flip',share=0.2223}", seed=1)
    assert (of.faults.attackers != other.faults.attackers).any()
    uneven = "fleet={num_edges=3,num_devices=15,cluster_sizes=[9,3,3]}"
    for seed in range(5):
        of = world(uneven, "faults.attack={kind='sign-flip',share=0.3334}", seed=seed)
        assert_array_equal(np.bincount(of.fleet.edge_of_device[of.faults.attackers]), [3, 1, 1])
    of = world(nine, "faults.attack={kind='nan',devices=[3,30]}")
    assert np.flatnonzero(of.faults.attackers).tolist() == [3, 30]


def write(path, head, rows):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return f"{{kind='trace',file='{path}',repeat=true}}"


def test_traces(tmp_path):
    by_device = [(t, r, n, int(n == t + r)) for t in range(2) for r in range(2) for n in range(7)]
    speeds = [(t, r, n, 0.5 if n == t else 1) for t in range(2) for r in range(2) for n in range(7)]
    gone = [(t, n, int(n == 6 and t == 1)) for t in range(2) for n in range(7)]
    down = [(t, c, int(c == 2 * t)) for t in range(2) for c in range(3)]
    links = [(t, *pair, int(t == 1)) for t in range(2) for pair in ((0, 1), (2, 1), (0, 2))]
    sides = [(t, c, int(c == 0)) for t in range(2) for c in range(3)]
    head = "global_round,edge_round,device"
    of = world(
        "faults.silent=" + write(tmp_path / "a.csv", head + ",silent", by_device),
        "faults.straggler=" + write(tmp_path / "b.csv", head + ",cpu_fraction", speeds),
        "faults.absent=" + write(tmp_path / "c.csv", "global_round,device,absent", gone),
        "faults.server_down=" + write(tmp_path / "d.csv", "global_round,edge,down", down),
    )
    first, later = fails(of, 0, 0), fails(of, 3, 1)
    assert of.observe(0, 0).device.tolist() == [2, 3, 4, 5, 6]
    assert not first.silent.any()
    assert (first.cpu_fraction == 1).all()
    assert of.observe(3, 1).device.tolist() == [0, 1, 2, 3, 4]
    assert later.silent.tolist() == [False, False, True, False, False]
    assert later.cpu_fraction.tolist() == [1, 0.5, 1, 1, 1]
    assert later.absent.tolist() == [0, 0, 1]
    of = world(
        "faults.link_down=" + write(tmp_path / "e.csv", "global_round,edge,edge2,down", links)
    )
    assert of.links_up(0).sum() == 6
    assert of.links_up(1).sum() == 0
    of = world("faults.cut=" + write(tmp_path / "f.csv", "global_round,edge,side", sides))
    assert [part.tolist() for part in parts_of(of.links_up(0))] == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [(0, c, 0.5) for c in range(3)],
            r"down = 0.5 in row 0 \(and 2 more rows\): must be 0 or 1",
        ),
        ([(0, 0, 1), (0, 2, 0)], "has no value for global_round 0, edge 1"),
    ],
)
def test_a_bad_trace_is_named(rows, words, tmp_path):
    trace = write(tmp_path / "bad.csv", "global_round,edge,down", rows)
    with pytest.raises(InputError, match=words):
        world(f"faults.server_down={trace}")
