"""Small training tasks for tests, and modules that stand for a user's own."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as fn

from fedrt.data.batches import Batches
from fedrt.data.catalogue import Dataset
from fedrt.learning.engines.engine import Engine, TrainingOrder
from fedrt.learning.engines.method import Method, make_method
from fedrt.learning.engines.samples import TensorSamples
from fedrt.learning.material import DTYPES
from fedrt.learning.models.architectures import MODELS, LeNet5, ResNet20, make_model
from fedrt.learning.models.flat import FlatModel
from fedrt.learning.setup import ENGINES
from fedrt.scenario import Scenario
from support.tiny import tiny

# Small models are quicker on one thread, and test processes share the cores; a variant of
# `tools/other_processors.sh` asks for two.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

CPU = torch.device("cpu")
SHAPES = {
    "resnet20": (3, 8, 8),
    "lenet5": (1, 16, 16),
    "small-cnn": (1, 8, 8),
    "smooth-cnn": (1, 8, 8),
    "support.learning_cases:WithDropout": (1, 4, 4),
    "support.learning_cases:smooth_resnet20": (3, 8, 8),
    "support.learning_cases:smooth_lenet5": (1, 16, 16),
}
SMOOTH = (
    "support.learning_cases:smooth_resnet20",
    "support.learning_cases:smooth_lenet5",
    "smooth-cnn",
)
SAME_EVERYWHERE = [
    *(("float32", model) for model in SMOOTH),
    *(("float64", model) for model in MODELS),
]
"""What engines are compared on. A value within rounding of a rectifier's 0, or of another in its
window, sends its gradient elsewhere on another processor: among ResNet-20's in these cases one lies
4e-7 from 0, relative to the greatest. Float64 rounds at 1e-16, so the models are held equal there;
in float32 they train with GELU and average pooling instead."""
LEARNING = (
    'learning.dataset="digits"',
    'learning.model="small-cnn"',
    "learning.model_bits=194880",
    "learning.learning_rate=0.05",
    "learning.batch_size=8",
    'learning.partition={kind="dirichlet",concentration=1.0,form="class"}',
    "rounds={global_rounds=4,edge_rounds=2,local_steps=2,gossip_steps=1}",
)


def small(*settings: str) -> Scenario:
    """Seven devices on three servers that train on digits, with further `key=value` settings."""
    return tiny(*LEARNING, *settings)


def method(learning_rate: float = 0.05, *settings: str) -> Method:
    """What the cases' devices and edge servers compute with."""
    return make_method(small(f"learning.learning_rate={learning_rate}", *settings))


def noise(shape: tuple[int, ...], classes: int = 5, train: int = 90, test: int = 20) -> Dataset:
    """Random images (channels first as models see them) with random labels."""
    rng = np.random.default_rng(7)
    channels, height, width = shape

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        images = rng.integers(0, 256, (count, height, width, channels), dtype=np.uint8)
        return images, rng.integers(0, classes, count)

    return Dataset("noise", *draw(train), *draw(test), classes)


@dataclass
class Case:
    """An engine with an edge round to train, and all it was made from."""

    engine: Engine
    order: TrainingOrder
    models: Tensor
    modules: list[nn.Module]
    """The edge models again, as modules of their own."""
    flat: FlatModel
    samples: TensorSamples
    batches: Batches
    learning_rate: float

    def train(self, **changes: object) -> Tensor:
        """The models after the order, or after one with other fields."""
        return self.engine.train(self.models, replace(self.order, **changes)).models

    def named(self, state: Tensor) -> dict[str, Tensor]:
        """A flat state by the names of the module's parts."""
        self.flat.load(state)
        return {name: part.clone() for name, part in self.flat.module.state_dict().items()}


def engine_case(
    engine: str = "sequential",
    model: str = "small-cnn",
    dtype: str = "float32",
    *,
    augment: bool = False,
    learning_rate: float = 0.05,
    data: Dataset | None = None,
) -> Case:
    """Seven devices on edges 0, 1 and 3 of four, of uneven data and local steps."""
    shape, kind = SHAPES[model], DTYPES[dtype]
    data = data or noise(shape)
    samples = TensorSamples(data, kind, CPU)
    # Devices 2 and 5 of the fleet stay away; device 0 holds fewer samples than a batch.
    parts = np.split(np.random.default_rng(3).permutation(90), [2, 12, 25, 40, 52, 60, 75, 80])
    batches = Batches(parts, 4, seed=11)
    scenario = small()
    learning = replace(scenario.learning, learning_rate=learning_rate, augment=augment)
    scenario = replace(scenario, learning=learning)
    modules = [make_model(model, shape, data.num_classes, seed).to(kind) for seed in range(4)]
    flat = FlatModel(make_model(model, shape, data.num_classes, 99), kind, CPU)
    order = TrainingOrder(
        t=3,
        r=1,
        devices=np.array([0, 1, 3, 4, 6, 7, 8]),
        edge_of_device=np.array([0, 0, 1, 1, 1, 3, 3]),
        local_steps=np.array([3, 1, 2, 3, 3, 2, 1]),
        weight=np.array([0.5, 0.5, 0.2, 0.3, 0.5, 0.75, 0.25]),
    )
    models = torch.stack([state_vector(module) for module in modules])
    made = ENGINES[engine](flat, samples, batches, scenario)
    return Case(made, order, models, modules, flat, samples, batches, learning_rate)


def state_vector(module: nn.Module) -> Tensor:
    """A module's state as one row: parameters, then buffers, then counts."""
    parts = [*module.parameters(), *module.buffers()]
    floats = [part.detach().reshape(-1) for part in parts if part.is_floating_point()]
    counts = [part.reshape(-1) for part in parts if not part.is_floating_point()]
    return torch.cat([*floats, *(count.to(floats[0].dtype) for count in counts)])


def smoothed(module: nn.Module) -> nn.Module:
    """The module with GELU for rectifiers and average for max pooling: no jumps in its gradient."""
    traced = fx.symbolic_trace(module)
    smooth = {fn.relu: fn.gelu, fn.max_pool2d: fn.avg_pool2d}
    for node in traced.graph.nodes:
        if node.target in smooth:
            node.target = smooth[node.target]
            node.kwargs = {}
    traced.recompile()
    for layer in traced.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return traced


def smooth_resnet20(shape: tuple[int, ...], classes: int) -> nn.Module:
    return smoothed(ResNet20(shape, classes))


def smooth_lenet5(shape: tuple[int, ...], classes: int) -> nn.Module:
    return smoothed(LeNet5(shape, classes))


class Linear(nn.Module):
    """A user's module: one layer with first weights of its own."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(int(np.prod(shape)), classes)
        nn.init.constant_(self.layer.bias, 0.25)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


class WithDropout(Linear):
    """A user's module that draws numbers of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(x, 0.5, self.training))


class WrongShape(Linear):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(shape, classes + 1)


class WrongInput(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class ReturnsTuple(Linear):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(x), x


class NoGradient(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class NoParameters(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.classes = classes

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, : self.classes]


class Frozen(Linear):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(shape, classes)
        self.requires_grad_(False)


class Raises(nn.Module):
    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        raise ValueError(f"only for\n{classes + 1} classes")


class TakesNothing(nn.Module):
    pass


def no_module(shape: tuple[int, ...], classes: int) -> str:
    return "a module"


NOT_CALLABLE = 3
