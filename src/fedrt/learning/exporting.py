"""Trained models outside of FedRT: as modules of torch, and as files of other tools."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedrt.errors import InputError, reason
from fedrt.learning.distances import average
from fedrt.learning.engines.samples import TensorSamples, normalised
from fedrt.learning.material import DTYPES
from fedrt.learning.models.architectures import model_for
from fedrt.learning.models.flat import FlatModel
from fedrt.scenario import Scenario
from fedrt.system.extras import MissingLibraryError, need
from fedrt.system.files import write_whole
from fedrt.validation import Flag, Listed, Real, Rule, Whole, keys_of, problem

AVERAGE, EDGE = "average", "edge:"
KEYS = ("shape", "num_classes", "mean", "scale", "bytes", "images")
INTEGERS = "integers"


@dataclass(frozen=True)
class Inputs:
    """What a run's model takes: the shape of a sample, and how raw values were normalised."""

    shape: tuple[int, ...]
    num_classes: int
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    """One number for all, or one for each channel; a value x becomes (x - mean) * scale."""
    bytes: bool
    """Whether raw values are bytes, which are divided by 255 before that."""
    images: bool
    """Whether a sample is an image, whose channels come first here."""
    integers: bool = False
    """Whether a sample is of whole numbers, such as tokens, which stay as they are."""

    @staticmethod
    def of(samples: TensorSamples) -> Inputs:
        """What a model takes of these samples."""
        mean, scale = (each.double().reshape(-1).tolist() for each in (samples.mean, samples.scale))
        return Inputs(
            samples.shape,
            samples.num_classes,
            tuple(mean),
            tuple(scale),
            samples.bytes,
            samples.images,
            samples.integers,
        )

    @staticmethod
    def read(table: object, where: str) -> Inputs:
        """The inputs that a run folder has noted, checked."""
        problems: list[str] = []
        found = {INTEGERS: False, **keys_of(table, where, problems, KEYS, (INTEGERS,))}
        size, numbers = Whole(1, 10**9), Listed(Real(), least=1)
        rules: list[Rule] = [Listed(size), size, numbers, numbers, Flag(), Flag(), Flag()]
        if not problems:
            pairs = zip((*KEYS, INTEGERS), rules, strict=True)
            values = [rule.read(found[key], f"{where}: {key}", problems) for key, rule in pairs]
            if not problems:
                return Inputs(*values)
        raise InputError(problems)

    def normalise(self, raw: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Raw samples, with the channels of images first, as the model takes them."""
        shape = (-1, 1, 1) if self.images else (-1,) if len(self.mean) > 1 else ()
        mean = torch.tensor(self.mean, dtype=dtype, device=raw.device).reshape(shape)
        scale = torch.tensor(self.scale, dtype=dtype, device=raw.device).reshape(shape)
        return normalised(raw, mean, scale, self.bytes)

    def tensor(self, samples: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        """Raw samples in the layout of the data, images with their channels last, for the model.

        Tensors have the channels of images first.
        """
        if isinstance(samples, Tensor):
            self._check(samples.shape, self.shape, whole=not samples.dtype.is_floating_point)
            return self.normalise(samples, dtype)
        try:
            array = np.asarray(samples)
        except ValueError:  # rows of different lengths
            array = np.array(None)
        if array.dtype.kind not in "biuf":
            raise InputError("samples: must be an array of numbers")
        layout = (*self.shape[1:], self.shape[0]) if self.images else self.shape
        self._check(array.shape, layout, whole=array.dtype.kind != "f")
        array = np.moveaxis(array, -1, 1) if self.images else array
        return self.normalise(torch.as_tensor(np.ascontiguousarray(array)), dtype)

    def _check(self, found: tuple[int, ...], layout: tuple[int, ...], *, whole: bool) -> None:
        """Raise an error about samples that are not of the run's shape and kind."""
        if tuple(found[1:]) != layout or not found:
            sides = ", ".join(map(str, layout))
            order = "; arrays of images have their channels last, tensors first"
            raise InputError(
                f"samples of shape {tuple(found)}: must have the shape (n, {sides})"
                f"{order if self.images else ''}"
            )
        if self.integers and not whole:
            raise InputError("samples: must be whole numbers, as the run's data are")


class FromRaw(nn.Module):
    """A model with the normalisation of its inputs in front."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(self, raw: Tensor) -> Tensor:
        dtype = next(self.model.parameters()).dtype
        return self.model(self.inputs.normalise(raw, dtype))


def choose_model(models: NDArray[Any], which: str) -> Tensor:
    """The average model of all edge servers, or that of one: `average` or `edge:3`."""
    every = torch.from_numpy(np.array(models))
    if which == AVERAGE:
        return average(every)
    number = which.removeprefix(EDGE)
    if which.startswith(EDGE) and number.isdecimal() and int(number) < len(every):
        return every[int(number)]
    rule = f"{AVERAGE}, or {EDGE}0 to {EDGE}{len(every) - 1}"
    raise InputError(problem("`model`", which, rule))


def trained_module(
    scenario: Scenario, seed: int, inputs: Inputs, models: NDArray[Any], which: str = AVERAGE
) -> nn.Module:
    """A model of a run as a module of torch, on the processor and ready to evaluate."""
    learning = scenario.learning
    module = model_for(learning, inputs.shape, inputs.num_classes, seed, inputs.integers)
    flat = FlatModel(module, DTYPES[learning.dtype], torch.device("cpu"))
    state = choose_model(models, which)
    if len(state) != flat.size:
        rule = f"{flat.size}, as scenario.learning.model = {learning.model!r} has"
        raise InputError(f"the run's models have {len(state)} numbers: must be {rule}")
    flat.load(state.to(flat.held.dtype))
    for parameter in module.parameters():
        parameter.grad = None
        parameter.data = parameter.data.clone()
    return module.eval()


def export_module(module: nn.Module, inputs: Inputs, to: Path) -> None:
    """Write a model as `.pt`, `.safetensors` or `.onnx`, by the name of the file.

    The first two have the parameters and buffers by name; `.pt` holds a dict with these under
    `state_dict`, and `mean`, `scale` and the others of `Inputs`, and `.safetensors` has the same as
    metadata. `.onnx` is the whole model, with the normalisation of raw inputs in front of it.
    """
    write = WRITERS.get(to.suffix)
    if write is None:
        rule = f"a file whose name ends in {', '.join(WRITERS)}"
        raise InputError(problem("`to`", str(to), rule))
    write_whole(to, lambda temporary: write(module, inputs, temporary))


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _write_pt(module: nn.Module, inputs: Inputs, to: Path) -> None:
    torch.save({"state_dict": _state(module), **vars(inputs)}, to)


def _write_safetensors(module: nn.Module, inputs: Inputs, to: Path) -> None:
    need("an export to .safetensors", "safetensors")
    from safetensors.torch import save_file

    metadata = {name: json.dumps(value) for name, value in vars(inputs).items()}
    state = {name: tensor.contiguous() for name, tensor in _state(module).items()}
    save_file(state, to, {"format": "pt", **metadata})


def _write_onnx(module: nn.Module, inputs: Inputs, to: Path) -> None:
    need("an export to .onnx", "onnxscript")
    dtype = torch.int64 if inputs.integers else next(module.parameters()).dtype
    example = torch.zeros(2, *inputs.shape, dtype=dtype)
    batch = torch.export.Dim("batch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                FromRaw(module, inputs).eval(),
                (example,),
                to,
                dynamo=True,
                external_data=False,
                verbose=False,
                input_names=["input"],
                output_names=["output"],
                dynamic_shapes=({0: batch},),
            )
    except MissingLibraryError:
        raise
    except Exception as error:
        raise InputError(f"{to.suffix}: torch cannot export this model: {reason(error)}") from error


Writer = Callable[[nn.Module, Inputs, Path], None]
WRITERS: Mapping[str, Writer] = {
    ".pt": _write_pt,
    ".safetensors": _write_safetensors,
    ".onnx": _write_onnx,
}
"""How each kind of file is written, by the ending of its name."""
