"""Too little shared memory, memory or files for training processes is one line that says more."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.tiny import as_options

from fedrt.errors import FedrtError
from fedrt.learning.stacked import resources
from fedrt.learning.stacked.resources import refuse_too_little, scarce, tensors_in, why_it_died

RUN = ["run", "quickstart", "--workers", "2", "--device", "cpu"]
RUN += as_options("rounds.global_rounds=1", "learning.model=small-cnn", "learning.batch_size=4")


def test_tensors_are_counted_once_and_only_where_they_are_not_shared():
    one, two = torch.zeros(1000), torch.zeros(10, dtype=torch.float64)
    shared = torch.zeros(7).share_memory_()
    found = tensors_in({"a": [one, one[10:], two], "b": (shared, "text", 5)})
    assert sorted(found.values()) == [80, 4000]


def test_too_little_shared_memory_is_one_line(monkeypatch):
    monkeypatch.setattr(resources, "_free_bytes", lambda: 64 * 10**6)
    data = torch.zeros(60 * 10**6, dtype=torch.uint8)
    refuse_too_little(data, (10**6, 3 * 10**6), 2)
    with pytest.raises(FedrtError) as caught:
        refuse_too_little(data, (10**6, 4 * 10**6), 2)
    assert caught.value.lines == [
        "`workers` 2: needs 65 MB of shared memory, /dev/shm has 64 MB: give `workers` 1, or more"
        " of it (docker run --shm-size=130m)"
    ]


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=False)


def small_shm(size: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that finds so much shared memory, as in a container."""
    mount = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    return command("unshare", "-m", "sh", "-c", mount, "sh", *words, cwd=cwd)


@pytest.fixture(scope="module")
def _mounts(tmp_path_factory):
    try:
        done = small_shm("1m", "true", cwd=tmp_path_factory.mktemp("mount"))
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode:
        pytest.skip(f"/dev/shm cannot be mounted anew here: {done.stderr.strip()}")


@pytest.mark.usefixtures("_mounts")
@pytest.mark.parametrize(("size", "code"), [("64k", 1), ("64m", 0)])
def test_a_run_in_a_container_with_little_shared_memory(size, code, tmp_path):
    done = small_shm(size, sys.executable, "-m", "fedrt", *RUN, "--json", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stderr.count("\n") == 1
        assert "--workers 2: needs " in done.stderr
        assert "/dev/shm has 1 MB: give --workers 1" in done.stderr


def test_too_few_open_files_are_one_line(tmp_path):
    limited = f'ulimit -n 60; exec "{sys.executable}" -m fedrt "$@"'
    done = command("sh", "-c", limited, "sh", *RUN, "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "open files, 60 are allowed: give --workers 1, or raise the limit" in done.stderr


def test_a_low_limit_of_open_files_is_raised_as_far_as_allowed():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1000:
        pytest.skip("the limit of open files is too low to be lowered")
    try:
        opened = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 20, hard))
        refuse_too_little(torch.zeros(3), (), 2)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > opened + resources.SPARE_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "ran out of memory: give fewer `workers` or a smaller `chunk`"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            "ran out of memory",
        ),
        (OSError(errno.EMFILE, "Too many open files"), "raise the limit (ulimit -n)"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "give fewer `workers`"),
        (OSError(errno.ENOSPC, "No space left on device"), "give fewer `workers`"),
    ],
)
def test_what_runs_out_is_said(error, words):
    told = scarce(error)
    assert told is not None
    (line,) = told.lines
    assert words in line


def test_other_errors_are_not_taken_for_it():
    assert scarce(ValueError("x")) is None
    assert scarce(OSError(errno.ENOENT, "No such file")) is None


def test_signals_tell_why_a_process_died():
    assert "for want of memory" in why_it_died(-9).lines[0]
    assert "/dev/shm is full" in why_it_died(-7).lines[0]
    assert why_it_died(1).lines == ["a training process has died; `resume` goes on"]
