"""Trained models outside of FedRT: what is exported has the accuracy that was recorded."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from support.tiny import as_options, tiny
from torch import nn

import fedrt
from fedrt.cli import main
from fedrt.errors import InputError
from fedrt.learning.exporting import Inputs

SMALL = "rounds={global_rounds=2,edge_rounds=1,local_steps=5,gossip_steps=1}"


class Normed(nn.Module):
    """A model with buffers, whole numbers among them."""

    def __init__(self, shape, classes):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Linear(6 * shape[1] * shape[2], classes)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))


def images():
    """Bytes in two channels; the brighter half says the class."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, size=(300, 4, 6, 2), dtype=np.uint8)
    y = (x[:, :, :3].mean((1, 2, 3)) > x[:, :, 3:].mean((1, 2, 3))).astype(np.int64)
    return x[:200], y[:200], x[200:], y[200:]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of a model and data that are objects of this test."""
    out = tmp_path_factory.mktemp("exported") / "run"
    options = {"engine": "sequential", "device": "cpu", "progress": False}
    return fedrt.run(tiny(SMALL), model=Normed, data=images(), out=out, **options)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run of a shipped model."""
    out = tmp_path_factory.mktemp("plain") / "run"
    options = {"engine": "sequential", "device": "cpu", "progress": False}
    return fedrt.run(tiny(SMALL, "rounds.global_rounds=1"), out=out, **options)


@pytest.mark.parametrize("kind", ["channels first", "one sample", "tensor, channels last", "words"])
def test_samples_of_another_layout_are_one_line(run, kind):
    x = images()[2]
    samples, line = {
        "channels first": (np.moveaxis(x, -1, 1), "of shape (100, 2, 4, 6): must have the shape"),
        "one sample": (x[0], "of shape (4, 6, 2): must have the shape (n, 4, 6, 2); arrays"),
        "tensor, channels last": (torch.from_numpy(x), "(100, 4, 6, 2): must have the shape (n, 2"),
        "words": (["a", "b"], "samples: must be an array of numbers"),
    }[kind]
    with pytest.raises(InputError, match=re.escape(line)):
        run.inputs(samples)
    for good in (x, x.tolist(), raw()):
        assert run.inputs(good).shape == (100, 2, 4, 6)


def test_tokens_are_whole_numbers():
    tokens = Inputs((5,), 9, (0.0,), (1.0,), bytes=False, images=False, integers=True)
    assert tokens.tensor(np.zeros((3, 5), int)).shape == (3, 5)
    with pytest.raises(InputError, match="must be whole numbers, as the run's data are"):
        tokens.tensor(np.zeros((3, 5)))
    with pytest.raises(InputError, match=r"of shape \(\): must have the shape \(n, 5\)$"):
        tokens.tensor(3)
    with pytest.raises(InputError, match="must be an array of numbers"):
        tokens.tensor([[1, 2], [3]])


def accuracy(outputs):
    return float((np.asarray(outputs).argmax(1) == images()[3]).mean())


def raw():
    """The test samples as plain torch code has them."""
    return torch.from_numpy(np.moveaxis(images()[2], -1, 1).astype(np.float32))


def test_the_average_model_has_the_recorded_accuracy(run):
    model = run.model("average")
    assert not model.training
    with torch.no_grad():
        assert accuracy(model(run.inputs(images()[2]))) == run.outcome["final_accuracy"]
    scores = [run.model(f"edge:{edge}")(run.inputs(images()[2])).detach() for edge in range(3)]
    greatest = run.rounds["edge_accuracy_max"].iloc[-1]
    assert max(accuracy(each) for each in scores) == greatest
    assert not torch.equal(scores[0], scores[1])


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_exported_parameters_have_the_recorded_accuracy_in_plain_torch(run, tmp_path, kind):
    path = fedrt.export(run, tmp_path / f"model.{kind}")
    if kind == "pt":
        saved = torch.load(path, weights_only=True)
        state = saved.pop("state_dict")
    else:
        safetensors = pytest.importorskip("safetensors")
        with safetensors.safe_open(path, "pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            saved = {k: json.loads(v) for k, v in file.metadata().items() if k != "format"}
    assert saved["bytes"] is True
    model = Normed(tuple(saved["shape"]), saved["num_classes"])
    model.load_state_dict(state)
    mean, scale = (torch.tensor(saved[name]).reshape(-1, 1, 1) for name in ("mean", "scale"))
    with torch.no_grad():
        outputs = model.eval()((raw() / 255 - mean) * scale)
    assert accuracy(outputs) == run.outcome["final_accuracy"]


def test_an_exported_program_has_the_recorded_accuracy_on_raw_inputs(run, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    path = fedrt.export(run, tmp_path / "model.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {"input": raw().numpy()})
    assert accuracy(outputs) == run.outcome["final_accuracy"]
    np.testing.assert_allclose(
        outputs, run.model()(run.inputs(images()[2])).detach(), rtol=1e-3, atol=1e-3
    )  # float32 sums in another order


def test_a_comparison_keeps_its_models_when_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["compare", *as_options(SMALL), "--policies", "fedrt", "--engine", "sequential"]
    assert main([*words, "--out", "kept", "--keep-models"]) == 0
    assert main([*words, "--out", "not"]) == 0
    capsys.readouterr()
    assert main(["export", "kept/fedrt-0", "--to", "model.pt", "--model", "edge:2"]) == 0
    assert capsys.readouterr().out == "model in model.pt\n"
    kept = torch.load("model.pt", weights_only=True)["state_dict"]
    models = np.load("kept/fedrt-0/checkpoints/000002.npz")["models"]
    flat = torch.cat([tensor.reshape(-1) for tensor in kept.values()])
    assert torch.equal(flat, torch.from_numpy(models[2]))
    assert main(["export", "not/fedrt-0", "--to", "other.pt"]) == 2
    assert "a comparison keeps them with --keep-models" in capsys.readouterr().err
    again = ["estimate", *as_options(SMALL), "--policies", "fedrt", "--out", "kept"]
    assert main([*again, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--to", "model.bin"], '--to = "model.bin": must be a file whose name ends in .pt'),
        (["--to", "no/model.pt"], '--to "no/model.pt": no is not a folder'),
        (["--to", "m.pt", "--model", "edge:3"], '--model = "edge:3": must be average, or edge:0'),
        (["--to", "m.pt", "--model", "best"], '--model = "best": must be average, or edge:0'),
    ],
)
def test_what_cannot_be_exported_is_a_line(plain, tmp_path, monkeypatch, capsys, words, line):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(plain.folder), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_command_cannot_export_an_object_of_python(run, tmp_path, capsys):
    assert main(["export", str(run.folder), "--to", str(tmp_path / "m.pt")]) == 2
    assert "was an object of a Python program" in capsys.readouterr().err
