"""The tools that an OpenCode server lists."""

from pathlib import Path

import pytest

from agentctl_adapters.opencode.toolspace import names_of, offers_of
from tests.adapters.opencode.live import fake, running


def test_with_a_model_tools_come_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    rows = [{"id": "bash", "description": "Runs", "parameters": schema}, {"id": "invalid"}, {}]
    bash, invalid = offers_of(rows)
    assert (bash.name, bash.kind, bash.description) == ("bash", "execute", "Runs")
    assert bash.input_schema == schema and not bash.hidden and invalid.hidden


def test_without_one_there_are_their_names() -> None:
    assert [offer.name for offer in names_of(["read", 3, "", "odd"])] == ["read", "odd"]
    assert names_of({"message": "no such route"}) == []


@pytest.mark.anyio
async def test_a_server_is_asked_for_the_tools_of_the_session_s_model(
    tmp_path: Path,
) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        session = await live.session()
        told = await live.connection.tools(session)
    assert told and [(tool.name, tool.kind) for tool in told] == [("bash", "execute")]


@pytest.mark.anyio
async def test_a_server_without_such_a_list_leaves_them_unknown(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake("old")) as live:
        session = await live.session()
        assert await live.connection.tools(session) is None
