"""What the commands of real devices share: options, and how they are handed on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedrt.cli.parser import Parser

WHO = ("config", "seed", "ca", "certificate", "key", "revoked")
COMMON = (*WHO, "log_json", "metrics", "check")


def add_who(parser: Parser) -> None:
    """Add the options that say which party it is, and whom it trusts."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a TOML file with settings of the same names"
    )
    parser.add_argument("--seed", metavar="N", help="default: 0")
    parser.add_argument("--ca", metavar="FILE", help="whom to trust; default: ca.pem")
    parser.add_argument("--certificate", metavar="FILE", help="default: NAME.pem beside --ca")
    parser.add_argument("--key", metavar="FILE", help="default: NAME.key beside --ca")
    parser.add_argument("--revoked", metavar="FILE", help="default: revoked.pem beside --ca")
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let import paths in the scenario be loaded; one in --policy always is",
    )


def add_party(parser: Parser) -> None:
    """Add the options that every party has."""
    add_who(parser)
    parser.add_argument(
        "--log-json", action="store_true", default=None, help="log one JSON object a line"
    )
    parser.add_argument(
        "--metrics", metavar="PORT", help="serve /healthz and /metrics there, on loopback"
    )
    parser.add_argument(
        "--check", action="store_true", help="say what is wrong without starting, or nothing"
    )


def given(args: argparse.Namespace, *own: str) -> dict[str, Any]:
    """What was typed of the options of a party, as its function takes it."""
    return {name: getattr(args, name) for name in (*COMMON, *own)}
