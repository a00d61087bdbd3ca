"""Results files name the clean commit and the source that made them, or are listed as older."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import provenance
import provenance_blocks as blocks
import pytest
from support.paths import ROOT

from fedrt.records import directory
from fedrt.records.directory import commit, environment, source_digest

PAGE = (ROOT / "docs" / "results.md").read_text()
OLDER = blocks.older_patterns(PAGE)
FILES = blocks.results_files()
COMMIT = "0123456789abcdef" * 2 + "01234567"


def git(*words: str, root: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True)


def whole_history() -> str | None:
    """Why commits cannot be looked up here; None if they can."""
    if shutil.which("git") is None:
        return "there is no git"
    if not (ROOT / ".git").exists():
        return "no clone: there is no history to look commits up in"
    shallow = git("rev-parse", "--is-shallow-repository")
    if shallow.returncode:
        return "git cannot read this clone"
    return "a shallow clone: older commits are missing" if b"true" in shallow.stdout else None


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [p for p in FILES if not blocks.is_older(p, OLDER)], ids=name)
def test_a_results_file_names_a_clean_commit_and_its_source(path):
    known = blocks.origins(path)
    assert known, "says nothing of its source and is not listed in docs/results.md"
    assert all(map(blocks.is_traceable, known)), [
        (each.get("commit"), each.get("source")) for each in known
    ]


@pytest.mark.skipif(whole_history() is not None, reason=str(whole_history()))
def test_commits_are_in_the_history_and_have_that_source(tmp_path):
    traced = {
        (origin["commit"], origin["source"]): name(path)
        for path in FILES
        if not blocks.is_older(path, OLDER)
        for origin in blocks.origins(path)
    }
    assert traced
    for (head, source), path in traced.items():
        assert git("merge-base", "--is-ancestor", head, "HEAD").returncode == 0, f"{path}: {head}"
        archive = git("archive", head, "src/fedrt")
        folder = tmp_path / head
        folder.mkdir(exist_ok=True)
        subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
        assert source_digest(folder / "src" / "fedrt") == source, path


@pytest.mark.parametrize("pattern", OLDER)
def test_what_is_listed_as_older_is_there_and_cannot_be_traced(pattern):
    files = [path for path in FILES if blocks.is_older(path, [pattern])]
    assert files, "no such file: take it off the list"
    if whole_history() is None:
        known = {path: blocks.origins(path) for path in files}
        assert any(
            not origins
            or not all(map(blocks.is_traceable, origins))
            or any(git("cat-file", "-e", each["commit"]).returncode for each in origins)
            for path, origins in known.items()
        ), "names its commit: take it off the list"


def test_the_environment_says_how_busy_the_machine_was():
    known = environment()
    assert len(known["load_average"]) == 3
    assert min(known["load_average"]) >= 0
    assert -20 <= known["nice"] <= 19
    assert known["source"] == source_digest()


def make_clone(root: Path) -> Path:
    """A repository with the package's layout and one commit."""
    package = root / "src" / "fedrt"
    for path in (package / "__init__.py", root / "README.md", root / "results" / "old.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        by = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
        assert git(*by, *words, root=root).returncode == 0
    return package


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_commit_is_dirty_by_changed_code_and_not_by_results_or_pages(tmp_path, monkeypatch):
    package = make_clone(tmp_path)
    monkeypatch.setattr(directory.fedrt, "__file__", str(package / "__init__.py"))
    head = git("rev-parse", "HEAD", root=tmp_path).stdout.decode().strip()
    assert commit() == head
    (tmp_path / "README.md").write_text("new\n")
    (tmp_path / "results" / "old.json").write_text("new\n")
    assert commit() == head
    (package / "__init__.py").write_text("new\n")
    assert commit() == f"{head}-dirty"


def test_results_are_saved_with_their_environment(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(provenance.START, "commit", COMMIT)
    provenance.save(None, {"x": 1})
    path = tmp_path / "new" / "x.json"
    provenance.save(path, {"x": 1})
    assert capsys.readouterr().err == ""
    (origin,) = blocks.origins(path)
    assert blocks.is_traceable(origin)
    assert json.loads(path.read_text())["x"] == 1
    assert json.loads(path.read_text())["command"]
    assert provenance.earlier(path) == json.loads(path.read_text())
    monkeypatch.setitem(provenance.START, "commit", COMMIT + "-dirty")
    provenance.save(path, {"x": 2})
    assert "not of a clean commit" in capsys.readouterr().err
    assert not any(map(blocks.is_traceable, blocks.origins(path)))
    monkeypatch.setitem(provenance.START, "source", "another")
    with pytest.raises(SystemExit, match="was made by another source"):
        provenance.earlier(path)


def test_benchmarks_write_results_in_one_place():
    """What writes JSON to `--save` goes through `save`."""
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        text = path.read_text()
        if "--save" in text and path.name != "provenance.py":
            assert "save.write_text" not in text, path.name
            assert "write_json(args.save" not in text, path.name
