"""Making and reading certificates, requests and revocation lists: ECDSA over P-256, X.509."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrt.devices.security.party import DOMAIN, NAME, Party
from fedrt.errors import InputError
from fedrt.validation import problem

Key = ec.EllipticCurvePrivateKey
PEM = serialization.Encoding.PEM
CLOCK_SKEW = timedelta(minutes=5)
"""How far the clock of another party may be behind the authority's."""
_HASH = hashes.SHA256()
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


def new_key() -> Key:
    """A new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_text(key: Key) -> bytes:
    """The private key as PEM, unencrypted."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def now() -> datetime:
    """The current time, in whole seconds as certificates have them."""
    return datetime.now(UTC).replace(microsecond=0)


def make_authority(key: Key, name: str, until: datetime) -> x509.Certificate:
    """A certificate authority's own certificate; it signs parties and no other authorities."""
    subject = _named(name)
    builder = _builder(subject, subject, key.public_key(), x509.random_serial_number(), until)
    uses = _key_usage(key_cert_sign=True, crl_sign=True)
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(uses, critical=True)
        .sign(key, _HASH)
    )


def make_certificate(
    authority: x509.Certificate,
    authority_key: Key,
    party: Party,
    public_key: ec.EllipticCurvePublicKey,
    *,
    generation: int,
    hosts: Sequence[x509.GeneralName],
    until: datetime,
) -> x509.Certificate:
    """A certificate of a party; only an edge server's lets it be called."""
    serial = party.new_serial(generation)
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(party.uri)]
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if party.role == "edge":
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names += [x509.DNSName(party.host_name(g)) for g in range(generation + 1)]
        names += hosts
    builder = _builder(_named(party.name), authority.subject, public_key, serial, until)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, _HASH)
    )


def make_request(key: Key, party: Party) -> x509.CertificateSigningRequest:
    """A request for a party's certificate: its public key and who it is, signed with its key."""
    uri = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(party.uri)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(_named(party.name))
    return builder.add_extension(uri, critical=False).sign(key, _HASH)


def make_revocations(
    authority: x509.Certificate, authority_key: Key, revoked: dict[int, datetime], number: int
) -> x509.CertificateRevocationList:
    """A revocation list: serial numbers and when each was revoked."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now() - CLOCK_SKEW)
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for serial, when in sorted(revoked.items()):
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(authority_key, _HASH)


def host_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Addresses and DNS names of a server's machine as a certificate has them."""
    found: list[x509.GeneralName] = []
    problems = []
    for host in hosts:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
            continue
        except ValueError:
            pass
        parts = host.lower().split(".")
        if all(map(NAME.fullmatch, parts)) and parts[-1] != DOMAIN and len(host) <= 253:
            found.append(x509.DNSName(host.lower()))
        else:
            rule = f"an IP address or a DNS name outside .{DOMAIN}, without wildcards"
            problems.append(problem("host", host, rule))
    if problems:
        raise InputError(problems)
    return found


def party_of(item: x509.Certificate | x509.CertificateSigningRequest) -> Party | None:
    """Whom a certificate or a request names; None where it names no party of ours."""
    try:
        names = item.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return Party.from_uris(names.get_values_for_type(x509.UniformResourceIdentifier))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None


def crl_number(revocations: x509.CertificateRevocationList) -> int | None:
    """The number of a revocation list, which grows from one to the next; None if it has none."""
    try:
        return revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return None


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_p256(key: object) -> bool:
    """Whether a key, public or private, is one for ECDSA over P-256."""
    kinds = ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey
    return isinstance(key, kinds) and isinstance(key.curve, ec.SECP256R1)


def blocks(text: bytes, kind: str) -> list[bytes]:
    """The PEM blocks of one kind in a text, e.g. CERTIFICATE."""
    return [found[0] for found in _BLOCK.finditer(text) if found[1] == kind.encode()]


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    serial: int,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(now() - CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(**used: bool) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: used.get(name, False) for name in names})
