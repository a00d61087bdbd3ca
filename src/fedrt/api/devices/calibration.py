"""`fedrt.calibrate`: this machine as a device of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from fedrt.api.devices.parties import PartyOptions, read_party
from fedrt.api.folders import Place
from fedrt.errors import FedrtError, InputError
from fedrt.system.extras import need
from fedrt.system.files import refuse_existing, write_text
from fedrt.validation import Listed, Real, Whole

if TYPE_CHECKING:
    from fedrt.devices.calibration.result import Calibration

SHARES = (0.25, 0.5, 1.0)


def calibrate(
    name: str,
    *,
    scenario: Place | None = None,
    edge: str | None = None,
    data: Place | None = None,
    state: Place | None = None,
    threads: int | str | None = None,
    cpu: str | None = None,
    cpu_share: float | str | None = None,
    core_step_s: float | str | None = None,
    meter: str | None = None,
    shares: Sequence[float | str] | None = None,
    seconds: float = 1.0,
    repeats: int = 3,
    anyway: bool = False,
    out: Place | None = None,
    **options: Unpack[PartyOptions],
) -> Calibration:
    """Measure this machine as a device of a scenario: `fedrt calibrate`.

    Local steps of the scenario's model on the device's `data` are timed at `shares` of full speed,
    which `cpu` holds it to (without it, at full speed alone), for `seconds` each, `repeats` times;
    what TLS and gRPC add to an update is counted on loopback; and updates are sent to the edge
    server at `edge`, if it can be reached. `text()` of what comes back is the device's class for
    the scenario, which `out`, a new file, gets too. The agent of the device must not be running.
    A fit that does not describe the device is an error, unless `anyway` is given.
    """
    for library in ("grpc", "torch"):
        need("fedrt calibrate", library)
    from fedrt.devices.calibration import run
    from fedrt.devices.common.settings import DeviceSettings

    asked = _check(SHARES if shares is None else shares, seconds, repeats)
    path = None if out is None else Path(out)
    if path is not None:
        refuse_existing(path)
    given = {
        "edge": edge,
        "data": data,
        "state_folder": state,
        "threads": threads,
        "cpu": cpu,
        "cpu_share": cpu_share,
        "core_step_s": core_step_s,
        "meter": meter,
    }
    settings = read_party(DeviceSettings, name, scenario, given, options)
    found = run.calibrate(settings, asked, float(seconds), int(repeats))
    if found.problem is not None and not anyway:
        rest = "no class is written; measure again on an idle machine, or for more `seconds`"
        raise FedrtError(f"{found.problem}; {rest}; `anyway` takes it as it is")
    if path is not None:
        write_text(path, found.text())
    return replace(found, path=path)


def _check(shares: Sequence[float | str], seconds: float, repeats: int) -> list[float]:
    """The shares as numbers; an error names all that is wrong."""
    lines: list[str] = []
    numbers = [_number(share) for share in shares]
    rule = Listed(Real(least=0.01, most=1), least=1)
    found = rule.read(numbers, "`shares`", lines)
    Real(above=0, most=600).read(seconds, "`seconds`", lines)
    Whole(1, 1000).read(repeats, "`repeats`", lines)
    if lines or found is None:
        raise InputError(lines)
    return sorted(set(found), reverse=True)


def _number(share: float | str) -> float | str:
    try:
        return float(share)
    except ValueError:
        return share
