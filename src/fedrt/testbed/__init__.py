"""Runs with every party in a network namespace of its own, on one machine (docs/testbed.md)."""

from __future__ import annotations

from fedrt.system.lazy import make_callable

make_callable(__name__)
