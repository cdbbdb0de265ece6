"""The Python SDK of ACP as the client: its own types read all that `agentctl acp` says."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import RequestError, spawn_agent_process, text_block
from acp.interfaces import Client as Handler
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    RequestPermissionResponse,
)

from tests.gateway.acp.conftest import House

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GA12")]

# A daemon and an agent start on a busy machine.
LIMIT_S = 60


class Editor:
    """A client that allows everything and answers each question with the same word."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        chosen = next(each for each in options if each.kind == "allow_once")
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def create_elicitation(self, **_: Any) -> AcceptElicitationResponse:
        return AcceptElicitationResponse(action="accept", content={"answer": "Blue"})

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[Any]:
        return [each for each in self.updates if each.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(each.content.text for each in self.of("agent_message_chunk"))


@asynccontextmanager
async def connected(house: House) -> AsyncGenerator[tuple[Any, Editor]]:
    editor: Any = Editor()
    handler: Handler = editor
    words = ("-m", "agentctl", "acp", "--agent", "demo")
    with anyio.fail_after(LIMIT_S):
        async with spawn_agent_process(
            handler, sys.executable, *words, env=house.env, use_unstable_protocol=True
        ) as (connection, _process):
            forms = ElicitationCapabilities(form=ElicitationFormCapabilities())
            told = await connection.initialize(
                protocol_version=1, client_capabilities=ClientCapabilities(elicitation=forms)
            )
            assert told.agent_info is not None and told.agent_info.name == "agentctl"
            yield connection, editor


async def test_a_whole_conversation_through_the_sdk(house: House, workspace: Path) -> None:
    async with connected(house) as (connection, editor):
        session = await connection.new_session(cwd=str(workspace), mcp_servers=[])
        assert session.modes is not None and session.modes.current_mode_id == "ask"
        prompt = "think hm || plan || run echo hi || write a.txt new || ask Which? || title It"
        end = await connection.prompt(
            session_id=session.session_id, prompt=[text_block(f"{prompt} || usage")]
        )
        assert end.stop_reason == "end_turn"
        assert end.usage is not None and end.usage.total_tokens > 0
        assert editor.text == "You answered: Blue"
        assert [each.kind for each in editor.asked] == ["execute", "edit"]
        assert (workspace / "a.txt").read_text() == "new"
        kinds = {each.session_update for each in editor.updates}
        assert kinds >= {
            "agent_thought_chunk",
            "plan",
            "tool_call",
            "tool_call_update",
            "session_info_update",
            "usage_update",
            "available_commands_update",
        }
        await connection.set_session_mode(session_id=session.session_id, mode_id="auto")
        chosen = await connection.set_config_option(
            session_id=session.session_id, config_id="effort", value="high"
        )
        values = {each.id: each.current_value for each in chosen.config_options}
        assert (values["mode"], values["effort"]) == ("auto", "high")
        listed = await connection.list_sessions(cwd=str(workspace))
        assert [each.session_id for each in listed.sessions] == [session.session_id]


async def test_a_cancel_and_an_error_through_the_sdk(house: House, workspace: Path) -> None:
    async with connected(house) as (connection, editor):
        session = await connection.new_session(cwd=str(workspace), mcp_servers=[])
        own = session.session_id
        turn = asyncio.create_task(
            connection.prompt(session_id=own, prompt=[text_block("say one || hang")])
        )
        while not editor.text:
            await anyio.lowlevel.checkpoint()
        await connection.cancel(session_id=own)
        assert (await turn).stop_reason == "cancelled"
        with pytest.raises(RequestError) as refused:
            await connection.prompt(session_id=own, prompt=[text_block("model-error 500 boom")])
        assert refused.value.code == -32603
        data: Any = refused.value.data
        assert data["reason"] == "MODEL_ERROR"
        loaded = await connection.load_session(session_id=own, cwd=str(workspace), mcp_servers=[])
        assert loaded.modes is not None
        words = [each.content.text for each in editor.of("user_message_chunk")]
        assert words == ["say one || hang", "model-error 500 boom"]
