"""Event streams: who is told what, what a slow or lost client costs, and what a restart does."""

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.gateway.opencode import bus
from agentctl.gateway.opencode.bus import Bus, Event, passing_id
from agentctl.gateway.opencode.conversation import Conversation
from agentctl.gateway.opencode.message import Facts, Said
from agentctl.gateway.opencode.pump import fed
from tests.gateway.opencode.live import PATIENCE_S, Live, live, until

Json = dict[str, Any]


def event(number: int, directory: str = "/work", size: int = 10) -> Event:
    return Event(f"evt_{number}", Said("x", {"n": number, "pad": "p" * size}), directory, "proj")


async def taken(stream: Any, number: int) -> bytes:
    data = b""
    with anyio.fail_after(5):
        while data.count(b"\n\n") < number:
            data += await anext(stream)
    return data


@pytest.mark.anyio
@pytest.mark.proves("GO4")
async def test_a_stream_begins_with_connected_and_has_the_events_of_its_directory() -> None:
    shared = Bus()
    own, every = shared.stream("/work", "/work", "p"), shared.stream(None, "/work", "p")
    first, outer = await taken(own, 1), await taken(every, 1)
    assert first.startswith(b"event: message\ndata: {") and b'"server.connected"' in first
    assert b'"directory":"/work"' in outer and b'"payload"' in outer
    for number, directory in enumerate(("/work", "/other", "")):
        shared.publish(event(number, directory))
    told = await taken(own, 2)
    assert b'"n":0' in told and b'"n":1' not in told and b'"n":2' in told
    assert (await taken(every, 3)).count(b'"payload"') == 3
    await own.aclose()
    await every.aclose()
    assert shared.listeners == 0


@pytest.mark.anyio
@pytest.mark.proves("GO4")
async def test_a_quiet_stream_beats() -> None:
    shared = Bus(heartbeat_s=0.01)
    stream = shared.stream(None, "/work", "p")
    told = await taken(stream, 3)
    assert told.count(b'"server.heartbeat"') == 2
    assert bus.HEARTBEAT_S == 10.0
    await stream.aclose()


@pytest.mark.anyio
@pytest.mark.proves("GO7")
async def test_a_client_that_does_not_read_is_told_and_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus, "MAX_WAITING", 100_000)
    shared = Bus()
    slow, quick = shared.stream(None, "/work", "p"), shared.stream(None, "/work", "p")
    await taken(slow, 1)
    await taken(quick, 1)
    for number in range(200):
        shared.publish(event(number, size=1000))
        assert b'"n"' in await taken(quick, 1)
    last = await taken(slow, 1)
    assert b'"server.instance.disposed"' in last and b'"n"' not in last
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert shared.listeners == 1
    await quick.aclose()


@pytest.mark.anyio
@pytest.mark.proves("GO7")
async def test_one_large_event_cuts_no_reader_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "MAX_WAITING", 1000)
    large = event(1, size=5000)
    shared = Bus(lambda: [large])
    stream = shared.stream(None, "/work", "p")
    assert large.enveloped in await taken(stream, 1)
    shared.publish(large)
    assert await taken(stream, 1) == large.enveloped
    await stream.aclose()


@pytest.mark.anyio
@pytest.mark.proves("GO7")
async def test_an_event_is_encoded_once_for_all_who_listen() -> None:
    shared = Bus()
    streams = [shared.stream(None, "/work", "p") for _ in range(50)]
    for each in streams:
        await taken(each, 1)
    one = event(1)
    shared.publish(one)
    told = [await taken(each, 1) for each in streams]
    assert {*told} == {one.enveloped}
    assert one.enveloped is one.enveloped
    for each in streams:
        await each.aclose()


@pytest.mark.anyio
@pytest.mark.proves("GO7")
async def test_a_server_that_stops_ends_every_stream() -> None:
    shared = Bus()
    stream = shared.stream(None, "/work", "p")
    await taken(stream, 1)
    shared.close()
    with anyio.fail_after(5):
        assert [piece async for piece in stream] == []


def test_passing_events_have_ids_of_their_own() -> None:
    assert len({passing_id("heartbeat") for _ in range(100)}) == 100


# With a server


@pytest.mark.proves("GO7")
def test_a_client_that_stops_reading_holds_up_neither_the_agent_nor_the_others(
    server: Live,
) -> None:
    session = server.session()
    with server.events() as stalled:
        assert stalled.seen
        with server.events() as reads:
            server.begin(session, "chunks 3000 1000")
            reads.idle(session)
    whole = server.get(f"/session/{session}/message")[-1]["parts"][0]["text"]
    assert len(whole) == 3_000_000


@pytest.mark.proves("GO4")
def test_what_is_told_live_is_what_is_read_back(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        server.begin(session, "think hm || say one || run! echo two || slow 30 5 || plan || usage")
        seen = events.idle(session)
    parts: dict[str, Json] = {}
    infos: dict[str, Json] = {}
    own = [each for each in seen if each["properties"].get("sessionID") == session]
    for each in own:
        told = each["properties"]
        if each["type"] == "message.updated":
            infos[told["info"]["id"]] = told["info"]
        elif each["type"] == "message.part.updated":
            parts[told["part"]["id"]] = told["part"]
        elif each["type"] == "message.part.delta":
            parts[told["partID"]][told["field"]] += told["delta"]
    rows = server.get(f"/session/{session}/message")
    assert [row["info"] for row in rows] == [infos[key] for key in sorted(infos)]
    assert [part for row in rows for part in row["parts"]] == [parts[key] for key in sorted(parts)]
    ids = [each["id"] for each in own if re_event(each["id"])]
    assert ids == sorted(ids) and len({*ids}) == len(ids)


def re_event(own: str) -> bool:
    return own.removeprefix("evt_").isalnum() and own[4:5].isdigit()


@pytest.mark.proves("GO11")
def test_a_restart_of_the_daemon_loses_no_event(tmp_path: Path) -> None:
    """The daemon dies in a turn and comes back; the gateway and its clients stay."""
    with live(tmp_path) as server:
        session = server.session()
        with server.events() as events:
            server.begin(session, "slow 1000 20")
            events.until("message.part.delta", sessionID=session)
            server.served.kill()
            assert server.call("GET", "/agent").status_code == 503
            server.portal.call(server.served.start)
            seen = events.idle(session)
            (error,) = [e["properties"]["error"] for e in seen if e["type"] == "session.error"]
            assert "daemon stopped" in error["data"]["message"]
            until(lambda: server.call("GET", "/agent").status_code == 200, "the daemon again")
            server.begin(session, "say back || history")
            del events.seen[:]
            events.idle(session)
        rows = server.get(f"/session/{session}/message")
        assert [row["info"]["role"] for row in rows] == ["user", "assistant"] * 2
        assert rows[3]["parts"][0]["text"].startswith("back")
        assert len({part["id"] for row in rows for part in row["parts"]}) == sum(
            len(row["parts"]) for row in rows
        )


@pytest.mark.proves("GO6")
def test_a_session_keeps_its_id_and_its_messages_when_the_server_is_another_one(
    tmp_path: Path,
) -> None:
    with live(tmp_path) as first:
        session = first.post("/session", {"title": "Kept", "workspaceID": "wrk_1"})["id"]
        told: Json = {"messageID": "msg_22df053b5001mine", "agent": "demo"}
        first.say(session, "say hello", **told)
        before = first.get(f"/session/{session}/message")
        assert before[0]["info"]["id"] == "msg_22df053b5001mine"
        again = first.call("POST", f"/session/{session}/message", {"parts": ["say hello"], **told})
        assert again.json()["info"]["id"] == before[1]["info"]["id"]
        assert len(first.get(f"/session/{session}/message")) == 2
    with live(tmp_path) as second:
        shown = second.get(f"/session/{session}")
        assert (shown["title"], shown["workspaceID"], shown["agent"]) == ("Kept", "wrk_1", "demo")
        assert second.get(f"/session/{session}/message") == before
        assert second.say(session, "history")["parts"][0]["text"].endswith("2 user turns.")


@pytest.mark.proves("GO6")
def test_who_answers_is_chosen_by_the_first_prompt(server: Live) -> None:
    session = server.post("/session", {})["id"]
    assert "agent" not in server.get(f"/session/{session}")
    server.say(
        session, "modelname", model={"providerID": "demo", "modelID": "demo-smart"}, agent="build"
    )
    shown = server.get(f"/session/{session}")
    assert shown["agent"] == "demo"
    assert shown["model"] == {"id": "demo-smart", "providerID": "demo"}
    assert (
        server.say(session, "modelname", model="demo/demo-fast")["info"]["modelID"] == "demo-fast"
    )
    other = server.call("POST", f"/session/{session}/message", {"prompt": "x", "agent": "claude"})
    assert other.status_code == 409 and "Start a new session" in other.json()["error"]


@pytest.mark.proves("GO6")
def test_a_plan_is_asked_of_an_agent_that_has_such_a_mode(server: Live) -> None:
    session = server.session()
    server.say(session, "say x")
    assert server.say(session, "mode", agent="plan")["parts"][0]["text"] == "plan"
    commands = server.get("/command")
    assert {"demo:plan", "demo:history"} <= {each["id"] for each in commands}
    shown = next(each for each in server.get("/agent") if each["name"] == "demo")
    assert {"ask", "auto", "plan"} == {each["id"] for each in shown["modes"]}


@pytest.mark.proves("GO6")
def test_a_closed_session_is_taken_up_by_its_next_prompt(server: Live) -> None:
    session = server.session()
    server.say(session, "say x")

    async def close() -> None:
        async with server.served.client() as client:
            await client.sessions.close(session)

    server.portal.call(close)
    assert server.say(session, "history")["parts"][0]["text"].endswith("2 user turns.")


@pytest.mark.proves("GO4")
def test_what_others_do_with_a_session_is_seen_by_its_clients(server: Live) -> None:
    """A person at the command line prompts the session that is open in a client."""
    session = server.session()
    with server.events() as events:

        async def prompt() -> None:
            async with server.served.client() as client:
                await client.runs.create(session, "say from elsewhere")

        server.portal.call(prompt)
        events.idle(session)
    texts = [
        part["text"]
        for row in server.get(f"/session/{session}/message")
        for part in row["parts"]
        if "text" in part
    ]
    assert texts == ["say from elsewhere", "from elsewhere"]


@pytest.mark.proves("GO6")
def test_prompts_wait_for_their_turn(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        server.begin(session, "slow 10 10")
        answer = server.say(session, "say second")
        assert answer["parts"][0]["text"] == "second"
        events.idle(session)
    rows = server.get(f"/session/{session}/message")
    assert [row["info"]["role"] for row in rows] == ["user", "assistant"] * 2


@pytest.mark.proves("GO4")
def test_a_prompt_that_is_waited_for_ends_when_its_session_is_deleted(server: Live) -> None:
    session = server.session()
    with server.events() as events:

        def ask() -> None:
            body = {"parts": ["hang"]}
            answers.append(server.call("POST", f"/session/{session}/message", body).status_code)

        answers: list[int] = []
        waits = threading.Thread(target=ask)
        waits.start()
        events.until("session.status", sessionID=session)
        assert server.call("DELETE", f"/session/{session}").json() is True
        waits.join(PATIENCE_S)
    # Its end may come before its session is gone: then that is the answer.
    assert answers in ([404], [200])


@pytest.mark.anyio
@pytest.mark.proves("GO4")
async def test_an_event_that_cannot_be_shown_ends_no_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation = Conversation(Facts("ses_1", "demo", "/work"), {})
    broken = v1.AgentEvent(type=v1.EventType.EVENT_TYPE_MESSAGE_CHUNK, run_id="run_1")
    assert fed(conversation, broken) == []
    assert "cannot be shown" in caplog.text
    good = v1.AgentEvent(type=v1.EventType.EVENT_TYPE_GIT, git=v1.Git(branch="main"))
    assert [each.type for each in fed(conversation, good)] == ["vcs.branch.updated"]
