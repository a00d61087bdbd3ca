"""Shared by all tests: a line in the summary for what an outside oracle could not decide."""

from __future__ import annotations

import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from fedrt.devices.security.tls13 import require_tls_13

require_tls_13()  # before whatever loads gRPC for another reason

# Compiling the kernel makes the first example slow, and CI machines are shared: no deadlines.
settings.register_profile(
    "fedrt", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedrt")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """No test reads or writes the user's cache, nor do the processes it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works():
    """A shell that starts the tests in the background has them ignore Ctrl-C: undo that.

    What is ignored here would be ignored in every process that a test starts to interrupt it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    """Sum up what tests recorded with `record_property("oracle", ...)`; works under xdist too."""
    totals: Counter[str] = Counter()
    worst: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in getattr(report, "user_properties", []):
                if name == "oracle":
                    for key, number in value.items():
                        if key.startswith("worst"):
                            worst[key] = max(worst.get(key, 0.0), number)
                        else:
                            totals[key] += number
    if totals or worst:
        terminalreporter.section("oracles")
        for key, number in sorted(totals.items()):
            terminalreporter.write_line(f"{key}: {number}")
        for key, number in sorted(worst.items()):
            terminalreporter.write_line(f"{key}: {number:.3g}")
