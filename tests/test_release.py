"""A version is the same wherever it stands, and its archives hold what they should."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_bytes
from itertools import pairwise

import pytest
import yaml
from support.children import LIMIT_S
from support.paths import ROOT

import fedrt

HEADING = re.compile(r"^## (\d+)\.(\d+)\.(\d+), (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
LARGEST_FILE = 2_000_000
LARGEST_ARCHIVE = 5_000_000


def versions() -> list[tuple[tuple[int, ...], str]]:
    """The versions of the changelog with their dates, in its order."""
    found = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    return [(tuple(map(int, numbers)), date) for *numbers, date in found]


def test_the_version_is_the_same_everywhere():
    (number, date), *_ = versions()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert fedrt.__version__ == ".".join(map(str, number)) == citation["version"]
    assert str(citation["date-released"]) == date
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/fedrt/__init__.py"


def test_the_changelog_has_every_version_once_from_the_newest_on():
    numbers = [number for number, _ in versions()]
    assert numbers == sorted({*numbers}, reverse=True)
    first, *others = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert len(numbers) == len(others) + (first != "## Unreleased")


def test_every_minor_version_says_how_to_upgrade_to_it():
    minors = sorted({number[:2] for number, _ in versions()})
    page = (ROOT / "docs" / "releases.md").read_text()
    for (a, b), (c, d) in pairwise(minors):
        assert f"## From {a}.{b} to {c}.{d}\n" in page


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The archive of the source."""
    place = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT_S)
    (path,) = place.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        yield path, archive


def test_the_sdist_has_source_docs_and_examples_alone(sdist):
    path, archive = sdist
    assert path.name == f"fedrt-{fedrt.__version__}.tar.gz"
    files = [member for member in archive.getmembers() if member.isfile()]
    names = [member.name.partition("/")[2] for member in files]
    folders = {name.split("/")[0] for name in names if "/" in name}
    assert folders == {"src", "docs", "examples"}
    alone = {name for name in names if "/" not in name}
    assert alone == {
        *("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"),
        *("pyproject.toml", "PKG-INFO", ".gitignore"),
    }
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert max(member.size for member in files) < LARGEST_FILE
    assert path.stat().st_size < LARGEST_ARCHIVE
    tracked = subprocess.run(
        ["git", "ls-files", "src", "docs", "examples"], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode == 0:
        assert {*tracked.stdout.split()} <= {*names}


def test_the_archive_describes_itself(sdist):
    _, archive = sdist
    info = archive.extractfile(f"fedrt-{fedrt.__version__}/PKG-INFO").read()
    said = message_from_bytes(info)
    assert said["Version"] == fedrt.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    assert not said.get_all("Project-URL")
    extras = {*said.get_all("Provides-Extra")}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras == {*declared["optional-dependencies"]}
