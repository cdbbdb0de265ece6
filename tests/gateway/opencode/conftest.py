"""One server for the tests of a file: each test makes sessions of its own in it."""

from collections.abc import Iterator

import pytest

from tests.gateway.opencode.live import Live, live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server without a password on loopback."""
    with live(tmp_path_factory.mktemp("g")) as running:
        yield running
