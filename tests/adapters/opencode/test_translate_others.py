"""Older servers and other programs that speak the same routes; what a session offers."""

from typing import Any

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import SessionOptions, SessionStatus, ToolUpdate
from agentctl.core.words import McpState, Outcome, ToolStatus
from agentctl_adapters.opencode import PROTOCOL
from tests.adapters.opencode.scripted import S, Scripted, shown
from tests.replaying import payloads


def wrapped(server: Scripted, kind: str, **properties: Any) -> None:
    event = {"id": "evt", "type": kind, "properties": properties}
    server.frame(Frame("sse", {"directory": "/code", "payload": event}))


def test_events_of_the_global_stream_are_unwrapped_and_their_twins_skipped() -> None:
    server = Scripted()
    server.begin()
    wrapped(server, "message.part.updated", part=text_part(""))
    told = {"sessionID": S, "messageID": "msg_a", "partID": "prt_1", "field": "text"}
    wrapped(server, "message.part.delta", delta="a ", **told)
    wrapped(server, "message.part.delta", delta="b", **told)
    twin: dict[str, Any] = {
        "type": "sync",
        "syncEvent": {"type": "message.part.updated.1", "data": {}},
    }
    server.frame(Frame("sse", {"directory": "/code", "payload": twin}))
    assert server.texts() == ["a ", "b"]
    assert server.translator.unknown == {}


def text_part(text: str) -> dict[str, str]:
    return {"id": "prt_1", "sessionID": S, "messageID": "msg_a", "type": "text", "text": text}


@pytest.mark.proves("M1")
def test_a_delta_inside_the_part_event_or_beside_its_properties_is_not_told_twice() -> None:
    server = Scripted()
    server.begin()
    server.say("message.part.updated", part=text_part("a "), delta="a ")
    event = {"type": "message.part.updated", "properties": {"part": text_part("a b")}, "delta": "b"}
    server.frame(Frame("sse", event))
    assert server.texts() == ["a ", "b"]


@pytest.mark.proves("M1")
def test_parts_that_hold_only_the_step_are_joined() -> None:
    server = Scripted()
    server.begin()
    for step in ("one ", "two ", "two "):
        server.say("message.part.updated", part=text_part(step), delta=step)
    assert "".join(server.texts()) == "one two two "


def test_fields_directly_in_the_properties_are_understood() -> None:
    server = Scripted()
    server.session()
    server.prompt()
    server.say("message.updated", id="msg_u", sessionID=S, role="user")
    server.say("message.updated", id="msg_a", sessionID=S, role="assistant")
    server.say("message.part.updated", **text_part("plain"))
    server.say("session.idle", sessionID=S)
    assert shown(server.events) == "plain"
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


@pytest.mark.proves("T1")
def test_a_server_that_announces_its_answer_only_when_it_is_complete_streams_all_the_same() -> None:
    server = Scripted()
    server.session()
    request = server.request(
        "POST", f"/session/{S}/message", {"messageID": "msg_mine", "parts": ["hello"]}
    )
    server.say("session.status", sessionID=S, status="busy")
    server.user("msg_its_own")
    server.part("prt_u", "text", "msg_its_own", text="hello")
    server.part("prt_1", "text", text="he")
    server.part("prt_1", "text", text="hello back")
    state: dict[str, Any] = {
        "callID": "c1",
        "tool": "read",
        "state": "success",
        "input": {"path": "a"},
    }
    server.part("prt_t", "tool", **state, output="text of a")
    done = {"created": 1, "completed": 2}
    info = {"id": "msg_a", "sessionID": S, "role": "assistant", "time": done}
    server.say("message.updated", sessionID=S, info=info)
    server.say("session.status", sessionID=S, status={"type": "idle"})
    server.answer(request, {"info": info, "parts": []})
    assert server.texts() == ["he", "llo back"]
    assert payloads(server.events, ToolUpdate)[-1].status is ToolStatus.COMPLETED
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


@pytest.mark.proves("T6")
def test_session_aborted_ends_a_cancelled_run() -> None:
    server = Scripted()
    server.begin()
    server.request("POST", f"/session/{S}/abort")
    server.say("session.aborted", sessionID=S)
    server.fire("hold")
    assert [c.outcome for c in server.completes()] == [Outcome.CANCELLED]
    assert server.idle() == []


def test_only_the_older_idle_event_ends_a_run_too() -> None:
    server = Scripted()
    server.begin()
    server.done()
    server.say("session.idle", sessionID=S)
    assert len(server.completes()) == 1


@pytest.mark.parametrize(
    "model",
    [
        {"providerID": "p", "modelID": "m"},
        {"providerID": "p", "id": "m"},
        "p/m",
    ],
)
def test_the_model_of_a_session_is_found_whatever_its_form(model: object) -> None:
    server = Scripted()
    server.session(model=model, agent="plan")
    told = payloads(server.events, SessionOptions)
    assert [(o.model, o.mode) for o in told] == [("p/m", "plan")]


def test_model_agent_and_title_are_told_when_they_change_and_only_then() -> None:
    server = Scripted()
    server.session(model={"providerID": "p", "id": "m"}, agent="build")
    server.events.clear()
    info = {"id": S, "title": "t", "agent": "build", "time": {"created": 100}}
    for title, model, variant in (("t", "m", "default"), ("named", "n", "high")):
        told = {"providerID": "p", "id": model, "variant": variant}
        server.say("session.updated", info={**info, "title": title, "model": told})
    (options,) = payloads(server.events, SessionOptions)
    assert (options.model, options.mode) == ("p/n", None)
    assert [(s.name, s.value) for s in options.settings] == [("variant", "high")]
    assert [s.title for s in payloads(server.events, SessionStatus)] == ["named"]


def test_what_a_directory_offers_is_told_with_the_session_and_when_it_changes() -> None:
    server = Scripted()
    model = {"id": "m", "name": "M", "limit": {"context": 5}}
    server.get("/config/providers", {"providers": [{"id": "p", "models": {"m": model}}]})
    agents = [{"name": "build", "mode": "primary"}, {"name": "general", "mode": "subagent"}]
    server.get("/agent", agents)
    server.get("/command", [{"name": "init", "description": "guided", "hints": ["$ARGUMENTS"]}])
    server.session()
    (options,) = payloads(server.events, SessionOptions)
    assert [(m.id, m.context_window) for m in options.models] == [("p/m", 5)]
    assert [m.id for m in options.modes] == ["build"]
    assert [(c.name, c.hint) for c in options.commands] == [("init", "$ARGUMENTS")]
    told = server.get("/mcp", {"x": {"status": "failed", "error": "no"}}, query={})
    (servers,) = [e.payload.mcp_servers for e in told if isinstance(e.payload, SessionOptions)]
    assert [(s.name, s.state, s.detail) for s in servers or []] == [("x", McpState.FAILED, "no")]
    assert server.get("/agent", agents) == []


def test_keys_in_the_list_of_providers_never_reach_an_event() -> None:
    server = Scripted()
    server.session()
    secret = {"id": "p", "options": {"apiKey": "sk-secret"}, "models": {"m": {"id": "m"}}}
    server.get("/config/providers", {"providers": [secret]})
    assert "sk-secret" not in repr(server.events)


def test_the_protocol_is_found_by_its_name_and_makes_a_fresh_translator_each_time() -> None:
    assert PROTOCOL.name == "opencode"
    assert PROTOCOL.translator() is not PROTOCOL.translator()
