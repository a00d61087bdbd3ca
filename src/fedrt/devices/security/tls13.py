"""TLS 1.3 alone: what must be set before gRPC is loaded.

gRPC for Python has no setting for the version of TLS and accepts 1.2 too. It reads the cipher
suites of TLS 1.2 from the environment when it is loaded; those of 1.3 are not affected. The one set
here needs a key that both sides share beforehand, which gRPC never has: TLS 1.2 finds nothing to
agree on, whatever key a certificate has. Importing `fedrt.devices` or anything in it sets this.
"""

from __future__ import annotations

import os
import sys

from fedrt.errors import FedrtError

VARIABLE = "GRPC_SSL_CIPHER_SUITES"
CIPHERS = "ECDHE-PSK-AES128-CBC-SHA"
"""The only cipher suite of TLS 1.2 that gRPC is left with, and cannot use."""


def require_tls_13() -> None:
    """Keep gRPC from agreeing on TLS 1.2; an error if it was loaded without that."""
    if os.environ.get(VARIABLE) != CIPHERS:
        if "grpc" in sys.modules:
            raise FedrtError(
                "gRPC was loaded before fedrt.devices and would accept TLS 1.2:"
                f" import fedrt.devices first, or set {VARIABLE}={CIPHERS}"
            )
        os.environ[VARIABLE] = CIPHERS
    # A line for every failed handshake of a stranger would fill the disk.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
