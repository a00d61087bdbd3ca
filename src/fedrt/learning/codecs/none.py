"""No codec: devices send their models as they are."""

from __future__ import annotations

from fedrt.scenario.model import Learning


def no_codec(learning: Learning) -> None:
    """No codec: models are sent as they are, and a message is as long as the model in memory."""
