"""The import paths in a scenario, where it asks to run code that is not FedRT's."""

from __future__ import annotations

from dataclasses import fields

from fedrt.scenario.model import Custom, Scenario

PROCESSES = ("channel.kind", "bandwidth.kind", "backhaul.kind")
"""The settings among them that name a random process of the world."""


def import_paths(scenario: Scenario) -> dict[str, str]:
    """Every import path in a scenario, keyed by its setting."""
    learning = scenario.learning
    found = {"learning.model": learning.model}
    if not learning.dataset.endswith(".npz"):
        found["learning.dataset"] = learning.dataset
    for name in (field.name for field in fields(learning)):
        chosen = getattr(learning, name)
        if isinstance(chosen, Custom):
            found[f"learning.{name}"] = chosen.kind
    for name in PROCESSES:
        settings = getattr(scenario, name.removesuffix(".kind"))
        if isinstance(settings, Custom):
            found[name] = settings.kind
    return {name: path for name, path in found.items() if ":" in path}


def training_paths(scenario: Scenario) -> list[str]:
    """The import paths of what trains: every process that does loads them; data are sent."""
    return [
        path
        for name, path in import_paths(scenario).items()
        if name.startswith("learning.") and name != "learning.dataset"
    ]
