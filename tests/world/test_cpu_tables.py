"""Tables of measured computing energy: which points are efficient, and what files may hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from support.tiny import as_options, tiny

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario, scenario_text
from fedrt.scenario.physical import CpuTable
from fedrt.world.cpu_tables import efficient_points, measured_cpus, points_of
from fedrt.world.fleet import draw_fleet
from fedrt.world.laws import CUBIC


def test_efficient_points_by_hand():
    """1.2 GHz costs more than 1.5 GHz; 1.8 GHz lies above the line from 2 to 1.5 GHz."""
    hz = np.array([1.0e9, 1.2e9, 1.5e9, 1.8e9, 2.0e9, 2.4e9])
    joules = np.array([0.4, 0.55, 0.5, 0.58, 0.6, 0.9])
    assert efficient_points(hz, joules)[0].tolist() == [2.4e9, 2.0e9, 1.5e9, 1.0e9]
    # 1/1.8 is a third of the way from 1/2 to 1/1.5: 0.6 - 0.1 / 3 = 0.5667 < 0.58.
    joules[3] = 0.56
    assert efficient_points(hz, joules)[0].tolist() == [2.4e9, 2.0e9, 1.8e9, 1.5e9, 1.0e9]


def test_slower_points_that_save_nothing_are_dropped():
    hz, joules = efficient_points(np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 4.0]))
    assert (hz.tolist(), joules.tolist()) == ([3.0], [4.0])
    hz, joules = efficient_points(np.array([7.0]), np.array([1.0]))
    assert (hz.tolist(), joules.tolist()) == ([7.0], [1.0])


POINTS = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
    min_size=1,
    max_size=9,
    unique_by=lambda p: p[0],
)


@given(POINTS)
def test_no_point_or_mixture_beats_the_efficient_ones(points):
    """Against all pairs of points: none is faster or as fast and takes fewer joules per cycle."""
    hz, joules = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    best_hz, best_j = efficient_points(hz, joules)
    seconds = 1 / best_hz
    assert (np.diff(seconds) > 0).all()
    assert (np.diff(best_j) < 0).all()
    slopes = np.diff(best_j) / np.diff(seconds)
    assert (np.diff(slopes) >= -1e-9 * np.abs(slopes[1:])).all()
    assert best_hz[0] == hz.max()
    for i in range(len(hz)):
        for k in range(len(hz)):
            for part in (0.0, 0.3, 0.5, 1.0):
                s = part / hz[i] + (1 - part) / hz[k]
                j = part * joules[i] + (1 - part) * joules[k]
                assert np.interp(s, seconds, best_j) <= j * (1 + 1e-9)


def test_a_device_uses_the_points_between_its_own_ends():
    table = CpuTable(hz=(1.0, 2.0, 3.0, 4.0), joules_per_cycle=(1.0, 2.0, 4.0, 8.0))
    low, high = np.array([1.0, 1.5, 1.0, 3.0]), np.array([9.0, 3.5, 2.0, 3.0])
    found, ends = measured_cpus({5: table}, np.array([5, 5, 0, 5]), (low, high), {5: "here"})
    assert_array_equal(ends[0], [1, 2, 1, 3])
    assert_array_equal(ends[1], [4, 3, 2, 3])
    assert found.of_device[2] == CUBIC
    got = found.energy_j(np.full(4, 2.0), np.array([4.0, 2.0, 1.0, 3.0]), np.full(4, 7.0))
    assert_allclose(got, [16, 4, 7, 8])
    # A million devices with ends of their own have few tables among them.
    many = np.linspace(1, 2.9, 100_000)
    found, ends = measured_cpus(
        {0: table}, np.zeros(100_000, dtype=int), (many, many + 1.2), {0: ""}
    )
    assert len(found.first) <= 10
    assert (ends[0] >= many).all()


LOSSY = "fleet.cpu_table={hz=[2e9,2.2e9,2.5e9,3e9,9e9],power_w=[0.8,1.2,1.25,2.4,9]}"
NOTE = (
    "note: scenario.fleet.cpu_table: 2 of its 5 points are never efficient between cpu_min_hz and"
    " cpu_max_hz, and not used\n"
)


def test_what_is_lost_is_said(capsys, tmp_path):
    """0.4, 0.545, 0.5, 0.8 and 1 nJ per cycle: 2.2 GHz is beaten by 2.5; 9 GHz is out of reach."""
    command = ["estimate", "quickstart", *as_options(LOSSY), "--policies", "ce-fedavg"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err == NOTE
    path = tmp_path / "mine.toml"
    path.write_text(scenario_text(tiny(LOSSY)))
    assert main(["scenario", "check", str(path)]) == 0
    assert capsys.readouterr().err == NOTE
    path.write_text(scenario_text(tiny("fleet.cpu_table={hz=[2e9,3e9],power_w=[0.8,2.4]}")))
    assert main(["scenario", "check", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_forms_of_a_table_are_the_same(tmp_path):
    path = tmp_path / "phone.csv"
    path.write_text("hz,power_w\n2e9,1.0\n3e9,2.4\n")
    inline = CpuTable(hz=(2e9, 3e9), power_w=(1.0, 2.4))
    per_cycle = CpuTable(hz=(2e9, 3e9), joules_per_cycle=(0.5e-9, 0.8e-9))
    for table in (CpuTable(file=str(path)), inline, per_cycle):
        hz, joules = points_of(table, "here")
        assert_array_equal(hz, [2e9, 3e9])
        assert_allclose(joules, [0.5e-9, 0.8e-9], rtol=1e-15)


def test_a_file_is_named_as_seen_from_the_scenario(tmp_path, monkeypatch):
    """Also from another folder, and with its whole path in what a run keeps."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "phone.csv").write_text("hz,joules_per_cycle\n1e9,1e-10\n2e9,3e-10\n")
    scenario = tmp_path / "mine.toml"
    scenario.write_text(
        'extends = "quickstart"\n[fleet]\ncpu_min_hz = 1e9\ncpu_max_hz = 2e9\n'
        'cpu_table = { file = "tables/phone.csv" }\n'
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = load_scenario(str(scenario))
    assert found.fleet.cpu_table.file == str(tmp_path / "tables" / "phone.csv")
    assert str(tmp_path / "tables") in scenario_text(found, anywhere=True)
    fleet = draw_fleet(found, 0)
    assert (fleet.cpu_min_hz[0], fleet.cpu_max_hz[0]) == (1e9, 2e9)
    assert main(["scenario", "check", str(scenario)]) == 0


BAD_FILES = {
    "nothing": ("", "cannot be read: "),
    "no rows": ("hz,power_w\n", "has no rows"),
    "other columns": (
        "hz,watts\n1e9,1\n",
        "has the columns hz, watts: must have hz and power_w or",
    ),
    "both": (
        "hz,power_w,joules_per_cycle\n1e9,1,1e-9\n",
        "has the columns hz, power_w, joules_per_cycle: must have",
    ),
    "one column": ("hz\n1e9\n", "has the columns hz: must have hz and power_w or"),
    "words": ("hz,power_w\nfast,1\n", ""),
    "no power": ("hz,power_w\n1e9,0\n", "power_w = 0: must be a finite number > 0"),
    "not a number": ("hz,power_w\n1e9,nan\n2e9,1\n", "power_w = nan: must be a finite number > 0"),
    "a gap": ("hz,power_w\n1e9,\n2e9,1\n", "power_w = nan: must be a finite number > 0"),
    "a standstill": ("hz,power_w\n0,1\n", "hz = 0: must be a finite number >= 1"),
    "twice": ("hz,power_w\n3e9,1\n3e9,2\n", "gives a frequency twice: must give each once"),
    "elsewhere": ("hz,power_w\n1e3,1\n", "must have a frequency from cpu_min_hz = 2e+09"),
    "too many": (
        "hz,power_w\n" + "".join(f"{n + 1},1\n" for n in range(1001)),
        "has 1001 rows: must be at most 1000",
    ),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_bad_file_is_one_line(what, tmp_path, capsys):
    text, words = BAD_FILES[what]
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        draw_fleet(tiny(f'fleet.cpu_table={{file="{path}"}}'), 0)
    (line,) = caught.value.lines
    assert line.startswith((f"{path}: ", "scenario.fleet.cpu_table: "))
    assert words in line
    missing = tmp_path / "gone.csv"
    command = ["estimate", "quickstart", "--set", f'fleet.cpu_table={{file="{missing}"}}']
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{missing}: cannot be read: ")
    assert err.count("\n") == 1
