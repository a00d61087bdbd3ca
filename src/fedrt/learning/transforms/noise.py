"""Gaussian noise, added to every number of an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedrt.scenario.tables.fields import setting
from fedrt.seeding import stream
from fedrt.validation import Real

if TYPE_CHECKING:
    from torch import Tensor

    from fedrt.learning.transforms.base import UpdateKey


@dataclass(frozen=True)
class GaussianNoise:
    """Adds Gaussian noise to every number of an update.

    u <- u + sigma z with independent standard normal numbers z, which follow from the run's seed,
    the round and the device.
    """

    kind: ClassVar[str] = "noise"
    sigma: float = setting(Real(least=0, most=1e6))
    """The standard deviation of what is added to a number."""

    def apply(
        self, update: Tensor, state: Tensor | None, key: UpdateKey
    ) -> tuple[Tensor, Tensor | None]:
        """The update with its noise."""
        import torch

        generator = stream(key.seed, "update noise", key.t, key.r, key.device)
        drawn = self.sigma * generator.standard_normal(len(update))
        return update + torch.from_numpy(drawn).to(update), state
