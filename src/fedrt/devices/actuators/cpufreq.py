"""`cpufreq`: the greatest frequency of the machine's CPUs, where the kernel lets it be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedrt.devices.actuators.base import CpuActuator
from fedrt.devices.actuators.leftovers import Leftovers

NAME = "cpufreq"
LIMIT = "scaling_max_freq"
"""The file with the greatest frequency that a CPU may be run at, in kHz."""


def policies(root: Path) -> list[Path]:
    """The folders of all CPUs whose frequency can be read."""
    return sorted(path.parent for path in root.glob(f"cpu[0-9]*/cpufreq/{LIMIT}"))


class CpuFrequency(CpuActuator):
    """Lowers the greatest frequency of all CPUs to a share of what they can do."""

    def __init__(self, folders: list[Path], leftovers: Leftovers) -> None:
        super().__init__()
        self._folders, self._leftovers = folders, leftovers
        self._before: dict[str, str] = {}

    def _apply(self, share: float, steps: int) -> float:
        if not self._before:
            limits = {
                str(each / LIMIT): (each / LIMIT).read_text().strip() for each in self._folders
            }
            self._leftovers.note(NAME, {"limits": limits})
            self._before = limits
        shares = []
        for folder in self._folders:
            least, most = (int((folder / f"cpuinfo_{x}_freq").read_text()) for x in ("min", "max"))
            (folder / LIMIT).write_text(str(min(max(round(share * most), least), most)))
            shares.append(int((folder / LIMIT).read_text()) / most)
        return max(shares)

    def _undo(self) -> None:
        if self._before:
            clean_cpufreq({"limits": self._before})
            self._before = {}
        self._leftovers.drop(NAME)


def clean_cpufreq(what: Mapping[str, Any]) -> None:
    """Give all CPUs their old limits back."""
    for path, limit in what["limits"].items():
        if Path(path).name == LIMIT:
            Path(path).write_text(str(limit))
