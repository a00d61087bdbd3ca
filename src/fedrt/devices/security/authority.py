"""A small certificate authority in a folder: it signs parties' certificates and revokes them.

The folder has the authority's certificate (`ca.pem`), its key (`ca.key`), the list of revoked
certificates (`revoked.pem`) and every certificate that it has signed (`issued/`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from fedrt.devices.security.certificates import (
    PEM,
    Key,
    crl_number,
    host_names,
    make_authority,
    make_certificate,
    make_request,
    make_revocations,
    new_key,
    now,
    party_of,
)
from fedrt.devices.security.files import CA, REVOKED, Files
from fedrt.devices.security.party import Party, next_generation
from fedrt.devices.security.pem import (
    parse_revocations,
    read_certificate,
    read_key,
    read_pem,
    read_request,
    write_key,
    write_pem,
)
from fedrt.errors import InputError, reason
from fedrt.system.files import make_folder, whole_folder
from fedrt.validation import problem, shown

CA_KEY = "ca.key"
ISSUED = "issued"
BEFORE = "before.pem"
"""The lists of the authorities before this one, as they were when it was made."""
MOST_DAYS = 36_500
MOST_REVOKED = 100
"""Times that certificates of one party may be revoked: each adds a name to the next one."""


def make_authority_folder(
    folder: Path, *, name: str, days: int, after: Path | None = None
) -> x509.Certificate:
    """Make an authority in a new folder, and return its certificate.

    `after` is the folder of the authority whose place it takes: while both are known, what that
    one has revoked counts for the generations of this one's certificates too.
    """
    before = None if after is None else Authority(after).all_revoked_text()
    until = now() + timedelta(days=_checked(days))
    key = new_key()
    certificate = make_authority(key, name, until)
    with whole_folder(folder) as temporary:
        write_key(temporary / CA_KEY, key)
        write_pem(temporary / CA, certificate.public_bytes(PEM))
        empty = make_revocations(certificate, key, {}, number=1)
        write_pem(temporary / REVOKED, empty.public_bytes(PEM))
        if before is not None:
            write_pem(temporary / BEFORE, before)
        make_folder(temporary / ISSUED)
    folder.chmod(0o700)
    return certificate


class Authority:
    """An authority that signs and revokes, from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / CA_KEY).exists():
            raise InputError(f"{folder}: is no authority (no {CA_KEY}); make one: fedrt enrol init")
        self.certificate = read_certificate(folder / CA)
        self._key = read_key(folder / CA_KEY)

    def sign(
        self,
        party: Party,
        public_key: ec.EllipticCurvePublicKey,
        *,
        hosts: Sequence[str] = (),
        days: int = 365,
    ) -> x509.Certificate:
        """A certificate for a party's key, noted among those that were issued."""
        names = host_names(hosts)
        if names and party.role != "edge":
            raise InputError(problem("host", list(hosts), "left out: only edge servers are called"))
        until = now() + timedelta(days=_checked(days))
        last = self.certificate.not_valid_after_utc
        if until > last:
            rest = (last - now()).days
            raise InputError(
                problem("days", days, f"<= {rest}: the authority's certificate ends {last:%F}")
            )
        with self._alone():
            path = self.folder / REVOKED
            lists = parse_revocations(self.all_revoked_text(), path)
            serials = [entry.serial_number for each in lists for entry in each]
            generation = next_generation(party, serials)
            if generation > MOST_REVOKED:
                raise InputError(
                    f"{party}: was revoked {generation} times, the most are {MOST_REVOKED}:"
                    " give it another name"
                )
            made = make_certificate(
                self.certificate,
                self._key,
                party,
                public_key,
                generation=generation,
                hosts=names,
                until=until,
            )
            place = self.folder / ISSUED
            make_folder(place)
            stem = f"{party.role}.{party.name}.{made.serial_number:x}"
            write_pem(place / f"{stem}.pem", made.public_bytes(PEM))
        return made

    def revoke(self, name: str) -> list[x509.Certificate]:
        """Revoke all certificates of a party that are neither expired nor revoked already."""
        with self._alone():
            before = self.revoked()
            mine = [each for each in self.issued() if _is_called(each, name)]
            if not mine:
                raise InputError(f"{shown(name)}: {self.folder} has issued no certificate to it")
            found = [
                each
                for each in mine
                if each.serial_number not in before and each.not_valid_after_utc > now()
            ]
            if found:
                self._write_revoked(before | {each.serial_number: now() for each in found})
        return found

    def issued(self) -> list[x509.Certificate]:
        """Every certificate that was signed, those of one party together, the oldest first."""
        paths = sorted((self.folder / ISSUED).glob("*.pem"))
        found = [read_certificate(path) for path in paths]
        return sorted(found, key=lambda each: (party_of(each) or "", each.not_valid_before_utc))

    def revoked(self) -> dict[int, datetime]:
        """The serial numbers of the revocation list, and when each was revoked."""
        return {each.serial_number: each.revocation_date_utc for each in self._list()}

    def all_revoked_text(self) -> bytes:
        """The revocation lists of this authority and of those before it."""
        before = self.folder / BEFORE
        own = read_pem(self.folder / REVOKED)
        return own + (read_pem(before) if before.exists() else b"")

    def _list(self) -> x509.CertificateRevocationList:
        path = self.folder / REVOKED
        (found,) = parse_revocations(read_pem(path), path)
        if not found.is_signature_valid(self._key.public_key()):
            raise InputError(f"{path}: must be signed by the authority of {self.folder / CA}")
        return found

    def _write_revoked(self, revoked: dict[int, datetime]) -> None:
        number = (crl_number(self._list()) or 0) + 1
        made = make_revocations(self.certificate, self._key, revoked, number)
        write_pem(self.folder / REVOKED, made.public_bytes(PEM))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other commands out of the folder while the block runs."""
        handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def request_certificate(folder: Path, party: Party) -> Path:
    """Make a party's key, unless it is there, and a request for its certificate in a folder.

    Returns the path of the request, which alone travels to the authority.
    """
    _make_folders(folder)
    files = Files.in_folder(folder, party.name)
    if files.key.exists():
        key = read_key(files.key)
    else:
        key = new_key()
        write_key(files.key, key)
    path = folder / f"{party.name}.csr"
    write_pem(path, make_request(key, party).public_bytes(PEM))
    return path


def enrol_party(
    authority: Authority,
    party: Party,
    folder: Path,
    *,
    request: Path | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
    overwrite: bool = False,
) -> x509.Certificate:
    """Sign a party's certificate and put it in a folder with the authority's files.

    The key is that of a request, or a new one that is written there too. A key that is there
    already is never replaced, a certificate with `overwrite` alone.
    """
    files = Files.in_folder(folder, party.name)
    if os.path.lexists(folder) and not folder.is_dir():
        raise InputError(f"{folder}: is no folder; give another `out`")
    _refuse_present(files, with_key=request is None, overwrite=overwrite)
    key = None
    if request is None:
        key = new_key()
        public = key.public_key()
    else:
        public = _requested(request, party)
    made = authority.sign(party, public, hosts=hosts, days=days)
    if os.path.lexists(folder):
        _fill(folder, authority, party, made, key)
    else:
        with whole_folder(folder) as temporary:
            _fill(temporary, authority, party, made, key)
    return made


def _fill(
    folder: Path, authority: Authority, party: Party, made: x509.Certificate, key: Key | None
) -> None:
    """Write a party's files into a folder, the certificate last."""
    files = Files.in_folder(folder, party.name)
    if key is not None:
        write_key(files.key, key)
    for name in (CA, REVOKED):
        write_pem(folder / name, read_pem(authority.folder / name))
    write_pem(files.certificate, made.public_bytes(PEM))


def _refuse_present(files: Files, *, with_key: bool, overwrite: bool) -> None:
    problems = []
    if with_key and os.path.lexists(files.key):
        problems.append(f"{files.key}: exists already and is never replaced; give another `out`")
    if not overwrite and os.path.lexists(files.certificate):
        problems.append(f"{files.certificate}: exists already; give `overwrite` or another `out`")
    if problems:
        raise InputError(problems)


def _requested(path: Path, party: Party) -> ec.EllipticCurvePublicKey:
    """The key that a request is for; an error if it asks for another party's certificate."""
    request = read_request(path)
    who = party_of(request)
    if who != party:
        whose = "names no party" if who is None else f"is of {who}"
        raise InputError(f"{path}: {whose}: must be of {party}")
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def _make_folders(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {reason(error)}") from None


def _checked(days: int) -> int:
    if not 1 <= days <= MOST_DAYS:
        raise InputError(problem("days", days, f"a whole number from 1 to {MOST_DAYS}"))
    return days


def _is_called(certificate: x509.Certificate, name: str) -> bool:
    who = party_of(certificate)
    return who is not None and name in (who.name, f"{who.role}/{who.name}")
