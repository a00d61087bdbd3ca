"""The hashes of lock files: every pin has some, and the tool finds those of all files."""

from __future__ import annotations

import re
from hashlib import sha256, sha512
from types import SimpleNamespace

import lock_hashes
import pytest
from support.paths import ROOT

LOCKS = sorted(ROOT.glob("requirements*.lock"))
LOCAL = b"the build for processors"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_of_a_lock_file_has_hashes_and_no_host(path):
    text = path.read_text()
    pins = [pin for pin in lock_hashes.pins_of(text) if pin[1]]
    assert pins
    assert [name for _, name, _, hashes in pins if not hashes] == []
    assert "://" not in text
    assert not re.search(r"^(--index-url|--extra-index-url|--find-links)", text, re.MULTILINE)


def test_no_lock_file_pins_a_package_twice_and_lines_are_as_the_tool_writes_them():
    for path in LOCKS:
        names = [name.lower() for _, name, _, _ in lock_hashes.pins_of(path.read_text()) if name]
        assert len(names) == len(set(names)), path.name
        text = path.read_text()
        assert lock_hashes.with_hashes(text, lambda name: [], None) == text


def test_torch_for_linux_is_locked_in_a_way_that_lets_pip_take_the_build_for_processors():
    (torch,) = [
        hashes
        for _, name, _, hashes in lock_hashes.pins_of((ROOT / "requirements.lock").read_text())
        if name == "torch"
    ]
    kinds = [each.partition(":")[0] for each in torch]
    assert kinds.count("sha512") == 8  # four versions of Python, two kinds of processors
    assert kinds.count("sha256") >= 1


def remote(filename, content, **more):
    """A link of an index, with the hash that it shows."""
    given = {"hash_name": "sha256", "hash": sha256(content).hexdigest(), "is_file": False}
    given |= {"filename": filename, "url_without_fragment": f"index/{filename}"}
    return SimpleNamespace(**(given | more))


@pytest.fixture
def index(tmp_path):
    """A package with builds of two kinds; what reads them."""
    own = tmp_path / "torch-2.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    own.write_bytes(LOCAL)
    links = [
        remote("torch-2.0-cp311-cp311-manylinux_2_28_x86_64.whl", b"linux"),
        remote("torch-2.0-cp311-cp311-macosx_14_0_arm64.whl", b"mac"),
        remote("torch-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", b"old"),
        remote("torchvision-2.0-py3-none-any.whl", b"another"),
        remote("torch-2.0.exe", b"unusual"),
        remote(own.name, b"", hash_name=None, hash=None, is_file=True, file_path=str(own)),
    ]
    return links, lambda url: [b"li", b"nux"]


def long(content):
    return f"sha512:{sha512(content).hexdigest()}"


def short(content):
    return f"sha256:{sha256(content).hexdigest()}"


def hashes(text):
    return next(found for _, name, _, found in lock_hashes.pins_of(text) if name)


def test_all_files_of_a_version_are_listed_and_what_is_known_stays(index):
    links, read = index
    text = lock_hashes.with_hashes("# what\ntorch==2.0\n", lambda name: links, read)
    assert text.startswith("# what\ntorch==2.0 \\\n    --hash=sha256:")
    assert hashes(text) == {long(b"linux"), short(b"mac"), short(LOCAL)}
    known = text.replace(short(LOCAL), short(b"of another machine"))
    again = lock_hashes.with_hashes(known, lambda name: links, lambda url: pytest.fail("known"))
    assert hashes(again) == hashes(text) | {short(b"of another machine")}


def test_a_file_that_is_another_than_its_index_shows_ends_it(index):
    links, _ = index
    with pytest.raises(SystemExit, match="is another file than its index shows"):
        lock_hashes.with_hashes("torch==2.0\n", lambda name: links, lambda url: [b"else"])


def test_a_version_without_files_ends_it(index):
    with pytest.raises(SystemExit, match=r"torch==3\.0: no index has a file"):
        lock_hashes.with_hashes("torch==3.0\n", lambda name: index[0], index[1])
