"""The wheel in an environment without the optional libraries, as a new user meets it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from support.paths import ROOT

INSTALL_DEVICES = "needs cryptography, which is not installed: pip install 'fedrt[devices]'"
INSTALL = "needs torch, which is not installed: pip install 'fedrt[learning]'"


def needed(name: str) -> set[str]:
    """A distribution and what it requires without extras, all the way down."""
    found = {name}
    for line in requires(name) or []:
        if "extra ==" not in line:
            other = re.match(r"[\w.-]+", line).group().lower()
            try:
                found |= needed(other)
            except ImportError:  # for another platform or version of Python
                continue
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The interpreter of a new environment with the wheel and what it requires, nothing else."""
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--wheel-dir", str(place)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=300)
    (wheel,) = place.glob("fedrt-*.whl")
    environment = place / "environment"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=300
    )
    python = environment / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.check_output([python, "-c", code], text=True).strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in needed("fedrt") - {"fedrt"}:
        for file in distribution(name).files or []:
            top = file.parts[0]
            if top != ".." and not (site / top).exists():
                (site / top).symlink_to(distribution(name).locate_file(top))
    return python


def fedrt(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [python, "-m", "fedrt", *words],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_the_wheel_without_torch(installed, tmp_path):
    assert fedrt(installed, tmp_path, "--version").returncode == 0
    measured = ("--set", "learning.model_bits=measured")
    for words, what in [
        (("run",), "training"),
        (("compare",), "training"),
        (("reproduce", "table", "--quick"), "training"),
        (("estimate", *measured), '"measured" settings'),
        (("sweep", "quickstart", "--vary", "bandwidth.scale=1", *measured), '"measured" settings'),
        (("run", "--out", "mine"), "training"),
    ]:
        done = fedrt(installed, tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr == f"{what}: {INSTALL}\n"
        assert os.listdir(tmp_path) == []
    done = fedrt(installed, tmp_path, "enrol", "init", "ca")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"certificates: {INSTALL_DEVICES}\n"
    few = ("--set", "rounds.global_rounds=2", "--policies", "fedrt,fedrt-plus")
    done = fedrt(installed, tmp_path, "estimate", *few, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert fedrt(installed, tmp_path, "report", "out").returncode == 0
    assert (tmp_path / "out" / "page.html").stat().st_size > 10**6


@pytest.mark.slow
def test_the_wheel_holds_no_more_than_the_package(installed):
    site = Path(installed).parents[1] / "lib"
    (package,) = site.rglob("fedrt/__init__.py")
    here = {path.relative_to(ROOT / "src" / "fedrt") for path in (ROOT / "src/fedrt").rglob("*")}
    there = {path.relative_to(package.parent) for path in package.parent.rglob("*")}
    junk = re.compile(r"__pycache__|\.pyc$")
    assert {p for p in here if not junk.search(str(p))} == {
        p for p in there if not junk.search(str(p))
    }
