"""PEM files of certificates, keys, requests and revocation lists: reading and writing."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fedrt.devices.security.certificates import Key, blocks, is_p256, key_text
from fedrt.errors import FedrtError, InputError, reason
from fedrt.system.files import write_whole
from fedrt.system.inputs import read_bytes
from fedrt.system.torn import torn_file

MOST_BYTES = 4 * 2**20
"""Bytes of a PEM file; a revocation list with 50,000 entries has 3 MB."""


def read_pem(path: Path) -> bytes:
    """The bytes of a PEM file."""
    try:
        return read_bytes(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def parse_certificates(text: bytes, path: object) -> list[x509.Certificate]:
    """The certificates of a PEM text, at least one."""
    try:
        found = [x509.load_pem_x509_certificate(each) for each in blocks(text, "CERTIFICATE")]
    except ValueError as error:
        raise InputError(f"{path}: no certificate can be read: {reason(error)}") from None
    if not found:
        raise InputError(f"{path}: must have a certificate (PEM)")
    return found


def parse_revocations(text: bytes, path: object) -> list[x509.CertificateRevocationList]:
    """The revocation lists of a PEM text, at least one."""
    try:
        found = [x509.load_pem_x509_crl(each) for each in blocks(text, "X509 CRL")]
    except ValueError as error:
        raise InputError(f"{path}: no revocation list can be read: {reason(error)}") from None
    if not found:
        raise InputError(f"{path}: must have a revocation list (PEM)")
    return found


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file."""
    return parse_certificates(read_pem(path), path)[0]


def read_key(path: Path) -> Key:
    """The private key of a PEM file that only its owner can read."""
    text = read_pem(path)
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise InputError(f"{path}: has mode {mode:04o}: only its owner may read a key (chmod 600)")
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path}: no private key can be read (PEM, without password)") from None
    if not is_p256(key):
        raise InputError(f"{path}: must be an ECDSA key over P-256")
    assert isinstance(key, Key)
    return key


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """The request of a PEM file, signed with the key that it is for."""
    try:
        request = x509.load_pem_x509_csr(read_pem(path))
        good = request.is_signature_valid and is_p256(request.public_key())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path}: no request can be read: {reason(error)}") from None
    if not good:
        raise InputError(f"{path}: must be signed with the ECDSA key over P-256 that it is for")
    return request


def write_key(path: Path, key: Key) -> None:
    """Write a private key that only its owner can read; one that is there is never replaced."""
    try:
        with torn_file(path, 0o600) as temporary:
            temporary.write_bytes(key_text(key))
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.link(temporary, path)
    except FileExistsError:
        raise InputError(f"{path}: exists already; a key is never replaced") from None
    except OSError as error:
        raise FedrtError(f"{path}: cannot be written: {reason(error)}") from error


def write_pem(path: Path, text: bytes) -> None:
    """Write a PEM file that everybody may read, atomically."""

    def fill(temporary: Path) -> None:
        temporary.write_bytes(text)

    write_whole(path, fill)
