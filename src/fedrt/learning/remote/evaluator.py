"""Evaluation of the edge servers' models by the coordinator, which has the test samples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedrt.data.split import OwnSamples, read_own
from fedrt.learning.distances import average, distance_to_average, pairwise_distance
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.evaluate import is_evaluated, make_evaluation, measure_models, measure_names
from fedrt.learning.exporting import Inputs
from fedrt.learning.material import check_labels, measure_for
from fedrt.learning.models.architectures import model_code
from fedrt.learning.remote.checks import refuse_unfit
from fedrt.learning.remote.orders import ModelInputs
from fedrt.learning.remote.parts import CommonParts, open_parts
from fedrt.messages import Raw
from fedrt.scenario.model import Scenario


class Evaluator:
    """The metrics of a run's models, to the same bits as the `Trainer`'s."""

    def __init__(self, parts: CommonParts, own: OwnSamples) -> None:
        learning, dataset = parts.scenario.learning, own.dataset(training=False)
        check_labels(learning, dataset)
        self.parts, self.own = parts, own
        device, dtype = torch.device("cpu"), parts.first_model.dtype
        self.samples = TensorSamples(dataset, dtype, device, learning.normalise)
        given = (parts.model, self.samples, parts.method.task, learning.dtype == "bfloat16")
        self.evaluate = make_evaluation(*given, form=None, compiled=False)
        self.began = time.monotonic()

    @classmethod
    def open(cls, scenario: Scenario, seed: int, file: Path) -> Evaluator:
        """The evaluation on the server's file of `fedrt data split`."""
        own = read_own(Path(file))
        refuse_unfit(scenario, own, seed, file)
        inputs = ModelInputs(own.shape, own.num_classes, own.integers)
        return cls(open_parts(scenario, seed, inputs), own)

    @property
    def inputs(self) -> ModelInputs:
        """What models take, for edge servers, which have no samples."""
        return self.parts.inputs

    @property
    def scenario(self) -> Scenario:
        """The scenario, with its `measured` settings as numbers."""
        given = (self.inputs.shape, self.inputs.num_classes, self.inputs.integers)
        return measure_for(self.parts.scenario, *given, self.parts.seed)

    @property
    def noted_inputs(self) -> dict[str, Any]:
        """What a run folder notes of its model's inputs, for `fedrt export`."""
        return asdict(Inputs.of(self.samples))

    @property
    def model_digest(self) -> str:
        """The digest of the architecture."""
        return self.parts.digest

    @property
    def data_digest(self) -> str:
        """The digest of the whole data set."""
        return self.own.data_digest

    def metrics(self, t: int, models: Sequence[Raw], loss: float) -> dict[str, float]:
        """What is recorded after the gossip of a global round.

        `models` are those of all edge servers by their numbers, `loss` is that of `mean_loss`.
        Measures are NaN in rounds without evaluation.
        """
        held, names = self._read(models), measure_names(self.parts.method.task)
        found: Sequence[float] = [np.nan] * len(names)
        if is_evaluated(self.parts.scenario, t):
            with model_code(self.parts.model.module):
                found = measure_models(self.evaluate, held)
        apart = distance_to_average(held[:, : self.parts.size])
        return self._timed(loss, apart, dict(zip(names, found, strict=True)))

    def unknown(self, loss: float) -> dict[str, float]:
        """What is recorded where the models have not come: the loss, and nothing of them."""
        return self._timed(
            loss, np.nan, dict.fromkeys(measure_names(self.parts.method.task), np.nan)
        )

    def _timed(self, loss: float, apart: float, measures: dict[str, float]) -> dict[str, float]:
        now = time.monotonic()
        wall_s, self.began = now - self.began, now
        return {"loss": loss, "consensus": apart, **measures, "wall_s": wall_s}

    def distances(self, models: Sequence[Raw]) -> NDArray[np.float64]:
        """How far every two of the edge servers' models are apart."""
        return pairwise_distance(self._read(models)[:, : self.parts.size])

    def average(self, models: Sequence[Raw]) -> bytes:
        """The average of the edge servers' models, to be exported."""
        return self.parts.pack(average(self._read(models)))

    def arrays(self, models: Sequence[Raw]) -> NDArray[Any]:
        """The edge servers' models as a checkpoint of a run has them, one in each row."""
        return self._read(models).numpy()

    @property
    def first_model(self) -> NDArray[Any]:
        """The model of all edge servers before the first round."""
        return self.parts.first_model.numpy()

    def packed(self, model: NDArray[Any] | None) -> bytes:
        """The bytes of a model; None: the first one."""
        return self.parts.pack(self.first_model if model is None else model)

    def _read(self, models: Sequence[Raw]) -> Tensor:
        return torch.stack([self.parts.unpack(model, "an edge model") for model in models])
