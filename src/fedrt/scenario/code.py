"""The import paths in a scenario: where it asks for code that is not FedRT's."""

from __future__ import annotations

from fedrt.scenario.model import Custom, Scenario


def import_paths(scenario: Scenario) -> dict[str, str]:
    """Every import path of a scenario by the setting it stands in."""
    learning = scenario.learning
    found = {"learning.model": learning.model}
    if not learning.dataset.endswith(".npz"):
        found["learning.dataset"] = learning.dataset
    for name in ("channel", "bandwidth", "backhaul"):
        settings = getattr(scenario, name)
        if isinstance(settings, Custom):
            found[f"{name}.kind"] = settings.kind
    return {name: path for name, path in found.items() if ":" in path}
