"""Whether a party can use the ports and folders of its settings, without touching them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from fedrt.errors import reason
from fedrt.validation import problem, shown


def port_problems(name: str, given: str, host: str, port: int) -> list[str]:
    """Why nothing can listen on a port, if that is so; it is free again when this returns."""
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        return [f"{name} = {shown(given)}: cannot be listened on: {reason(error)}"]
    return []


def folder_problems(name: str, folder: Path) -> list[str]:
    """Why a folder cannot be written to, or made, if that is so."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        return [problem(name, str(folder), f"a folder, and {there} is none")]
    if not os.access(there, os.W_OK | os.X_OK):
        return [problem(name, str(folder), f"a folder, and {there} cannot be written to")]
    return []
