"""Every scenario of the real server on the fake one: what it plays is what the real one does."""

from pathlib import Path

import pytest

from tests.adapters.opencode.live import fake, running
from tests.adapters.opencode.scenarios import GROUPS

pytestmark = pytest.mark.anyio
NAMES = [name for group in GROUPS.values() for name in group]
CHECKS = {name: check for group in GROUPS.values() for name, check in group.items()}


@pytest.mark.parametrize("name", NAMES)
async def test_a_scenario_holds_on_the_fake_server(tmp_path: Path, name: str) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        await CHECKS[name](live)
