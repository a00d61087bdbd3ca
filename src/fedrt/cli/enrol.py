"""`fedrt enrol init | request | sign | revoke | show`: certificates of real devices."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.cli.parser import Commands, Parser, add_command, read_list

if TYPE_CHECKING:
    from fedrt.devices.security.showing import CertificateEntry


def add(commands: Commands[Parser]) -> None:
    """Add the commands to the parser."""
    text = "certificates of coordinator, edge servers and devices (docs/security.md)"
    enrol = commands.add_parser("enrol", help=text, description=text)
    actions = enrol.add_subparsers(metavar="ACTION", required=True)
    init = add_command(actions, "init", run_init, "make a certificate authority in a new folder")
    request = add_command(
        actions, "request", run_request, "on a party's machine: make its key and a request"
    )
    sign = add_command(actions, "sign", run_sign, "sign a party's certificate")
    revoke = add_command(actions, "revoke", run_revoke, "revoke a party's certificates")
    show = add_command(actions, "show", run_show, "who has which certificate, until when")
    for command in (init, sign, revoke):
        command.add_argument("folder", metavar="DIR", help="the authority's folder")
    init.add_argument("--after", metavar="DIR", help="the authority whose place it takes")
    request.add_argument("folder", metavar="DIR", help="the party's own folder")
    for command in (request, sign):
        command.add_argument("--role", required=True, help="coordinator, edge or device")
        command.add_argument("--name", required=True, help="as in edge-0, device-12")
    for command, days in ((init, 3650), (sign, 365)):
        command.add_argument(
            "--days", type=int, default=days, metavar="N", help=f"how long; default: {days}"
        )
    sign.add_argument("--request", metavar="FILE", help="the party's request; its key stays there")
    sign.add_argument(
        "--host", metavar="A,B,...", help="names and addresses of an edge server's machine"
    )
    sign.add_argument("--out", metavar="DIR", help="where to save; default: the party's name")
    sign.add_argument(
        "--overwrite", action="store_true", help="replace a certificate in --out; never a key"
    )
    revoke.add_argument("party", metavar="NAME", help="as in device-12, or device/device-12")
    show.add_argument("path", metavar="DIR|FILE", help="an authority's folder, or a certificate")


def run_init(args: argparse.Namespace) -> None:
    """Make an authority and say what to do with it."""
    import fedrt

    made = fedrt.enrol_init(args.folder, days=args.days, after=args.after)
    print(f"authority in {args.folder}, valid until {made.valid_until:%F}")
    print(f"keep {Path(args.folder) / 'ca.key'} secret: it signs everything")


def run_request(args: argparse.Namespace) -> None:
    """Make a key and a request, and say where it has to go."""
    import fedrt

    path = fedrt.enrol_request(args.folder, role=args.role, name=args.name)
    print(f"request in {path}; the authority signs it:")
    print(f"fedrt enrol sign CA --role {args.role} --name {args.name} --request {path.name}")


def run_sign(args: argparse.Namespace) -> None:
    """Sign a certificate and say where it is."""
    import fedrt

    made = fedrt.enrol_sign(
        args.folder,
        role=args.role,
        name=args.name,
        request=args.request,
        hosts=[] if args.host is None else read_list(args.host, "--host"),
        days=args.days,
        out=args.out,
        overwrite=args.overwrite,
    )
    out = args.name if args.out is None else args.out
    print(f"{made.role} {made.name}: certificate in {out}, valid until {made.valid_until:%F}")


def run_revoke(args: argparse.Namespace) -> None:
    """Revoke certificates and say what has to be brought to the parties."""
    import fedrt

    found = fedrt.enrol_revoke(args.folder, args.party)
    for each in found:
        print(f"{each.role} {each.name}: revoked {each.serial}")
    if found:
        print(
            f"copy {Path(args.folder) / 'revoked.pem'} to every party: it is read when it changes"
        )
    else:
        print(f"{args.party}: has no certificate that is valid: nothing to revoke")


def run_show(args: argparse.Namespace) -> None:
    """Print one line for every certificate."""
    import fedrt

    for each in fedrt.enrol_show(args.path):
        print(_line(each))


def _line(each: CertificateEntry) -> str:
    when = "" if each.revoked is None else f" on {each.revoked:%F}"
    hosts = f" {', '.join(each.hosts)}" if each.hosts else ""
    return (
        f"{each.role:11} {each.name:20} {each.state}{when}, until {each.valid_until:%F}"
        f" {each.serial}{hosts}"
    )
