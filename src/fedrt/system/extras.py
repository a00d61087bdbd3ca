"""Optional libraries, and the message that says how to install a missing one."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

from fedrt.errors import InputError

EXTRAS: dict[str, tuple[str, str | None]] = {
    "torch": ("torch", "learning"),
    "sklearn": ("scikit-learn", "learning"),
    "matplotlib": ("matplotlib", "plots"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "datasets": ("datasets", "datasets"),
    "ray": ("ray", "ray"),
    "tomli_w": ("tomli-w", None),
    "pandas": ("pandas", None),
    "mlflow": ("mlflow", "mlflow"),
    "wandb": ("wandb", "wandb"),
    "safetensors": ("safetensors", "export"),
    "onnxscript": ("onnx and onnxscript", "export"),
    "gymnasium": ("gymnasium", "gym"),
    "flwr": ("Flower", "flower"),
    "prometheus_client": ("prometheus-client", "metrics"),
    "grpc": ("grpcio", "devices"),
    "cryptography": ("cryptography", "devices"),
}
"""Module -> the name a person knows it by, and the extra of this package that brings it.

None: the package itself does, but who runs it from a checkout may lack it.
"""


class MissingLibraryError(InputError):
    """Raised where a command needs an optional library that is not installed."""

    def __init__(self, what: str, module: str) -> None:
        name, extra = EXTRAS[module]
        brings = name if extra is None else f"'fedrt[{extra}]'"
        super().__init__(f"{what}: needs {name}, which is not installed: pip install {brings}")


def need(what: str, module: str) -> None:
    """Raise an error if a library that `what` needs is not installed; it is not loaded."""
    modules: dict[str, object] = dict(sys.modules)
    # None is there for a module that something keeps from being imported.
    if (modules[module] if module in modules else PathFinder.find_spec(module)) is None:
        raise MissingLibraryError(what, module)
