"""Whether a certificate is good now: signed by the authority, within its time, not revoked."""

from __future__ import annotations

import logging
import os
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from fedrt.devices.security.certificates import PEM, is_issued_by, now
from fedrt.devices.security.party import Party, next_generation
from fedrt.devices.security.reading import parse_certificates, parse_revocations, read_pem
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
        self._revoked: dict[int, datetime] = {}
        self._numbers: dict[bytes, int] = {}
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
        when = self._revoked.get(certificate.serial_number)
        if when is not None:
            return f"certificate was revoked on {when:%F %T} UTC"
        if not any(_signed(certificate, authority) for authority in self._authorities):
            return "certificate is not signed by this authority"
        return None

    def generation(self, party: Party) -> int:
        """The least generation that a party's certificate must have."""
        return next_generation(party, list(self._revoked))

    def _stamps_now(self) -> tuple[Stamp, Stamp]:
        return stamp_of(self._paths[0]), stamp_of(self._paths[1])

    def _read(self) -> None:
        self._stamps = self._stamps_now()  # first: a change while it is read is noticed later
        ca, revoked = self._paths
        authorities = parse_certificates(read_pem(ca), ca)
        entries: dict[int, datetime] = {}
        numbers = dict(self._numbers)
        if revoked is not None:
            for each in parse_revocations(read_pem(revoked), revoked):
                signer = next((a for a in authorities if _has_signed(a, each)), None)
                if signer is None:
                    raise InputError(f"{revoked}: must be signed by the authority of {ca}")
                number = each.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
                key = signer.public_bytes(PEM)
                if number < numbers.get(key, 0):
                    raise InputError(f"{revoked}: is older than the list that was read before")
                numbers[key] = number
                entries |= {entry.serial_number: entry.revocation_date_utc for entry in each}
        self._authorities, self._revoked, self._numbers = authorities, entries, numbers


def _has_signed(authority: x509.Certificate, revocations: x509.CertificateRevocationList) -> bool:
    key = authority.public_key()
    return isinstance(key, ec.EllipticCurvePublicKey) and revocations.is_signature_valid(key)


@lru_cache(maxsize=8192)
def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    return is_issued_by(certificate, authority)
