"""Rare turns: a gateway that begins in the middle, a gap, answers that an agent does not offer, MCP."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import httpx
import pytest

from agentctl import v1
from agentctl.core.errors import AgentctlError, Invalid, Refused, Unsupported
from agentctl.gateway.opencode import errors, routes_asks, routes_server
from agentctl.gateway.opencode.context import Call, Rooms
from agentctl.gateway.opencode.errors import HttpError
from agentctl.gateway.opencode.pump import Pump
from agentctl.gateway.opencode.serving import Options, serving
from tests.daemon.harness import daemon, wait_until_gone

Json = dict[str, Any]
LIMIT_S = 60


@pytest.mark.anyio
@pytest.mark.proves("GO11")
async def test_a_gateway_that_begins_in_the_middle_of_a_turn_tells_it_whole(tmp_path: Path) -> None:
    with anyio.fail_after(LIMIT_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(tmp_path), wait_ready=True)
            own = session.session_id
            prompt = "say one || run touch made.txt || slow 10 20 || say two"
            run = (await client.runs.create(own, prompt)).run.run_id
            while not (await client.approvals.list()).approvals:  # noqa: ASYNC110  no event here
                await anyio.sleep(0.01)
            options = Options(port=0, directory=tmp_path)
            async with (
                serving(client, options) as url,
                httpx.AsyncClient(base_url=url, timeout=LIMIT_S) as http,
                http.stream("GET", "/global/event") as events,
            ):
                (asked,) = (await http.get("/permission")).json()
                assert (await http.get("/session/status")).json() == {own: {"type": "busy"}}
                assert asked["sessionID"] == own
                replied = await http.post(
                    f"/permission/{asked['id']}/reply", json={"reply": "once"}
                )
                assert replied.json() is True
                async for line in events.aiter_lines():
                    if '"session.idle"' in line:
                        break
                rows = (await http.get(f"/session/{own}/message")).json()
            assert (await client.runs.get(run)).state == v1.RunState.RUN_STATE_COMPLETED
    await wait_until_gone(tmp_path)
    kinds = [part["type"] for part in rows[1]["parts"]]
    assert kinds[:3] == ["text", "tool", "text"] and rows[1]["parts"][0]["text"] == "one"
    assert rows[1]["parts"][2]["text"].endswith("two")


@pytest.mark.anyio
@pytest.mark.proves("GO11")
async def test_a_gap_in_the_journal_makes_every_client_read_anew() -> None:
    pump = Pump(cast(Any, None), cast(Any, None), cast(Any, None))
    stream = pump.bus.stream(None, "/work", "p")
    with anyio.fail_after(LIMIT_S):
        assert b"server.connected" in await anext(stream)
        gap = v1.Gap(requested="a:9", first_available="b:1", reason="another journal")
        await pump._take(v1.EventBatch(gap=gap))
        assert b"server.instance.disposed" in await anext(stream)
        await stream.aclose()


# Answers


class Approvals:
    """A daemon's approvals that remember what they are told."""

    def __init__(self, *open_: v1.Approval, error: AgentctlError | None = None) -> None:
        self.open = list(open_)
        self.told: list[Json] = []
        self.error = error

    async def list(self, **_: Any) -> v1.ListApprovalsResponse:
        return v1.ListApprovalsResponse(approvals=self.open)

    async def respond(self, approval_id: str, decision: str = "", **how: Any) -> None:
        if self.error is not None:
            raise self.error
        self.told.append({"id": approval_id, "decision": decision, **how})
        self.open = [each for each in self.open if each.approval_id != approval_id]


def approval(own: str, *kinds: str, reusable: bool = False) -> v1.Approval:
    options: Sequence[v1.PermissionOption] = [
        v1.PermissionOption(option_id=k, kind=v1.OptionKind.Value(f"OPTION_KIND_{k.upper()}"))
        for k in kinds
    ]
    request = v1.PermissionRequest(approval_id=own, options=options, reusable=reusable)
    return v1.Approval(approval_id=own, session_id="ses_1", request=request)


def rooms(approvals: Approvals) -> Rooms:
    return cast(Rooms, SimpleNamespace(client=SimpleNamespace(approvals=approvals)))


@pytest.mark.anyio
@pytest.mark.proves("GO5")
async def test_always_is_a_rule_of_ours_else_the_agents_own_else_refused() -> None:
    ours = Approvals(approval("apr_1", reusable=True))
    await routes_asks.reply(rooms(ours), "per_1", "always", "")
    assert ours.told[0]["always"] is True
    theirs = Approvals(approval("apr_1", "allow_once", "allow_always"))
    await routes_asks.reply(rooms(theirs), "per_1", "always", "")
    assert theirs.told[0]["option_id"] == "allow_always"
    with pytest.raises(Invalid, match="allow it once"):
        await routes_asks.reply(
            rooms(Approvals(approval("apr_1", "allow_once"))), "per_1", "always", ""
        )


@pytest.mark.anyio
@pytest.mark.proves("GO5")
async def test_a_rejection_rejects_the_other_requests_of_the_session() -> None:
    both = Approvals(approval("apr_1"), approval("apr_2"))
    await routes_asks.reply(rooms(both), "per_1", "reject", "no")
    assert [(each["id"], each["decision"]) for each in both.told] == [
        ("apr_1", "deny"),
        ("apr_2", "deny"),
    ]


@pytest.mark.anyio
@pytest.mark.proves("GO5")
async def test_a_request_that_somebody_else_answered_meanwhile_is_not_found() -> None:
    late = Approvals(approval("apr_1"), error=Refused("too late", reason="ALREADY_RESOLVED"))
    with pytest.raises(HttpError) as caught:
        await routes_asks.reply(rooms(late), "per_1", "once", "")
    assert caught.value.status == 404 and caught.value.body["_tag"] == "PermissionNotFoundError"
    other = Approvals(approval("apr_1"), error=Invalid("not offered", reason="OPTION_NOT_OFFERED"))
    with pytest.raises(Invalid):
        await routes_asks.reply(rooms(other), "per_1", "once", "")
    for wrong in ("per_", "apr_1", "x"):
        with pytest.raises(HttpError):
            await routes_asks.reply(rooms(Approvals(approval("apr_1"))), wrong, "once", "")


# MCP servers

SERVERS = [
    {"name": "filesystem", "state": "connected"},
    {"name": "github", "state": "failed", "detail": "boom"},
    {"name": "fetch", "state": "disabled"},
    {"name": "login", "state": "needs_auth"},
    {"name": "odd", "state": "unknown"},
]


def mcp_call(path: str = "/mcp", **names: str) -> Call:
    session = v1.Session(session_id="ses_1", workspace="/work")
    closed = v1.Session(session_id="ses_2", workspace="/work", closed_at=1)
    elsewhere = v1.Session(session_id="ses_3", workspace="/other")

    async def whole(_: v1.Session) -> Any:
        return SimpleNamespace(options={"mcp_servers": SERVERS})

    async def load() -> list[v1.Session]:
        return [session, closed, elsewhere]

    async def directory(*_: Any) -> str:
        return "/work"

    request = SimpleNamespace(
        path_params=names, query_params={}, headers={}, url=SimpleNamespace(path=path)
    )
    behind = SimpleNamespace(
        places=SimpleNamespace(of=directory),
        roster=SimpleNamespace(load=load),
        pump=SimpleNamespace(whole=whole),
    )
    return Call(cast(Any, request), cast(Rooms, behind))


@pytest.mark.anyio
@pytest.mark.proves("GO1")
async def test_mcp_servers_are_shown_as_their_sessions_tell_them() -> None:
    assert await routes_server.mcp(mcp_call()) == {
        "filesystem": {"status": "connected"},
        "github": {"status": "failed", "error": "boom"},
        "fetch": {"status": "disabled"},
        "login": {"status": "needs_auth"},
        "odd": {"status": "disabled"},
    }
    again = mcp_call("/mcp/filesystem/connect", name="filesystem")
    assert await routes_server.switch_mcp(again) is True
    for path, name in (
        ("/mcp/filesystem/disconnect", "filesystem"),
        ("/mcp/fetch/connect", "fetch"),
    ):
        with pytest.raises(HttpError) as caught:
            await routes_server.switch_mcp(mcp_call(path, name=name))
        assert caught.value.status == 400 and "themselves" in caught.value.body["error"]


ERRORS: list[tuple[AgentctlError, int]] = [
    (Invalid("x"), 400),
    (Unsupported("x"), 400),
    (Refused("x", reason="AGENT_DISABLED"), 409),
    (AgentctlError("x"), 503),
]


@pytest.mark.parametrize(("error", "status"), ERRORS)
def test_what_the_daemon_refuses_has_a_status_and_its_reason(
    error: AgentctlError, status: int
) -> None:
    told = errors.of_daemon(error)
    assert (told.status, told.body) == (status, {"error": "x", "reason": error.reason})
