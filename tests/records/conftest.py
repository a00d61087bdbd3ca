"""Runs that nobody touched, made once for the tests of a folder."""

from __future__ import annotations

import pytest
from support.trained import train, trained


@pytest.fixture(scope="session")
def untouched(tmp_path_factory):
    """A run of so many rounds, or as described, that nobody touched; each is made once."""
    made = {}

    def get(*settings, policy="fedrt", **options):
        key = (settings, policy, *sorted(options.items()))
        if key not in made:
            path = tmp_path_factory.mktemp("untouched") / "run"
            made[key] = train(path, trained(*settings), policy, **options)
        return made[key]

    return get
