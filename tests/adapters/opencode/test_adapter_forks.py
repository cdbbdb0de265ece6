"""A fork of an OpenCode session works in the directory that is asked for, or is refused and gone."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import Unsupported
from agentctl.core.words import Decision
from tests.adapters.opencode.live import Live, fake, running

pytestmark = pytest.mark.anyio


async def rows(live: Live) -> list[str]:
    found = await live.connection.list_sessions(None)
    return sorted(each.native_session_id for each in found)


@pytest.mark.proves("KO9", "W6")
async def test_a_fork_works_in_another_directory_and_its_origin_where_it_was(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with running(workspace=str(here), **fake()) as live:
        session = await live.session()
        await live.ask(session, "SAYTEXT one")
        fork = await live.connection.fork_session(session, live.spec(workspace=str(there)))
        assert (await live.ask(fork, "HISTORY")).text == "HISTORY 2"
        for each, name in ((fork, "fork"), (session, "origin")):
            nth = len(live.completes(each)) + 1
            await live.begin(each, f"TOOL touch {name}")
            await live.answer(await live.asked(each), Decision.APPROVED)
            await live.ended(each, nth)
        assert [path.name for path in there.iterdir()] == ["fork"]
        assert [path.name for path in here.iterdir()] == ["origin"]


async def test_a_server_that_cannot_move_a_session_leaves_no_copy(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with running(workspace=str(here), **fake("old")) as live:
        session = await live.session()
        before = await rows(live)
        with pytest.raises(Unsupported, match="cannot fork a session into"):
            await live.connection.fork_session(session, live.spec(workspace=str(there)))
        assert await rows(live) == before
        with anyio.fail_after(20):
            await live.ask(session, "SAYTEXT one")
