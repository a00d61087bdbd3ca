"""`[faults]`: read, written back, and every bad value named on a line of its own."""

from __future__ import annotations

import pytest
from support.tiny import tiny

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario, scenario_text
from fedrt.scenario.faults import Markov, MarkovSome, RandomSome, SignFlip

WHOLE = """
extends = "quickstart"
[faults]
silent_spends = "all"
deadline_factor = 1.5
refuse_norm = 20
cut_servers = [0, 1]
[faults.silent]
kind = "random"
probability = 0.1
[faults.absent]
kind = "trace"
file = "who.csv"
[faults.server_down]
kind = "markov"
mean_up = 4
mean_down = 2
only = [0]
[faults.cut]
kind = "markov"
mean_up = 9
mean_down = 3
[faults.attack]
kind = "sign-flip"
share = 0.25
"""


def test_a_file_reads_and_writes_back(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE)
    scenario = load_scenario(path)
    faults = scenario.faults
    assert faults is not None
    assert faults.silent == RandomSome(0.1)
    assert faults.server_down == MarkovSome(4, 2, (0,))
    assert faults.cut == Markov(9, 3)
    assert faults.attack == SignFlip(share=0.25)
    assert faults.absent.file == str(tmp_path / "who.csv")
    again = tmp_path / "elsewhere" / "again.toml"
    again.parent.mkdir()
    again.write_text(scenario_text(scenario))
    assert load_scenario(again) == scenario


def test_a_scenario_without_faults_says_nothing_of_them():
    for name in ("quickstart", "paper/femnist"):
        scenario = load_scenario(name)
        assert scenario.faults is None
        text = scenario_text(scenario)
        assert "faults" not in text
        assert "trim" not in text


def test_settings_change_one_fault_at_a_time():
    scenario = tiny(
        "faults.silent={kind='random',probability=0.1}",
        "faults.silent.probability=0.2",
        "faults.refuse=false",
    )
    assert scenario.faults is not None
    assert scenario.faults.silent == RandomSome(0.2)
    assert not scenario.faults.refuse
    assert scenario.faults.absent is None


BAD = {
    "faults=3": "scenario.faults = 3: must be a table of named fields",
    "faults.silnt=3": "scenario.faults.silnt: unknown field; did you mean silent?",
    "faults.silent={probability=0.1}": "scenario.faults.silent.kind: missing; must be one of"
    " random, markov, trace",
    "faults.silent={kind='random',probability=1.5}": "scenario.faults.silent.probability = 1.5:"
    " must be a finite number >= 0 and <= 1",
    "faults.absent={kind='markov',mean_up=0.5,mean_down=2}": "scenario.faults.absent.mean_up = 0.5:"
    " must be a finite number >= 1 and <= 1e+09",
    "faults.server_down={kind='random',probability=1,only=[2,3]}": "scenario.faults.server_down."
    "only[1] = 3: must be one of the servers 0 to 2",
    "faults.silent={kind='random',probability=1,only=[7]}": "scenario.faults.silent.only[0] = 7:"
    " must be one of the devices 0 to 6",
    "faults.silent={kind='random',probability=1,only=[1,1]}": "scenario.faults.silent.only ="
    " [1, 1]: must be different numbers",
    "faults.link_down={kind='random',probability=1,only=[1]}": "scenario.faults.link_down.only:"
    " unknown field",
    "faults.straggler_speed=0": "scenario.faults.straggler_speed = 0: must be a finite number > 0"
    " and <= 1",
    "faults.silent_spends='some'": 'scenario.faults.silent_spends = "some": must be one of nothing,'
    " compute, all",
    "faults={deadline_s=3,deadline_factor=2}": "scenario.faults.deadline_factor: give it or"
    " deadline_s, not both",
    "faults.deadline_s=-1": "scenario.faults.deadline_s = -1: must be a finite number > 0 and <="
    " 1e+15",
    "faults.cut_servers=[0]": "scenario.faults.cut_servers: only goes with a cut of the kind random"
    " or markov",
    "faults={cut={kind='random',probability=1},cut_servers=[0,1,2]}": "scenario.faults.cut_servers"
    " = [0, 1, 2]: must be some of the servers, not all",
    "faults.attack={kind='sign-flip'}": "scenario.faults.attack: must have devices or share, one of"
    " them",
    "faults.attack={kind='sign-flop',share=1}": 'scenario.faults.attack.kind = "sign-flop": must be'
    " one of sign-flip, noise, nan, shape, huge, random-model, a-little-is-enough, inner-product",
    "faults.attack={kind='nan',devices=[9]}": "scenario.faults.attack.devices[0] = 9: must be one"
    " of the devices 0 to 6",
    "faults={refuse=false,attack={kind='shape',share=0.5}}": "scenario.faults.refuse = false: must"
    ' be true with attack.kind = "shape"',
    "learning.trim=0.1": 'scenario.learning.trim: only goes with averaging = "trimmed-mean"',
    "learning.top_k=0.1": 'scenario.learning.top_k: only goes with upload = "top-k"',
}


@pytest.mark.parametrize("setting", BAD)
def test_a_bad_value_is_one_line(setting):
    with pytest.raises(InputError) as caught:
        tiny(setting)
    assert caught.value.lines == [BAD[setting]]


def test_all_bad_values_are_named_and_the_command_exits_with_2(capsys):
    words = ["faults.silent={kind='random',probability=2}", "faults.straggler_speed=7"]
    args = [word for text in words for word in ("--set", text)]
    assert main(["estimate", "quickstart", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split(" = ")[0] for line in err.splitlines()] == [
        "scenario.faults.silent.probability",
        "scenario.faults.straggler_speed",
    ]


def test_one_server_cannot_be_cut():
    with pytest.raises(InputError, match=r"cut: there is one edge server: must be two or more"):
        tiny("fleet={num_edges=1,cluster_sizes=[7]}", "faults.cut={kind='random',probability=0.5}")
