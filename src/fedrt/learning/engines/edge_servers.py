"""Edge servers between edge rounds: their models, and what they remember of devices and averages.

The simulated edge servers of a run, all together, and a real one by itself do the same here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.errors import InputError
from fedrt.learning.codecs import ErrorFeedback
from fedrt.learning.codecs.guard import Guard
from fedrt.learning.engines.engine import Screening, Trained, TrainingOrder
from fedrt.learning.engines.method import Method
from fedrt.learning.engines.past import ScreeningPast
from fedrt.learning.engines.scaffold import Variates
from fedrt.learning.servers import Servers
from fedrt.messages import UNCOMPRESSED
from fedrt.rounds import ACCEPTED, NOT_STEPPED
from fedrt.scenario.faults import screening_norm
from fedrt.scenario.model import Scenario

IntArray = NDArray[np.int64]


class EdgeServers:
    """One or several edge servers: models, guard of codecs, server optimiser and variates.

    Devices have a row each in what is remembered of them, which orders name as `state_row`.
    """

    def __init__(
        self,
        method: Method,
        first_model: Tensor,
        num_parameters: int,
        edge_of_device: IntArray,
        num_edges: int,
        *,
        scaffold: bool,
    ) -> None:
        self.method, self.num_parameters = method, num_parameters
        self.num_devices = len(edge_of_device)
        self.models = first_model.repeat(num_edges, 1)
        coded = isinstance(method.codec, ErrorFeedback)
        self.guard = Guard(self.num_devices) if coded else None
        self.servers: Servers | None = None
        if method.server_optimiser is not None:
            self.servers = Servers(method.server_optimiser, self.models, num_parameters)
        self.variates: Variates | None = None
        if scaffold:
            like = first_model[:num_parameters].cpu().numpy()
            self.variates = Variates(edge_of_device, num_edges, like)
        self.loss_sum, self.steps = 0.0, 0
        self.past: ScreeningPast | None = None
        """What it remembers of updates; None where these are not screened."""

    def screen(self, screening: Screening | None) -> None:
        """Remember the updates that are screened from now on."""
        if screening is not None and screening.most_norm is not None:
            self.past = ScreeningPast(len(self.models), self.num_devices, self.num_parameters)

    def let_plans_choose(self) -> bool:
        """Make ready for codecs that plans choose; whether this is the first of them."""
        if self.guard is not None:
            return False
        if self.method.codec is not None:
            rule = "a shipped one where a policy chooses codecs"
            raise InputError(f"scenario.learning.upload: must be {rule}")
        self.guard = Guard(self.num_devices)
        return True

    def completed(self, order: TrainingOrder) -> TrainingOrder:
        """The order with SCAFFOLD's corrections and the codecs that devices may use."""
        row, edge, variates = order.state_row, order.edge_of_device, self.variates
        assert row is not None
        if self.past is not None:
            order = self.past.ordered(order)
        if variates is not None:
            order = replace(order, correction=variates.correction(row, edge))
        if self.guard is None or not self.guard.least[row].any():
            return order
        names = self.guard.allowed(row, self.codecs(order), self.num_parameters)
        return with_codecs(order, names)

    def codecs(self, order: TrainingOrder) -> list[str]:
        """The name of each device's codec; of those that a scenario or a plan names."""
        if order.codec is not None:
            return [order.menu[number] for number in order.codec.tolist()]
        codec = self.method.codec
        name = codec.name if isinstance(codec, ErrorFeedback) else UNCOMPRESSED
        return [name] * len(order.devices)

    def take(self, order: TrainingOrder, trained: Trained) -> IntArray | None:
        """Go on to the averages of an edge round.

        For each device of the order, the codec that it is stepped up to; None if all keep theirs.
        """
        counted = trained.refused == ACCEPTED
        if self.past is not None:
            moves = (trained.models - self.models)[:, : self.num_parameters]
            self.past.after(order, trained.devices, moves.cpu().numpy())
        if self.variates is not None:
            self.variates.after(order, trained.devices)
        edges = np.unique(order.edge_of_device[counted])
        before, self.models = self.models, trained.models
        if self.servers is not None:
            self.models = self.servers.step(before, trained.models, edges)
        self.loss_sum += float(trained.loss_sum[counted].sum())
        self.steps += int(order.local_steps[counted].sum())
        if self.guard is None:
            return None
        assert order.state_row is not None
        norms = (trained.devices.update_norm, trained.devices.left_norm)
        stepped_up = self.guard.after(order.state_row, self.codecs(order), *norms)
        return None if (stepped_up == NOT_STEPPED).all() else stepped_up

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything on which the next rounds depend."""
        servers = {} if self.servers is None else self.servers.state()
        variates = {} if self.variates is None else self.variates.state()
        past = {} if self.past is None else self.past.state()
        found = {**servers, **variates, **past, "models": self.models.cpu().numpy()}
        if self.guard is not None:
            found["guard"] = self.guard.state()
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state."""
        models = torch.from_numpy(np.array(state["models"]))
        self.models = models.to(device=self.models.device, dtype=self.models.dtype)
        if self.guard is not None:
            self.guard.restore(state)
        if self.servers is not None:
            self.servers.restore(state)
        if self.variates is not None:
            self.variates.restore(state)
        if self.past is not None:
            self.past.restore(state)


def with_codecs(order: TrainingOrder, names: Sequence[str]) -> TrainingOrder:
    """The order in which each device sends with the codec of that name."""
    menu = tuple(dict.fromkeys(names))
    return replace(order, codec=np.array([menu.index(name) for name in names]), menu=menu)


def screening_of(scenario: Scenario, seed: int, *, real: bool = False) -> Screening | None:
    """The scenario's screening of updates, simulated or on real devices; None if all are used."""
    attack = None if scenario.faults is None else scenario.faults.attack
    most_norm = screening_norm(scenario, real=real)
    if most_norm is None and attack is None:
        return None
    return Screening(most_norm=most_norm, attack=attack, seed=seed)
