"""Scenario files that extend others of one's own, and bandwidths of each edge server."""

from __future__ import annotations

import os

import pytest
from support.tiny import tiny

from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.scenario import load_scenario, scenario_text
from fedrt.world.simulated import SimulatedWorld


def problems_of(source, *settings: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_scenario(source, settings)
    return list(caught.value.lines)


def test_a_chain_of_files_ends_in_a_preset(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "base.toml").write_text(
        'extends = "quickstart"\n[rounds]\nglobal_rounds = 3\n'
        '[channel]\nkind = "trace"\nfile = "base.csv"\n[learning]\nbatch_size = 8\n'
    )
    (tmp_path / "middle.toml").write_text(
        'extends = "deep/base.toml"\n[rounds]\nglobal_rounds = 4\n[backhaul]\nscale = 2\n'
    )
    (tmp_path / "own.toml").write_text(
        'extends = "middle.toml"\n[bandwidth]\nkind = "trace"\nfile = "own.csv"\n'
    )
    monkeypatch.chdir(tmp_path / "deep")
    found = load_scenario(tmp_path / "own.toml")
    assert (found.name, found.rounds.global_rounds, found.learning.batch_size) == ("own", 4, 8)
    assert found.backhaul.scale == 2
    # Each file is named as seen from the scenario file that names it.
    assert found.channel.file == str(tmp_path / "deep" / "base.csv")
    assert found.bandwidth.file == str(tmp_path / "own.csv")


def test_layers_are_laid_from_the_bottom(tmp_path):
    """A section whose kind changes twice keeps nothing of the first, which had the last's kind."""
    texts = {
        "a": 'extends = "quickstart"\n[channel]\nkind = "path-loss"\nsnr_at_1m_db=80\nradius_m=9\n',
        "b": 'extends = "a.toml"\n[channel]\nkind = "uniform"\nlow_db = 1\nhigh_db = 2\n',
        "c": 'extends = "b.toml"\n[channel]\nkind = "path-loss"\nsnr_at_1m_db = 70\n',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text)
    channel = load_scenario(tmp_path / "c.toml").channel
    assert (channel.snr_at_1m_db, channel.radius_m) == (70, 200)


def test_files_may_extend_a_file_that_extends_nothing(tmp_path):
    (tmp_path / "base.toml").write_text(scenario_text(tiny()))
    (tmp_path / "own.toml").write_text('extends = "base.toml"\nname = "mine"\n')
    assert load_scenario(tmp_path / "own.toml") == tiny('name="mine"', "description=''")


def test_files_that_extend_each_other_in_a_circle_are_one_line(tmp_path):
    for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("self", "self")):
        (tmp_path / f"{name}.toml").write_text(f'extends = "{parent}.toml"\n')
    (line,) = problems_of(tmp_path / "a.toml")
    end = "extends itself by way of it: must end somewhere"
    assert line == f'scenario.extends = "a.toml": {tmp_path / "c.toml"} {end}'
    (line,) = problems_of(tmp_path / "self.toml")
    assert "self.toml extends itself" in line
    os.symlink(tmp_path / "link.toml", tmp_path / "link.toml")
    (tmp_path / "d.toml").write_text('extends = "link.toml"\n')
    assert len(problems_of(tmp_path / "d.toml")) == 1


def test_no_more_files_than_can_be_meant(tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.toml").write_text(f'extends = "{number + 1}.toml"\n')
    (tmp_path / "20.toml").write_text('extends = "quickstart"\n')
    (line,) = problems_of(tmp_path / "0.toml")
    assert line == 'scenario.extends = "17.toml": is one of over 16 files that extend each other'
    assert load_scenario(tmp_path / "5.toml").fleet.num_devices == 20


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('"missing.toml"', "there is no file "),
        ('"base"', 'must be a preset or a file that ends in .toml; the preset "base" does not'),
        ('"../quickstart"', "must be a preset or a file that ends in .toml"),
        ("3", "scenario.extends = 3: must be a preset's name or a TOML file"),
        ('["quickstart"]', "must be a preset's name or a TOML file"),
        ('"a\\u0000.toml"', "cannot be read: "),
        ('"folder.toml"', "cannot be read: "),
        ('"pipe.toml"', "must be a regular file, not a device, pipe or socket"),
        ('"broken.toml"', "is not TOML: "),
        (f'"{"x" * 5000}.toml"', "cannot be read: "),
    ],
)
def test_what_cannot_be_extended_is_one_line(value, words, tmp_path, capsys):
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "broken.toml").write_text("[[[")
    os.mkfifo(tmp_path / "pipe.toml")
    path = tmp_path / "own.toml"
    path.write_text(f"extends = {value}\n")
    assert main(["scenario", "check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert len(err) < 400


def test_every_edge_server_has_its_bandwidth():
    world = SimulatedWorld(tiny("bandwidth={kind='constant',hz=[1e6,2e6,4e6],scale=0.5}"), 0)
    for t, r in ((0, 0), (3, 1)):
        assert world.observe(t, r).edge_bandwidth_hz.tolist() == [5e5, 1e6, 2e6]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("[1e6,2e6]", "scenario.bandwidth.hz has 2 values: must be one for all or one per edge"),
        ("[]", "scenario.bandwidth.hz = []: must be a list of 1 to"),
        ("[1e6,2e6,-1]", "scenario.bandwidth.hz[2] = -1: must be a finite number"),
        ("'wide'", 'scenario.bandwidth.hz = "wide": must be a finite number'),
        ("{uniform=[1,2]}", 'scenario.bandwidth.hz = {"uniform": [1, 2]}: must be a finite'),
    ],
)
def test_a_bandwidth_that_does_not_fit_is_one_line(value, line):
    with pytest.raises(InputError) as caught:
        tiny(f"bandwidth={{kind='constant',hz={value}}}")
    (found,) = caught.value.lines
    assert found.startswith(line)
