"""What the package and its folders export: every name loads, is explained, and is loaded late."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from support.children import LIMIT_S

import fedrt
import fedrt.api
from fedrt.system.lazy import CallableModule

SOURCE = Path(fedrt.__file__).parent
WITH_EXTRA = ("fedrt.environment", "fedrt.flower", "fedrt.devices.security")
"""Folders that export as well, once an optional library is there."""
EXPORTING = [
    "fedrt",
    "fedrt.scenario",
    "fedrt.world",
    "fedrt.cost",
    "fedrt.control",
    "fedrt.bound",
    "fedrt.policies",
    "fedrt.data",
    "fedrt.learning",
    "fedrt.learning.models",
    "fedrt.learning.optimisers",
    "fedrt.learning.aggregators",
    "fedrt.learning.codecs",
    "fedrt.learning.tasks",
    "fedrt.runs",
    "fedrt.records",
    "fedrt.studies",
    "fedrt.callbacks",
    "fedrt.api",
]
EAGER = {
    "fedrt.scenario",
    "fedrt.policies",
    "fedrt.learning.optimisers",
    "fedrt.learning.aggregators",
    "fedrt.learning.codecs",
    "fedrt.learning.tasks",
}
"""Registries, and what everything needs: their modules are loaded with the folder."""


def file_of(package: str) -> Path:
    return SOURCE.joinpath(*package.split(".")[1:], "__init__.py")


def exports() -> list[tuple[str, str]]:
    return [
        (package, name)
        for package in EXPORTING
        for name in importlib.import_module(package).__all__
    ]


def explained_constants(file: str) -> set[str]:
    """The names that a module assigns, with a string below that explains them."""
    body = ast.parse(Path(file).read_text()).body
    return {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        for node, below in pairwise(body)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


def constants() -> set[str]:
    modules = [module for name, module in sys.modules.items() if name.startswith("fedrt.")]
    return set().union(*(explained_constants(str(module.__file__)) for module in modules))


@pytest.mark.parametrize("package", EXPORTING)
def test_a_folder_shows_what_it_exports(package):
    module = importlib.import_module(package)
    assert module.__all__
    assert {*module.__all__} <= {*dir(module)}
    assert "TYPE_CHECKING" not in dir(module) or package in EAGER


def test_every_exported_name_loads_and_is_explained():
    """A class or function by its docstring, a constant by the string below it."""
    unexplained = []
    for package, name in exports():
        value = getattr(importlib.import_module(package), name)
        if inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value):
            made_up = f"{name}("  # what dataclass writes where there is no docstring
            good = bool(value.__doc__) and not value.__doc__.startswith(made_up)
        else:
            good = name in constants()
        if not good:
            unexplained.append(f"{package}.{name}")
    assert not unexplained


def test_no_exported_name_hides_behind_a_module():
    """Importing the module would put it in the name's place, unless it can be called as well."""
    both = []
    for package, name in exports():
        folder = file_of(package).parent
        if (folder / f"{name}.py").exists() or (folder / name).is_dir():
            both.append(f"{package}.{name}")
    assert both == [
        *("fedrt.bench", "fedrt.bound", "fedrt.plan", "fedrt.report"),
        *("fedrt.scenario", "fedrt.testbed"),
    ]
    for name in both:
        assert isinstance(importlib.import_module(name), CallableModule), name


def test_a_module_that_is_a_function_too_is_called_as_the_function():
    assert fedrt.scenario("city") == importlib.import_module("fedrt.scenario").load_scenario("city")
    from_module = importlib.import_module("fedrt.scenario")("city", fleet={"num_devices": 5000})
    assert from_module == fedrt.api.scenario("city", ["fleet.num_devices=5000"])


@pytest.mark.parametrize("package", [name for name in EXPORTING if name not in EAGER])
def test_type_checkers_see_the_same_names_from_the_same_modules(package):
    tree = ast.parse(file_of(package).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (call,) = (node for node in ast.walk(block) if isinstance(node, ast.Call))
    homes = ast.literal_eval(call.args[1])
    assert typed == {
        (f"{package}.{module}", name) for module, names in homes.items() for name in names.split()
    }


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fedrt' has no attribute 'load_scenarios'"):
        _ = fedrt.load_scenarios
    with pytest.raises(ImportError):
        exec("from fedrt.control import alocate")


def test_folders_are_found_without_being_imported_first():
    code = "import fedrt; print(fedrt.policies.FedRT.name, fedrt.learning.tasks.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=LIMIT_S
    )
    assert done.stdout == b"fedrt fedrt.learning.tasks\n"


def test_looking_at_the_exports_loads_nothing_heavy():
    code = (
        "import sys, fedrt, fedrt.control, fedrt.cost, fedrt.world, fedrt.runs, fedrt.records;"
        "import fedrt.studies, fedrt.learning, fedrt.data; dir(fedrt), dir(fedrt.learning);"
        "print(sorted({'numpy', 'numba', 'pyarrow', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=LIMIT_S
    )
    assert done.stdout == b"[]\n"


def shown_code() -> list[tuple[str, str]]:
    """The examples, and every block of Python in the README and the docs."""
    root = Path(__file__).parents[1]
    files = [(path.name, path.read_text()) for path in sorted(root.glob("examples/**/*.py"))]
    for page in (root / "README.md", *sorted(root.glob("docs/**/*.md"))):
        blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
        files += [(page.name, block) for block in blocks]
    return files


def test_examples_and_docs_import_from_folders():
    """Modules within folders may move; those beside the folders are as public as these."""
    found = {
        (where, name)
        for where, code in shown_code()
        for name in re.findall(r"^(?:from|import) (fedrt[\w.]*)", code, flags=re.MULTILINE)
    }
    assert {"own_policy.py", "extending.md", "README.md"} <= {where for where, _ in found}
    for where, name in found:
        beside = name.count(".") == 1 and (SOURCE / f"{name.split('.')[1]}.py").is_file()
        assert name in (*EXPORTING, *WITH_EXTRA) or beside, f"{where} imports {name}"
