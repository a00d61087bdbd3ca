"""What parties compare before anything else: protocol, version, scenario and model."""

from __future__ import annotations

import re

import fedrt
from fedrt.devices.wire.messages_pb2 import Key, Party
from fedrt.errors import one_line
from fedrt.records.identity import identity_of
from fedrt.scenario import Scenario

PROTOCOL = 2
"""Raised whenever two versions could misunderstand each other, with the second number alone."""
LONGEST_VERSION = 40
LABEL = re.compile(r"[0-9a-z][0-9a-z-]{0,79}")
"""Names of states and runs: they become names of files."""


def scenario_digest(scenario: Scenario, seed: int) -> str:
    """A digest of a scenario and a seed; of files it names and code of one's own, the contents."""
    return identity_of(scenario, [], [seed], {}).digest


def own_party(scenario: Scenario, seed: int, model: str = "") -> Party:
    """What this process has to say of itself."""
    digest = scenario_digest(scenario, seed)
    return Party(protocol=PROTOCOL, version=fedrt.__version__, scenario=digest, model=model)


def with_model(party: Party, model: str) -> Party:
    """The same with the digest of a model."""
    found = Party()
    found.CopyFrom(party)
    found.model = model
    return found


def difference(ours: Party, theirs: Party, who: str) -> str | None:
    """Why two parties cannot work together, in one line; None if they can.

    Versions that differ in their last number only and speak the same protocol can.
    """
    version = one_line(theirs.version, LONGEST_VERSION)
    if ours.protocol != theirs.protocol:
        newer = "newer" if theirs.protocol > ours.protocol else "older"
        return (
            f"{who} speaks protocol {theirs.protocol} (FedRT {version}), {newer} than"
            f" {ours.protocol} here (FedRT {ours.version}): install the same version on both"
        )
    if _series(ours.version) != _series(theirs.version):
        return (
            f"{who} has FedRT {version}, and here is {ours.version}: install the same"
            " version on both"
        )
    if ours.scenario != theirs.scenario:
        return f"{who} has another scenario or seed than this one: copy the file and compare seeds"
    if ours.model and theirs.model and ours.model != theirs.model:
        return f"{who} has another model: its layers differ in name, shape or type"
    return None


def _series(version: str) -> list[str]:
    return version.split(".")[:2]


def is_label(text: str) -> bool:
    """Whether a text may name a state or a run."""
    return LABEL.fullmatch(text) is not None


def words(key: Key) -> str:
    """An edge round in words."""
    return f"global round {key.t}, edge round {key.r}"
