"""What a session says of the settings that its workspace carries, and of its process in its start."""

import dataclasses
from pathlib import Path

import pytest

from agentctl.core.events import Error, SessionOptions, SessionStatus
from agentctl.core.spec import SessionSpec
from agentctl.core.words import SessionChange
from agentctl.session.records import CreateSession
from tests.session.house import House, house

pytestmark = pytest.mark.anyio


def named(home: House) -> list[tuple[str, str]]:
    told: list[SessionOptions] = home.of(SessionOptions)
    return [(each.name, each.value) for options in told for each in options.settings or []]


async def started(home: House, spec: SessionSpec) -> str:
    session = await home.manager.create_session(CreateSession("fake", spec))
    await home.manager.wait_ready(session.id, 10_000)
    return session.id


@pytest.mark.proves("S9")
async def test_settings_that_a_workspace_carries_are_named_at_the_start(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.entries.carries = (".fake/settings.json",)
        await started(home, SessionSpec("fake", str(tmp_path)))
        assert named(home) == [
            ("workspace_config", ".fake/settings.json"),
            ("trust_workspace", "true"),
        ]
        assert not home.of(Error)


@pytest.mark.proves("S9")
async def test_an_agent_that_cannot_leave_them_out_says_so_when_they_are_not_trusted(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        home.entries.carries = (".fake/settings.json",)
        spec = SessionSpec("fake", str(tmp_path))
        await started(home, dataclasses.replace(spec, trust_workspace=False))
        (warning,) = home.of(Error)
        assert warning.code == "WORKSPACE_TRUSTED"
        assert ".fake/settings.json" in warning.message


async def test_a_session_names_its_process_while_that_starts(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await started(home, SessionSpec("fake", str(tmp_path)))
        starting = [
            event.agent_id
            for event in home.spy.committed
            if isinstance(event.payload, SessionStatus)
            and event.payload.status is SessionChange.STARTING
        ]
        assert starting == [None, home.session(session).record.agent_id]


async def test_counts_tell_open_and_kept_sessions_apart(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        first = await started(home, SessionSpec("fake", str(tmp_path)))
        await started(home, SessionSpec("fake", str(tmp_path)))
        await home.manager.close_session(first)
        counts = home.manager.counts()
        assert (counts.sessions_open, counts.sessions) == (1, 2)
        await home.manager.delete_session(first)
        assert home.manager.counts().sessions == 1
