"""Training on one device, with its own samples; torch is loaded when it first trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrt.data.split import OwnSamples, read_own
from fedrt.errors import InputError, MessageError
from fedrt.learning.remote.checks import refuse_unfit
from fedrt.learning.remote.orders import LocalOrder, LocalResult, ModelInputs
from fedrt.messages import Raw
from fedrt.scenario.model import Scenario

if TYPE_CHECKING:
    from fedrt.learning.remote.device_steps import DeviceSteps

LEFT, PENDING = "left", "pending"


class LocalTrainer:
    """Trains one device of a scenario as the sequential engine does, to the same bits.

    What a message left out of an update goes into the next one once the edge server has said that
    the message arrived (`settle`); until then both are kept, and an order that comes again is
    carried out again with the same result.
    """

    def __init__(self, scenario: Scenario, seed: int, number: int, own: OwnSamples) -> None:
        self.scenario, self.seed, self.number, self.own = scenario, seed, number, own
        self.left: NDArray[Any] | None = None
        """What the messages that arrived have left out; None before the first."""
        self.pending: NDArray[Any] | None = None
        """The same with the last message, of which nothing is known yet."""
        self.threads: int | None = None
        """How many threads of the processor training takes; None: as torch is set."""

    @classmethod
    def open(
        cls,
        scenario: Scenario,
        seed: int,
        number: int,
        data_file: Path,
        inputs: ModelInputs | None = None,
    ) -> LocalTrainer:
        """The trainer of a device with the file that `fedrt data split` wrote for it.

        An error names what does not fit together; `inputs` are what the other parties have.
        """
        own = read_own(Path(data_file), number)
        made = cls(scenario, seed, number, own)
        refuse_unfit(scenario, own, seed, data_file)
        if inputs is not None and inputs != made.inputs:
            raise InputError(f"{data_file}: has {made.inputs}: the run's are {inputs}")
        return made

    @property
    def samples(self) -> int:
        """The number of samples that it trains on."""
        return len(self.own.labels)

    @property
    def data_digest(self) -> str:
        """The digest of the whole data set, as its file has it."""
        return self.own.data_digest

    @property
    def inputs(self) -> ModelInputs:
        """What a model takes of these samples."""
        return ModelInputs(self.own.shape, self.own.num_classes, self.own.integers)

    @cached_property
    def steps(self) -> DeviceSteps:
        """Model, samples and engine. Loads torch."""
        from fedrt.learning.remote.device_steps import DeviceSteps

        return DeviceSteps.open(self.scenario, self.seed, self.number, self.own)

    def load(self) -> DeviceSteps:
        """Load torch and the model, so that the first training takes no longer than others."""
        return self.steps

    def warm(self) -> None:
        """Train and code once for nothing: what has to be compiled then is."""
        self.steps.warm()

    @property
    def model_digest(self) -> str:
        """The digest of the architecture. Loads torch."""
        return self.steps.parts.digest

    @property
    def model_bytes(self) -> int:
        """The length of a whole model. Loads torch."""
        return self.steps.parts.model_bytes

    def train(
        self,
        order: LocalOrder,
        model: Raw,
        after_step: Callable[[], None] | None = None,
        held: AbstractContextManager[Any] | None = None,
    ) -> LocalResult:
        """Carry out the local steps of an order from a model, and code what is sent of them.

        `after_step` is called after each step; the time that it takes is training time. All steps
        are within `held`, and nothing else is.
        """
        if order.problem is not None:
            raise MessageError(order.problem)
        held = nullcontext() if held is None else held
        given = (order, model, self.left, after_step, held, self.threads)
        result, self.pending = self.steps.train(*given)
        return result

    def settle(self, accepted: bool = True) -> None:
        """Keep what the last message left out if it arrived; else what was left before."""
        if accepted and self.pending is not None:
            self.left = self.pending
        self.pending = None

    def state(self) -> dict[str, NDArray[Any]]:
        """What must survive a restart."""
        held = {LEFT: self.left, PENDING: self.pending}
        return {name: array for name, array in held.items() if array is not None}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; an error if it cannot be that of this device."""
        found: dict[str, NDArray[Any]] = {}
        for name in (LEFT, PENDING):
            if name in state:
                array = np.array(state[name])
                if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
                    raise InputError(f"the saved state: {name} must be finite numbers")
                found[name] = array
        self.left, self.pending = found.get(LEFT), found.get(PENDING)
