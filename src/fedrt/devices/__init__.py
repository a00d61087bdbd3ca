"""Real devices: coordinator, edge servers and devices that talk over mutual TLS."""

from __future__ import annotations

from fedrt.devices.security.tls13 import require_tls_13
from fedrt.system.extras import need

for _library in ("grpc", "cryptography"):
    need("real devices", _library)
require_tls_13()
