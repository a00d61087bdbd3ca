"""Whether a certificate is good now: signed by the authority, within its time, not revoked."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from fedrt.devices.security.certificates import crl_number, is_issued_by, now
from fedrt.devices.security.party import Party, next_generation
from fedrt.devices.security.pem import parse_certificates, parse_revocations, read_pem
from fedrt.errors import InputError

_log = logging.getLogger(__name__)

Stamp = tuple[int, int, int] | None


def stamp_of(path: Path | None) -> Stamp:
    """What changes when a file is written anew; None if there is none."""
    try:
        state = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if state is None else (state.st_mtime_ns, state.st_size, state.st_ino)


class Trust:
    """The authority's certificates and what they have revoked, read again when a file changes.

    A file that cannot be used any more, or a list older than the one in use, changes nothing but
    what is logged: nobody is let in by deleting the list.
    """

    def __init__(self, ca: Path, revoked: Path | None) -> None:
        self._paths = (ca, revoked)
        self._stamps: tuple[Stamp, Stamp] = (None, None)
        self._authorities: list[x509.Certificate] = []
        self._lists = Revocations()
        self._read()

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        if self._stamps_now() == self._stamps:
            return
        try:
            self._read()
        except InputError as error:
            _log.warning("%s; what was read before stays in use", error.report())

    def refusal(self, certificate: x509.Certificate) -> str | None:
        """Why a certificate is not good, in words; None if it is."""
        moment = now()
        if moment < certificate.not_valid_before_utc:
            return f"certificate is not valid before {certificate.not_valid_before_utc:%F %T} UTC"
        if moment >= certificate.not_valid_after_utc:
            return f"certificate expired on {certificate.not_valid_after_utc:%F %T} UTC"
        when = self._lists.revoked.get(certificate.serial_number)
        if when is not None:
            return f"certificate was revoked on {when:%F %T} UTC"
        if not any(_signed(certificate, authority) for authority in self._authorities):
            return "certificate is not signed by this authority"
        return None

    def generation(self, party: Party) -> int:
        """The least generation that a party's certificate must have."""
        return next_generation(party, list(self._lists.revoked))

    def _stamps_now(self) -> tuple[Stamp, Stamp]:
        return stamp_of(self._paths[0]), stamp_of(self._paths[1])

    def _read(self) -> None:
        self._stamps = self._stamps_now()  # first: a change while it is read is noticed later
        ca, revoked = self._paths
        authorities = parse_certificates(read_pem(ca), ca)
        lists = Revocations()
        if revoked is not None:
            lists = read_lists(read_pem(revoked), revoked, authorities)
            if lists.is_behind(self._lists, authorities):
                raise InputError(f"{revoked}: is older than the list that was read before")
        self._authorities, self._lists = authorities, lists


@dataclass(frozen=True)
class Revocations:
    """What authorities have revoked: serial numbers, and the number of each authority's list."""

    revoked: Mapping[int, datetime] = field(default_factory=dict)
    numbers: Mapping[x509.Certificate, int] = field(default_factory=dict)

    def is_behind(self, other: Revocations, authorities: Sequence[x509.Certificate]) -> bool:
        """Whether an authority that still counts has a newer list among the others."""
        return any(
            number > self.numbers.get(signer, -1)
            for signer, number in other.numbers.items()
            if signer in authorities
        )


def read_lists(text: bytes, path: object, authorities: Sequence[x509.Certificate]) -> Revocations:
    """The revocation lists of a PEM text, each of which one of the authorities must have signed."""
    revoked: dict[int, datetime] = {}
    numbers: dict[x509.Certificate, int] = {}
    for each in parse_revocations(text, path):
        signer = next((a for a in authorities if _has_signed(a, each)), None)
        number = crl_number(each)
        if signer is None or number is None:
            raise InputError(f"{path}: must be signed by the authority, and have a number")
        numbers[signer] = max(number, numbers.get(signer, 0))
        revoked |= {entry.serial_number: entry.revocation_date_utc for entry in each}
    return Revocations(revoked, numbers)


def _has_signed(authority: x509.Certificate, revocations: x509.CertificateRevocationList) -> bool:
    key = authority.public_key()
    return isinstance(key, ec.EllipticCurvePublicKey) and revocations.is_signature_valid(key)


@lru_cache(maxsize=8192)
def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    return is_issued_by(certificate, authority)
