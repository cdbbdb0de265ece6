"""The real OpenCode server: what a user sees of it, scenario by scenario."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import pytest

from tests.adapters.opencode.live import Live, running
from tests.adapters.opencode.scenarios import GROUPS
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.real import opencode
from tests.real.harness import Home, Model, make_home, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]


@pytest.fixture
def place(tmp_path: Path) -> Home:
    home = make_home(tmp_path)
    opencode.make_repository(home.workspace)
    return home


@pytest.fixture
def model() -> Generator[Model]:
    with in_thread(OpenAiEndpoint()) as url:
        yield Model(url)


@pytest.fixture
async def live(place: Home, model: Model) -> AsyncGenerator[Live]:
    env = opencode.environment(place, model.url)
    async with running(opencode.command(), str(place.workspace), env=env) as live:
        yield live
    await wait_until_gone(place)


@pytest.mark.parametrize("group", GROUPS)
async def test_each_scenario_of_a_group_holds_on_the_real_server(
    live: Live, place: Home, group: str
) -> None:
    """One server for the whole group, and a work tree of its own for each scenario."""
    for name, check in GROUPS[group].items():
        folder = place.root / name
        await anyio.to_thread.run_sync(opencode.make_repository, folder)
        live.workspace = str(folder)
        try:
            await check(live)
        except (AssertionError, TimeoutError) as error:
            error.add_note(name)
            raise
