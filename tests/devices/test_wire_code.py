"""The code of the messages between parties is what the pinned protoc makes of messages.proto."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from support.children import LIMIT_S
from support.paths import ROOT

PROTO = "fedrt/devices/wire/messages.proto"


def test_the_code_of_the_messages_is_made_from_the_proto(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools is in requirements-dev.lock")
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", PROTO]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run(command, cwd=ROOT / "src", check=True, timeout=LIMIT_S)
    for ending in ("_pb2.py", "_pb2.pyi"):
        path = PROTO.replace(".proto", ending)
        now = (ROOT / "src" / path).read_text()
        assert now == (tmp_path / path).read_text(), "make messages writes it anew"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_messages_is_a_target_that_writes_beside_the_proto():
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "messages"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert "grpc_tools.protoc" in last
    assert "--python_out=. " in last
    assert last.endswith(PROTO)
