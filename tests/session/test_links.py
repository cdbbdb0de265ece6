"""Pull requests that an agent names are told as git events of the run that named them."""

from pathlib import Path

import pytest

from agentctl.core.adapter import Draft
from agentctl.core.events import Complete, Git, Message, MessageChunk, ToolCall, ToolUpdate
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, Role, ToolKind, ToolStatus
from agentctl.session.links import MAX_TOLD
from tests.session.house import House, house

pytestmark = pytest.mark.anyio

URL = "https://github.com/o/r/pull/"
DONE = ToolStatus.COMPLETED


def text(words: str) -> list[ContentBlock]:
    return [ContentBlock(ContentType.TEXT, text=words)]


def told(home: House) -> list[tuple[str | None, str | None]]:
    """(run, address) of each."""
    return [
        (event.run_id, event.payload.pull_request_url)
        for event in home.spy.committed
        if isinstance(event.payload, Git)
    ]


@pytest.mark.proves("W5")
async def test_each_way_of_naming_one_is_heard_before_the_end_of_the_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        await agent.say(MessageChunk("m1", text=f"See {URL[:20]}"))
        await agent.say(MessageChunk("m1", text=f"{URL[20:]}1"))
        await agent.say(Message("m1", content=text(f"See {URL}1")))
        await agent.say(ToolCall("t1", kind=ToolKind.EXECUTE, status=ToolStatus.RUNNING))
        await agent.say(ToolUpdate("t1", output_replace=f"{URL}2"))
        await agent.say(ToolUpdate("t1", output_replace=f"{URL}22\n"))
        await agent.say(ToolUpdate("t1", output_delta=f"{URL}3"))
        await agent.say(ToolUpdate("t1", status=DONE, content=text(f"{URL}4")))
        await agent.say(MessageChunk("m2", text=f"The last is {URL}5"))
        await agent.end()
        await home.ended(run.id)
        assert told(home) == [(run.id, f"{URL}{n}") for n in (1, 22, 4, 5)]
        types = home.types(run.id)
        assert types[-1] == "complete" and types.count("git") == 4


async def test_what_others_wrote_is_no_work_of_the_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running(f"look at {URL}1")
        await agent.say(Message("m1", Role.USER, text(f"and {URL}2 ")))
        await agent.say(ToolCall("t1", kind=ToolKind.READ))
        await agent.say(ToolUpdate("t1", output_delta=f"- fixed in {URL}3 \n"))
        await agent.say(ToolUpdate("t1", status=DONE, content=text(f"- fixed in {URL}3 \n")))
        await agent.end()
        await home.ended(run.id)
        assert told(home) == []


async def test_one_that_comes_late_names_the_run_it_came_from(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        native = agent.native
        await agent.end()
        await home.ended(run.id)
        await agent.emit(Draft(MessageChunk("m9", text=f"Done: {URL}7 "), native))
        await home.until(lambda: home.of(Git))
        (event,) = [each for each in home.spy.committed if isinstance(each.payload, Git)]
        assert (event.run_id, event.after_run_id) == (None, run.id)


async def test_an_agent_that_dies_has_its_last_words_looked_at(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        await agent.say(MessageChunk("m1", text=f"{URL}8"))
        await agent.die()
        await home.ended(run.id)
        (event,) = [each for each in home.spy.committed if isinstance(each.payload, Git)]
        assert event.payload == Git(pull_request_url=f"{URL}8")
        assert run.id in (event.run_id, event.after_run_id)
        assert len(home.of(Complete)) == 1


async def test_a_list_of_hundreds_is_cut_off(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        lines = "".join(f"{URL}{number} \n" for number in range(500))
        await agent.say(MessageChunk("m1", text=lines))
        await agent.end()
        await home.ended(run.id)
        assert len(told(home)) == MAX_TOLD


async def test_only_tools_that_may_change_something_have_the_repository_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        looked: list[str] = []
        monkeypatch.setattr(home.session(session).watching, "tool_ended", looked.append)
        for number, kind in enumerate((ToolKind.READ, ToolKind.SEARCH, ToolKind.EXECUTE)):
            await agent.say(ToolCall(f"t{number}", kind=kind, status=ToolStatus.RUNNING))
            await agent.say(ToolUpdate(f"t{number}", status=DONE))
        await agent.end()
        await home.ended(run.id)
        assert looked == [run.id]
