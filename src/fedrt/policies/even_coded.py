"""CE-FedAvg whose updates are sent with 8 or 4 bits a number: an even split with fewer bits.

As the quantised FedAvg of A. Reisizadeh et al., "FedPAQ: A Communication-Efficient Federated
Learning Method with Periodic Averaging and Quantization", AISTATS 2020, with this project's codecs
and error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedrt.control.coding.menu import is_longer, place_in
from fedrt.errors import InputError
from fedrt.ledger import Books, Horizon
from fedrt.plan import Plan, coded_gossip_bits
from fedrt.policies.base import MENU, Needs
from fedrt.policies.ce_fedavg import CEFedAvg
from fedrt.world.observation import Observation


@dataclass(frozen=True)
class EvenCoded:
    """CE-FedAvg with one codec for all uploads, and for gossip; without one where it adds bits."""

    name: str
    codec: str
    energy_horizon: Horizon = "paper"
    needs: ClassVar[Needs] = frozenset({MENU})

    def plan(self, seen: Observation, books: Books) -> Plan:
        menu, sizes = seen.menu, (seen.model_bits, seen.buffer_bits)
        place = None if menu is None else place_in(menu, self.codec, *sizes)
        if menu is None or place is None:
            raise InputError(f"policy {self.name}: control.codecs must have {self.codec}")
        bits = np.full(seen.num_devices, menu.bits[place])
        coded = replace(seen, upload_bits=bits)
        gossips = seen.gossip_codec == "none" and not is_longer(self.codec, *sizes)
        if gossips:
            message = coded_gossip_bits(self.codec, seen)
            coded = replace(coded, gossip_codec=self.codec, gossip_bits=message)
        plan = CEFedAvg(self.energy_horizon).plan(coded, books)
        plan = replace(plan, codec=np.full(seen.num_devices, place))
        if plan.gossip is None or not gossips:
            return plan
        return replace(plan, gossip=replace(plan.gossip, codec=self.codec))


def even_int8() -> EvenCoded:
    """CE-FedAvg with 8 bits a number."""
    return EvenCoded("even-int8", "int8")


def even_int4() -> EvenCoded:
    """CE-FedAvg with 4 bits a number."""
    return EvenCoded("even-int4", "int4")
