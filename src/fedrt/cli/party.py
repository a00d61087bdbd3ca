"""What the commands of real devices share: options, and how settings are put together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.cli.parser import Parser

if TYPE_CHECKING:
    from fedrt.devices.common.settings import PartySettings

COMMON = ("seed", "ca", "certificate", "key", "revoked", "log_json", "metrics")


def add_party(parser: Parser) -> None:
    """Add the options that every party has."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a TOML file with settings of the same names"
    )
    parser.add_argument("--seed", metavar="N", help="default: 0")
    parser.add_argument("--ca", metavar="FILE", help="whom to trust; default: ca.pem")
    parser.add_argument("--certificate", metavar="FILE", help="default: NAME.pem beside --ca")
    parser.add_argument("--key", metavar="FILE", help="default: NAME.key beside --ca")
    parser.add_argument("--revoked", metavar="FILE", help="default: revoked.pem beside --ca")
    parser.add_argument(
        "--log-json", action="store_true", default=None, help="log one JSON object a line"
    )
    parser.add_argument(
        "--metrics", metavar="PORT", help="serve /healthz and /metrics there, on loopback"
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let import paths in the scenario be loaded; one in --policy always is",
    )
    parser.add_argument(
        "--check", action="store_true", help="say what is wrong without starting, or nothing"
    )


def settings_of(cls: type[PartySettings], args: argparse.Namespace, name: str, *own: str) -> Any:
    """The settings of a party, from options, environment and file."""
    from fedrt.devices.common.settings import read_settings
    from fedrt.system.extras import need

    need(f"fedrt {name.partition('-')[0]}", "grpc")
    options = {key: getattr(args, key) for key in (*COMMON, *own)}
    if args.scenario is not None:
        options["scenario_file"] = args.scenario
    return read_settings(cls, options, args.config, name)


def only_checked(args: argparse.Namespace, settings: Any) -> bool:
    """Check settings if that is all that was asked for."""
    if not args.check:
        return False
    from fedrt.devices.parties import check

    check(settings, data=True)
    belongs = f"; it belongs to {settings.own_edge}" if settings.role == "device" else ""
    print(f"{settings.name}: nothing is wrong{belongs}")
    return True
