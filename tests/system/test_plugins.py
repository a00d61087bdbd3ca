"""Code by import path runs only where the user asks for it, and nothing else in a folder does."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.paths import ROOT, TESTS
from support.tiny import as_options, tiny
from support.trained import TRAINING, start, trained

from fedrt.api.folders import again
from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario, scenario_text
from fedrt.scenario.entries import import_paths
from fedrt.system.plugins import load_plugin, only_allowed

STRANGER = """
import pathlib
pathlib.Path("was_run").touch()
from fedrt.policies.fedrt import FedRT
from support.trained import Softmax
class Channel:
    def __init__(self, fleet, seed, **options):
        self.size = fleet.num_devices
    def snr_db(self, t, r):
        return [10.0] * self.size
def data():
    return {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder from somebody else, with code in it, in which one stands."""
    (tmp_path / "stranger.py").write_text(STRANGER)
    (tmp_path / "scenario.toml").write_text(
        scenario_text(tiny("channel={kind='stranger:Channel'}"))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def refused(capsys, *argv):
    assert main([str(word) for word in argv]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    assert "--allow-code" in err
    return err


COMMANDS = {
    "check": ["scenario", "check", "scenario.toml"],
    "estimate": ["estimate", "scenario.toml"],
    "run": ["run", "scenario.toml"],
    "compare": ["compare", "scenario.toml"],
    "sweep": ["sweep", "scenario.toml", "--vary", "bandwidth.scale=1,2"],
    "size": ["size", "scenario.toml", "--deadline", "1h", "--vary", "bandwidth.scale=1..8"],
    "front": ["front", "scenario.toml"],
    "bound": ["bound", "scenario.toml"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_scenario_does_not_run_code(command, folder, capsys):
    line = refused(capsys, *COMMANDS[command])
    assert 'scenario.channel.kind = "stranger:Channel": is code to be run' in line
    assert sorted(path.name for path in folder.iterdir() if path.name != "runs") == [
        "scenario.toml",
        "stranger.py",
    ]
    assert not list(folder.glob("runs/*"))


@pytest.mark.parametrize(
    "settings",
    ["learning.model='stranger:Softmax'", "learning.dataset='stranger:data'"],
)
def test_nor_for_a_model_or_data(settings, folder, capsys):
    text = scenario_text(load_scenario("quickstart", [*TRAINING, settings]))
    (folder / "scenario.toml").write_text(text)
    refused(capsys, "run", "scenario.toml")
    if "dataset" in settings:
        refused(capsys, "data", "show", "scenario.toml")
    assert not (folder / "was_run").exists()
    assert not list(folder.glob("runs/*"))


def test_code_is_run_where_the_command_line_says_so(folder, capsys):
    assert main(["scenario", "check", "scenario.toml", "--allow-code"]) == 0
    assert (folder / "was_run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--set", "channel={kind='stranger:Channel'}"],
        ["--set", "channel.kind=stranger:Channel"],
    ],
)
def test_a_path_that_was_typed_is_allowed(options, folder):
    assert main(["scenario", "check", "quickstart", *options]) == 0
    assert (folder / "was_run").exists()
    (folder / "was_run").unlink()


def test_a_typed_policy_is_allowed_and_nothing_else_with_it(folder, capsys):
    options = ["--policies", "stranger:FedRT", "--json"]
    assert main(["estimate", *as_options(), *options]) == 0
    refused(capsys, "estimate", "scenario.toml", *options)


def test_a_run_folder_does_not_run_code(tmp_path, capsys):
    run = start(tmp_path / "run", trained("learning.model='small-cnn'"), "support.trained:Moody")
    assert 'policy = "support.trained:Moody"' in refused(capsys, "run", "--resume", run)
    own_model = start(tmp_path / "other", trained())
    assert "learning.model" in refused(capsys, "run", "--resume", own_model)
    assert main(["run", "--resume", str(own_model), "--allow-code", "--json"]) == 0
    assert again("run", run) == f"fedrt run --resume {run} --allow-code"
    assert again("run", start(tmp_path / "plain", tiny())) == f"fedrt run --resume {tmp_path}/plain"


def test_python_code_that_calls_the_package_needs_no_leave():
    with only_allowed([]), pytest.raises(InputError, match="`allow_code`"):
        load_plugin("support.trained:Moody", "policy")
    assert load_plugin("support.trained:Moody", "policy").name == "moody"


def test_every_import_path_of_a_scenario_is_found():
    scenario = tiny(
        "channel={kind='a:B'}",
        "bandwidth={kind='c:D'}",
        "backhaul={kind='e:F'}",
        "learning.model='g:H'",
        "learning.dataset='i:J'",
    )
    assert set(import_paths(scenario).values()) == {"a:B", "c:D", "e:F", "g:H", "i:J"}
    assert import_paths(tiny("learning.dataset='C:/x.npz'")) == {}


def test_a_module_here_is_found_and_stands_in_for_no_other(folder, monkeypatch):
    (folder / "neighbour.py").write_text("VALUE = 1\n")
    (folder / "colorsys.py").write_text("raise SystemExit('not you')\n")
    (folder / "mine.py").write_text(
        "def P():\n    import neighbour, colorsys\n    return neighbour, colorsys\n"
    )
    for name in ("mine", "neighbour", "colorsys"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    neighbour, colorsys = load_plugin("mine:P", "policy")()
    assert neighbour.VALUE == 1
    assert Path(colorsys.__file__).parent != folder
    assert sys.path[-1] == str(folder)


def set_traps(folder, names):
    """Put files there that are named as modules of the standard library are."""
    trap = "open({!r}, 'a').write(__name__ + ' ')\nraise SystemExit('trapped')\n"
    for name in names:
        (folder / f"{name}.py").write_text(trap.format(str(folder / "trapped")))
    return folder / "trapped"


def fedrt(folder, *argv, as_module=False):
    """Run a command by a script as an installed package has, or by `python -m`."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{TESTS}", "OMP_NUM_THREADS": "1"}
    env.pop("PYTHONSAFEPATH", None)
    script = folder.parent / f"{folder.name}-bin" / "fedrt"
    script.parent.mkdir(exist_ok=True)
    script.write_text(
        "import sys\nfrom fedrt.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    start = ["-m", "fedrt"] if as_module else [str(script)]
    command = [sys.executable, *start, *map(str, argv)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


SMALL = (
    *("run", "quickstart", "--json", "--set", "rounds.global_rounds=1", "--set"),
    *("fleet.num_devices=4", "--set", "fleet.num_edges=2"),
)


ENGINES = {"workers": ["--workers", "2", "--chunk", "2"], "ray": ["--engine", "ray"]}


@pytest.mark.slow
@pytest.mark.parametrize("as_module", [False, True])
def test_processes_take_no_module_from_the_current_folder(as_module, tmp_path):
    names = sys.stdlib_module_names
    if as_module:
        # What python itself loads before our first line (importlib, say) only python can change.
        names = ["signal", "random", "socket", "json", "argparse", "torch"]
    trapped = set_traps(tmp_path, names)
    done = fedrt(tmp_path, *SMALL, *ENGINES["workers"], as_module=as_module)
    assert not trapped.exists(), trapped.read_text()
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_processes_find_the_users_own_model_here(engine, tmp_path):
    if engine == "ray":
        pytest.importorskip("ray")
    (tmp_path / "my_model.py").write_text("from helper import Softmax as Model\n")
    (tmp_path / "helper.py").write_text("from support.trained import Softmax\n")
    # Not those of other systems: libraries look for them, and with own code here find them here.
    there = [name for name in sys.stdlib_module_names if find_spec(name) is not None]
    trapped = set_traps(tmp_path, there)
    model = ["--set", "learning.model=my_model:Model"]
    done = fedrt(tmp_path, *SMALL, *model, *ENGINES[engine])
    assert not trapped.exists(), trapped.read_text()
    assert done.returncode == 0, done.stderr
