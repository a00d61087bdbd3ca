"""For the tests of real devices: certificates that no test revokes."""

from __future__ import annotations

import pytest
from support.enrolment import Site, make_site


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Site:
    """An authority that all tests share; a test that revokes makes its own."""
    return make_site(tmp_path_factory.mktemp("site"))
