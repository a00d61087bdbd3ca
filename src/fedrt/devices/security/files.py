"""The files by which a party shows who it is and knows the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from fedrt.devices.security.certificates import party_of
from fedrt.devices.security.party import Party
from fedrt.devices.security.pem import (
    read_certificate,
    read_key,
)
from fedrt.devices.security.trust import Stamp, Trust, stamp_of
from fedrt.errors import InputError

CA = "ca.pem"
"""The authority's certificate, in every party's folder; while authorities change, both."""
REVOKED = "revoked.pem"
"""The authority's list of revoked certificates."""


@dataclass(frozen=True)
class Files:
    """The paths of a party's PEM files: authority, own certificate, own key, revocation list."""

    ca: Path
    certificate: Path
    key: Path
    revoked: Path | None = None

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> Files:
        """The files of a folder as `fedrt enrol` fills it."""
        return cls(folder / CA, folder / f"{name}.pem", folder / f"{name}.key", folder / REVOKED)

    def party(self) -> Party:
        """The party that the certificate names."""
        found = party_of(read_certificate(self.certificate))
        if found is None:
            raise InputError(f"{self.certificate}: must name one party, fedrt://ROLE/NAME")
        return found

    def stamps(self) -> tuple[Stamp, ...]:
        """What changes when a file is replaced: a channel opened before may be out of date then."""
        return tuple(map(stamp_of, (self.ca, self.certificate, self.key, self.revoked)))

    def trust(self) -> Trust:
        """What these files say about other parties' certificates."""
        return Trust(self.ca, self.revoked)

    def problems(self, expect: Party | None = None) -> list[str]:
        """What is wrong with the files, one line each; `expect` is who the party must be."""
        found: list[str] = []
        certificate = trust = None
        try:
            trust = self.trust()
        except InputError as error:
            found += error.lines
        try:
            certificate = read_certificate(self.certificate)
            who = self.party()
            if expect is not None and who != expect:
                found.append(f"{self.certificate}: is the certificate of {who}, not of {expect}")
        except InputError as error:
            found += error.lines
        try:
            mine = read_key(self.key).public_key()
            if certificate is not None and not _same(mine, certificate.public_key()):
                found.append(f"{self.key}: is not the key of {self.certificate}")
        except InputError as error:
            found += error.lines
        if certificate is not None and trust is not None:
            refusal = trust.refusal(certificate)
            found += [] if refusal is None else [f"{self.certificate}: {refusal}"]
        return found

    def check(self, expect: Party | None = None) -> None:
        """Raise an error with all problems of the files, if there are any."""
        if problems := self.problems(expect):
            raise InputError(problems)


def _same(one: ec.EllipticCurvePublicKey, other: object) -> bool:
    return isinstance(other, ec.EllipticCurvePublicKey) and (
        one.public_numbers() == other.public_numbers()
    )
