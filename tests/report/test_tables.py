"""Tables on a terminal of 80 columns, whatever the policies are called."""

from __future__ import annotations

import pytest
from support.kept_cells import made_up
from support.paths import EXAMPLES

from fedrt.cli import main
from fedrt.experiments.cells import TABLE, Cell
from fedrt.experiments.table import table_rows
from fedrt.report.folding import folded, folded_policy
from fedrt.report.reproduction import print_table

NAME = "hurry-slowest"
LONG = "my_research_package.scheduling_policies:HurrySlowest"
FEW = ("--set", "rounds.global_rounds=2", "--seeds", "0,1")
FAULTS = ("--set", 'faults={silent={kind="random",probability=0.3}}')
COMMANDS = {
    "estimate": (*FEW, *FAULTS),
    "sweep": (*FEW, "--vary", "bandwidth.scale=1,2"),
    "front": FEW,
    "bound": FEW,
    "compare": (*FEW, *FAULTS, "--target", "0.1"),
}


@pytest.fixture
def long_name(monkeypatch, tmp_path):
    """A policy under a name that takes most of a line, and a terminal of 80 columns."""
    example = EXAMPLES / "own_policy.py"
    package = tmp_path / "my_research_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "scheduling_policies.py").write_text(example.read_text().replace(NAME, LONG))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def check_nothing_is_cut(text: str) -> None:
    assert "…" not in text
    assert "my_research" in text
    assert ":HurrySlowest" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("policies", [f"fedrt,{LONG}", f"{LONG},fedrt"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_long_name_leaves_room_for_the_numbers(command, policies, long_name, capsys):
    words = [command, "quickstart", "--policies", policies, *COMMANDS[command]]
    assert main(words) == 0
    check_nothing_is_cut(capsys.readouterr().out)


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_nor_does_it_cut_the_reproduced_table(seeds, long_name, capsys):
    found = {}
    for policy, hours in (("fedrt", 12.34), ("ce-fedavg", 23.45), (LONG, 34.56)):
        for seed in seeds:
            cell = Cell(TABLE[0], policy, seed)
            found[cell.name] = made_up(cell.name, hours + seed, 987.6 + seed, [0.5, 0.8765])
    print_table(table_rows([TABLE[0]], ["fedrt", "ce-fedavg", LONG], seeds, found))
    check_nothing_is_cut(capsys.readouterr().out)


def test_names_on_several_lines():
    assert folded("fleet.energy_j_per_edge_round") == "fleet.energy\n_j_per_edge\n_round"
    assert folded("[x]") == folded_policy("[x]") == r"\[x]"
    assert folded_policy("fedrt-plus") == "fedrt-plus"
    assert folded_policy("own_policy:HurrySlowest") == "own_policy\n:HurrySlowest"
    assert folded_policy("a:" + "Long" * 5) == "a\n:LongLongLongLon\ngLong"
