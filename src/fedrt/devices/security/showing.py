"""What certificates, requests and revocation lists say, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from fedrt.devices.security.authority import Authority
from fedrt.devices.security.certificates import now, party_of
from fedrt.devices.security.party import DOMAIN, Party
from fedrt.devices.security.pem import parse_certificates, read_pem


@dataclass(frozen=True)
class CertificateEntry:
    """What a certificate says, and what became of it."""

    role: str
    """coordinator, edge or device; authority for the one that signs them."""
    name: str
    serial: str
    valid_from: datetime
    valid_until: datetime
    hosts: tuple[str, ...] = ()
    revoked: datetime | None = None

    @property
    def state(self) -> str:
        """valid, revoked, expired or not valid yet."""
        moment = now()
        if self.revoked is not None:
            return "revoked"
        if moment >= self.valid_until:
            return "expired"
        return "valid" if moment >= self.valid_from else "not valid yet"


def entries_of(path: Path) -> list[CertificateEntry]:
    """The certificates of an authority's folder, its own first, or those of a PEM file."""
    if path.is_dir():
        authority = Authority(path)
        revoked = authority.revoked()
        found = [authority.certificate, *authority.issued()]
        return [entry_of(each, revoked) for each in found]
    text = read_pem(path)
    return [entry_of(each, {}) for each in parse_certificates(text, path)]


def entry_of(certificate: x509.Certificate, revoked: Mapping[int, datetime]) -> CertificateEntry:
    """What one certificate says."""
    who = party_of(certificate)
    return CertificateEntry(
        role="authority" if who is None else who.role,
        name=_common_name(certificate) if who is None else who.name,
        serial=f"{certificate.serial_number:x}",
        valid_from=certificate.not_valid_before_utc,
        valid_until=certificate.not_valid_after_utc,
        hosts=_hosts(certificate, who),
        revoked=revoked.get(certificate.serial_number),
    )


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _hosts(certificate: x509.Certificate, who: Party | None) -> tuple[str, ...]:
    """The machine's own names and addresses, without those that stand for role and name."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    own = "" if who is None else f".{who.role}.{DOMAIN}"
    dns = [each for each in names.get_values_for_type(x509.DNSName) if not each.endswith(own)]
    return (*(dns if own else []), *map(str, names.get_values_for_type(x509.IPAddress)))
