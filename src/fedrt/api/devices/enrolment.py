"""`fedrt.enrol_init`, `enrol_request`, `enrol_sign`, `enrol_revoke` and `enrol_show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedrt.api.folders import Place
from fedrt.errors import InputError
from fedrt.system.extras import need

if TYPE_CHECKING:
    from fedrt.devices.security.showing import CertificateEntry

AUTHORITY_DAYS = 3650
PARTY_DAYS = 365


def enrol_init(
    folder: Place,
    *,
    name: str = "FedRT authority",
    days: int = AUTHORITY_DAYS,
    after: Place | None = None,
) -> CertificateEntry:
    """Make a certificate authority in a new folder; returns what its own certificate says.

    Its key, `ca.key`, signs everything: keep the folder on a machine that is no party of the run.
    `after` is the folder of the authority whose place it takes.
    """
    _need()
    from fedrt.devices.security.authority import make_authority_folder
    from fedrt.devices.security.showing import entry_of

    old = None if after is None else Path(after)
    return entry_of(make_authority_folder(Path(folder), name=name, days=days, after=old), {})


def enrol_request(folder: Place, *, role: str, name: str) -> Path:
    """Make a party's key in its own folder and a request for its certificate.

    Returns the path of the request, which the authority signs; the key stays. A key that is there
    already is used again, as before its certificate ends.
    """
    _need()
    from fedrt.devices.security.authority import request_certificate
    from fedrt.devices.security.party import Party

    return request_certificate(Path(folder), Party(role, name))


def enrol_sign(
    folder: Place,
    *,
    role: str,
    name: str,
    request: Place | None = None,
    hosts: Sequence[str] = (),
    days: int = PARTY_DAYS,
    out: Place | None = None,
    overwrite: bool = False,
) -> CertificateEntry:
    """Sign the certificate of a party; returns what it says.

    The folder `out` (default: the party's name) gets the certificate, the authority's and the
    revocation list, and without a `request` a new key too.
    """
    _need()
    from fedrt.devices.security.authority import Authority, enrol_party
    from fedrt.devices.security.party import Party
    from fedrt.devices.security.showing import entry_of

    party = Party(role, name)
    made = enrol_party(
        Authority(Path(folder)),
        party,
        Path(name if out is None else out),
        request=None if request is None else Path(request),
        hosts=hosts,
        days=days,
        overwrite=overwrite,
    )
    return entry_of(made, {})


def enrol_revoke(folder: Place, name: str) -> list[CertificateEntry]:
    """Revoke every certificate of a party; returns those that were valid until now.

    `name` may have the role too, as in edge/edge-0. The folder's `revoked.pem` has to be brought
    to every party.
    """
    _need()
    from fedrt.devices.security.authority import Authority
    from fedrt.devices.security.showing import entry_of

    authority = Authority(Path(folder))
    found = authority.revoke(name)
    revoked = authority.revoked()
    return [entry_of(each, revoked) for each in found]


def enrol_show(path: Place) -> list[CertificateEntry]:
    """The certificates of an authority's folder, its own first, or those of a PEM file."""
    _need()
    from fedrt.devices.security.showing import entries_of

    place = Path(path)
    if not place.exists():
        raise InputError(f"{place}: does not exist")
    return entries_of(place)


def _need() -> None:
    need("certificates", "cryptography")
