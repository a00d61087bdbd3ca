"""Certificates, TLS and who may call what, for real devices (docs/security.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrt.system.lazy import export

if TYPE_CHECKING:
    from fedrt.devices.security.connections import Channels as Channels
    from fedrt.devices.security.connections import RevokedServerError as RevokedServerError
    from fedrt.devices.security.connections import ended as ended
    from fedrt.devices.security.connections import open_channel as open_channel
    from fedrt.devices.security.connections import server_credentials as server_credentials
    from fedrt.devices.security.connections import server_name as server_name
    from fedrt.devices.security.connections import until_revoked as until_revoked
    from fedrt.devices.security.connections import why_unavailable as why_unavailable
    from fedrt.devices.security.files import Files as Files
    from fedrt.devices.security.gate import Access as Access
    from fedrt.devices.security.gate import Gate as Gate
    from fedrt.devices.security.gate import caller as caller
    from fedrt.devices.security.limits import Limits as Limits
    from fedrt.devices.security.party import Party as Party
else:
    __getattr__, __dir__, __all__ = export(
        __name__,
        {
            "connections": (
                "Channels RevokedServerError ended open_channel server_credentials server_name "
                "until_revoked why_unavailable"
            ),
            "files": "Files",
            "gate": "Gate Access caller",
            "party": "Party",
            "limits": "Limits",
        },
    )
