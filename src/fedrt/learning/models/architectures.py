"""Architectures: the paper's two models, two small ones, and users' own by import path.

A factory takes the shape of one input (channels, height, width) and the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from fedrt.errors import FedrtError, InputError
from fedrt.learning.tasks import make_task
from fedrt.scenario.model import Learning
from fedrt.seeding import stream
from fedrt.system.blame import told, user_place
from fedrt.system.plugins import load_plugin
from fedrt.validation import hint, problem

Shape = tuple[int, ...]
Factory = Callable[[Shape, int], nn.Module]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions; where the shape changes the shortcut is strided and zero-padded."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.stride, self.extra = stride, (outputs - inputs) // 2

    def forward(self, x: Tensor) -> Tensor:
        y = fn.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        if self.stride > 1 or self.extra:
            x = x[:, :, :: self.stride, :: self.stride]
            x = fn.pad(x, (0, 0, 0, 0, self.extra, self.extra))
        return fn.relu(x + y)


class ResNet20(nn.Module):
    """The CIFAR form: 3 stages of 3 blocks with 16, 32 and 64 channels."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(shape[0], 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = [16, 16, 16, 32, 32, 32, 64, 64, 64]
        self.blocks = nn.Sequential(
            *(
                ResidualBlock(before, width, 2 if width > before else 1)
                for before, width in zip([16, *widths], widths, strict=False)
            )
        )
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(fn.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


class LeNet5(nn.Module):
    """20 and 50 5x5 convolutions, each pooled, and a layer of 500 units."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        side = ((shape[1] - 4) // 2 - 4) // 2
        self.hidden = nn.Linear(50 * side * side, 500)
        self.head = nn.Linear(500, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = fn.max_pool2d(fn.relu(self.conv1(x)), 2)
        x = fn.max_pool2d(fn.relu(self.conv2(x)), 2)
        return self.head(fn.relu(self.hidden(x.flatten(1))))


class SmallCNN(nn.Module):
    """Two 3x3 convolutions with 16 and 32 channels, each pooled: 6,090 parameters on digits."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32 * (shape[1] // 4) * (shape[2] // 4), classes)

    def forward(self, x: Tensor) -> Tensor:
        x = fn.max_pool2d(fn.relu(self.conv1(x)), 2)
        x = fn.max_pool2d(fn.relu(self.conv2(x)), 2)
        return self.head(x.flatten(1))


class SmoothCNN(SmallCNN):
    """The small CNN with average pooling and tanh: its gradient has no jumps.

    Max pooling passes a window's gradient to its greatest value and a rectifier cuts at 0, so one
    rounding error decides where a gradient goes when values are equal, as blank borders make them.
    Here rounding errors stay rounding errors, and runs agree on all processors.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = fn.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = fn.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.head(x.flatten(1))


MODELS: dict[str, Factory] = {
    "resnet20": ResNet20,
    "lenet5": LeNet5,
    "small-cnn": SmallCNN,
    "smooth-cnn": SmoothCNN,
}


def model_for(
    learning: Learning, shape: Shape, classes: int, seed: int, integers: bool = False
) -> nn.Module:
    """The initial model of a scenario, checked to fit its task.

    `integers`: its inputs are whole numbers, such as tokens.
    """
    outputs = make_task(learning).output_shape(classes, shape)
    return make_model(learning.model, shape, classes, seed, outputs, integers)


def make_model(
    name: str,
    shape: Shape,
    classes: int,
    seed: int,
    outputs: Shape | None = None,
    integers: bool = False,
) -> nn.Module:
    """The initial model, as a function of (name, shape, classes, seed).

    Convolutions of the shipped models are He-normal; a user's module keeps its own start.
    `outputs` is the shape of what it must give for a sample; None: one score for each class.
    """
    factory = MODELS.get(name)
    if factory is None and ":" not in name:
        known = list(MODELS)
        rule = f"one of {', '.join(known)}, or an import path, package:Name{hint(name, known)}"
        raise InputError(problem("scenario.learning.model", name, rule))
    maker = factory or load_plugin(name, "scenario.learning.model")
    # Modules draw their first weights from torch's own generator: seed it here, then put it back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "model").integers(2**63)))
        try:
            model = maker(shape, classes)
        except Exception as error:
            text = f"scenario.learning.model = {name!r}: cannot be made for inputs of {shape}"
            raise InputError(f"{text} and {classes} classes: {told(error)}") from error
        if factory is not None:
            for layer in model.modules():
                if isinstance(layer, nn.Conv2d):
                    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if not isinstance(model, nn.Module):
        raise InputError(f"scenario.learning.model = {name!r}: must make a torch.nn.Module")
    wanted = (classes,) if outputs is None else tuple(outputs)
    check_fit(model, name, shape, wanted, integers)
    return model


def _blank(model: nn.Module, shape: Shape, integers: bool) -> Tensor:
    """Inputs of a shape that are all 0, in the type that the model takes."""
    dtype = next((p.dtype for p in model.parameters()), torch.float32)
    return torch.zeros(shape, dtype=torch.int64 if integers else dtype)


def check_fit(
    model: nn.Module, name: str, shape: Shape, outputs: Shape, integers: bool = False
) -> None:
    """Raise an error about a model whose outputs have the wrong shape for such inputs."""
    text = f"scenario.learning.model = {name!r}: does not fit inputs of {shape}"
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = model(_blank(model, (2, *shape), integers))
    except Exception as error:
        raise InputError(f"{text}: {told(error)}") from error
    finally:
        model.train(was_training)
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError(f"scenario.learning.model = {name!r}: has no parameters to train")
    got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
    if got != (2, *outputs):
        raise InputError(f"{text}: it gives {got} for two of them: must give {(2, *outputs)}")


def check_trains(
    model: nn.Module, name: str, shape: Shape, batch_size: int, integers: bool = False
) -> None:
    """Raise an error about a model that cannot make a training step with this batch size."""
    count = min(batch_size, 2)
    trial = deepcopy(model).train()
    try:
        with torch.random.fork_rng(devices=[]):
            scores = trial(_blank(trial, (count, *shape), integers))
            torch.autograd.backward(scores.sum())
    except Exception as error:
        text = f"scenario.learning.model = {name!r}: cannot train on inputs of {(count, *shape)}"
        raise InputError(f"{text}: {told(error)}") from error


@contextmanager
def model_code(model: nn.Module) -> Iterator[None]:
    """Turn exceptions of a user's own model in the block into one-line errors."""
    try:
        yield
    except FedrtError:
        raise
    except Exception as error:
        if user_place(error) is None:
            raise  # no line of the user's took part
        kind = type(model)
        raise InputError(
            f"scenario.learning.model: {kind.__module__}:{kind.__qualname__} failed on real data:"
            f" {told(error)}"
        ) from error


def parameter_count(model: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def forward_multiply_adds(model: nn.Module, shape: Shape, integers: bool = False) -> float:
    """The multiply-adds of a forward pass of one input, measured."""
    from torch.utils.flop_counter import FlopCounterMode

    was_training = model.training
    model.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(_blank(model, (1, *shape), integers))
    model.train(was_training)
    return counter.get_total_flops() / 2


def cycles_per_sample(model: nn.Module, shape: Shape, integers: bool = False) -> float:
    """The CPU cycles to train on one sample: 3 x the forward multiply-adds.

    One operation counts as one cycle.
    """
    return 3.0 * forward_multiply_adds(model, shape, integers)
