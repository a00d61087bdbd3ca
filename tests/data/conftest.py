"""Tests that must not find the data sets of the machine."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("FEDRT_DATA", raising=False)
