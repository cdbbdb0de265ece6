"""A prompt may be far larger than an event: it reaches the agent whole, its event is cut."""

from pathlib import Path

import pytest

from agentctl.core.events import RunStatus
from agentctl.core.limits import EVENT_BYTES, weight
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import ContentType, RunState
from agentctl.session.records import CreateRun
from tests.session.house import house

pytestmark = pytest.mark.anyio

HUGE = 10_000_000


async def test_a_prompt_of_ten_megabytes_reaches_the_agent_whole(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        text = "é" * (HUGE // 2)
        _, run, agent = await home.running(text)
        await agent.end()
        assert agent.named("prompt") == [text]
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        created = home.of(RunStatus, run.id)[0]
        assert weight(created) <= EVENT_BYTES
        (block,) = created.prompt
        assert text.startswith(block.text) and block.truncated and block.size == HUGE


async def test_a_prompt_with_a_large_picture_says_how_large_it_was(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        picture = ContentBlock(ContentType.IMAGE, data=bytes(HUGE), mime_type="image/png")
        words = ContentBlock(ContentType.TEXT, text="what is this?")
        made = await home.manager.create_run(CreateRun(session, PromptSpec((words, picture))))
        await home.until(lambda: home.protocol.agents)
        await home.agent.prompted()
        await home.agent.end()
        await home.ended(made.run.id)
        first, second = home.of(RunStatus, made.run.id)[0].prompt
        assert first == words
        assert (second.data, second.size, second.truncated) == (None, HUGE, True)
        assert picture.data == bytes(HUGE)


async def test_a_large_prompt_that_waits_is_whole_after_a_restart(tmp_path: Path) -> None:
    text = "x" * 2_000_000
    async with house(tmp_path) as home:
        session, _, _ = await home.running("first")
        await home.prompt(session, text)
    async with house(tmp_path) as home:
        await home.prompt(session, "last")
        await home.until(lambda: home.protocol.agents)
        assert await home.agent.prompted() == text
