"""Whether devices of a testbed can have a quota of the CPU: a process of its own tries it.

Not the testbed's: a control group can often be made by a process that is alone in its own, and the
devices will not be alone.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from fedrt.devices.actuators.cgroup import clean_cgroup
from fedrt.devices.actuators.choices import open_quota
from fedrt.devices.actuators.leftovers import Leftovers
from fedrt.errors import FedrtError, reason

TRY_S = 60.0


def quota_problem(state: Path) -> str:
    """Why a process of this machine cannot have a quota of the CPU; nothing if it can.

    What is set up for that is noted in the folder, and undone by the next one who asks if this
    process is killed.
    """
    words = [sys.executable, "-P", "-m", "fedrt.testbed.quota", str(state)]
    try:
        tried = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=TRY_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode:
        said = tried.stderr.strip().splitlines()
        return said[-1] if said else f"exit code {tried.returncode}"
    return tried.stdout.strip()


def try_quota(state: Path) -> str:
    """Have this process under a quota and free again; return what is in the way."""
    leftovers = Leftovers(state)
    leftovers.undo({"cgroup": clean_cgroup})
    try:
        open_quota("testbed", leftovers).close()
    except (OSError, ValueError, FedrtError) as error:
        return reason(error)
    finally:
        with suppress(OSError):
            state.rmdir()  # unless something is left to be undone
    return ""


if __name__ == "__main__":
    print(try_quota(Path(sys.argv[1])))
