"""The trained models of a run: as modules of torch, and as files: `fedrt.export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrt.api.asked import folder_of
from fedrt.api.folders import Place
from fedrt.errors import InputError, reason
from fedrt.records.checkpoint import Checkpoints
from fedrt.records.directory import INPUTS, read_run
from fedrt.records.foreign import refuse_links
from fedrt.system.extras import need
from fedrt.system.inputs import parse_json, read_text
from fedrt.system.plugins import Offer, offered
from fedrt.validation import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from fedrt.learning.exporting import Inputs


def read_inputs(folder: Path) -> Inputs:
    """What the model of a run takes, as its folder has it."""
    need("a model", "torch")
    from fedrt.learning.exporting import Inputs

    path = folder / INPUTS
    try:
        return Inputs.read(parse_json(read_text(path)), str(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def read_model(folder: Path, which: str, objects: Mapping[str, Offer]) -> nn.Module:
    """A model of the run in a folder, from its newest checkpoint."""
    need("a model", "torch")
    from fedrt.learning.exporting import trained_module

    refuse_links(folder)
    run = read_run(folder)
    if run.options is None:
        raise InputError(f"{folder}: is a run without training; it has no models")
    models = Checkpoints(folder).newest_models()
    with offered(objects):
        return trained_module(run.scenario, run.seed, read_inputs(folder), models, which)


def export(run: Any, to: Place, *, model: str = "average") -> Path:
    """Write a trained model of a run as a file of another tool: `fedrt export`.

    `run` is a result or a run folder; `model` is `average`, the average of all edge servers'
    models, whose accuracy the tables have, or `edge:3`. The ending of `to` says how: `.pt`,
    `.safetensors` or `.onnx` (`fedrt.learning.export_module` says what is in them).
    """
    folder, path = folder_of(run), Path(to)
    if not path.parent.is_dir():
        raise InputError(f"`to` {shown(str(path))}: {path.parent} is not a folder")
    need("a model", "torch")
    from fedrt.learning.exporting import WRITERS, export_module

    if path.suffix not in WRITERS:
        rule = f"a file whose name ends in {', '.join(WRITERS)}"
        raise InputError(f"`to` = {shown(str(path))}: must be {rule}")
    objects = getattr(run, "_objects", {})
    export_module(read_model(folder, model, objects), read_inputs(folder), path)
    return path
