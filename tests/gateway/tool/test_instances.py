"""Servers: what connect tells apart, several at once, lost ones, and what outlives the process."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.config import Features, InstanceConfig, ToolConfig
from tests.cli.fake_daemon import FakeDaemon
from tests.gateway.tool import servers
from tests.gateway.tool.conftest import (
    SETTINGS,
    Served,
    completes,
    ok,
    refused,
    serving,
    session,
    until,
)

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

TOKEN = "a token that is long enough"


@pytest.mark.proves("TL3")
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1", "unix:/nowhere.sock"])
async def test_a_server_that_does_not_run_is_econnrefused(tool: OpenCodeTool, url: str) -> None:
    error = await refused(tool, action="connect", url=url)
    assert error["code"] == "ECONNREFUSED" and "failed to connect" not in error["message"]


@pytest.mark.proves("TL3")
async def test_a_server_that_says_nothing_is_a_timeout(tool: OpenCodeTool) -> None:
    async with servers.server(servers.silent) as url:
        error = await refused(tool, action="connect", url=url, timeout_ms=200)
        assert error["code"] == "TIMEOUT" and "200 ms" in error["message"]
        silent = url.removeprefix("http://")
        error = await refused(tool, action="connect", url=silent, timeout_ms=200)
        assert error["code"] in ("TIMEOUT", "ECONNREFUSED")


@pytest.mark.proves("TL3")
@pytest.mark.parametrize(
    ("wanted", "token"),
    [
        ("Basic b3BlbmNvZGU6czNjcmV0", "s3cret"),
        ("Basic bWU6czNjcmV0", "me:s3cret"),
        ("Bearer s3cret", "s3cret"),
    ],
)
async def test_a_token_is_tried_as_password_and_as_bearer(
    tool: OpenCodeTool, wanted: str, token: str
) -> None:
    async with servers.server(servers.guarded(wanted)) as url:
        for wrong in ({}, {"auth_token": "wrong"}):
            error = await refused(tool, action="connect", url=url, **wrong)
            assert error["code"] == "AUTH_FAILED"
        made = await ok(tool, action="connect", url=url, auth_token=token)
        assert made["server_version"] == "1.18.33"


@pytest.mark.proves("TL2")
@pytest.mark.parametrize("token", ["env:HOME", "file:/etc/hostname", "me:env:HOME"])
async def test_a_token_is_never_followed_to_a_variable_or_a_file(
    tool: OpenCodeTool, token: str
) -> None:
    async with servers.server(servers.guarded("never")) as url:
        error = await refused(tool, action="connect", url=url, auth_token=token)
    assert error["details"]["parameters"] == ["auth_token"]


@pytest.mark.parametrize(
    ("answer", "word"), [(servers.web_page, "web page"), (servers.broken, "HTTP 502")]
)
async def test_what_is_no_such_server_is_a_server_error(
    tool: OpenCodeTool, answer: servers.Answer, word: str
) -> None:
    async with servers.server(answer) as url:
        error = await refused(tool, action="connect", url=url)
    assert error["code"] == "SERVER_ERROR" and word in error["message"]


@pytest.mark.parametrize("url", ["ftp://h", "nonsense", "http://", "http://a:b@h", "h:99999x"])
async def test_what_is_no_address_is_a_wrong_parameter(tool: OpenCodeTool, url: str) -> None:
    error = await refused(tool, action="connect", url=url)
    assert error["details"]["parameters"] == ["url"]


async def test_a_version_that_we_do_not_speak_is_refused_and_said(
    tool: OpenCodeTool, tmp_path: Path
) -> None:
    async with servers.server(servers.healthy("2.0.0")) as url:
        error = await refused(tool, action="connect", url=url)
    assert error["code"] == "SERVER_ERROR" and "OpenCode 2.0.0" in error["message"]
    assert error["details"]["server_version"] == "2.0.0"
    assert error["details"]["reason"] == "UNSUPPORTED"
    daemon = FakeDaemon(Path("/tmp") / f"actl-{tmp_path.name}.sock")
    try:
        daemon.answers["Daemon/GetInfo"] = lambda _: v1.GetInfoResponse(version="9.1.0")
        error = await refused(tool, action="connect", url=daemon.address)
        assert "agentctl 9.1.0" in error["message"] and "same major" in error["message"]
    finally:
        await anyio.to_thread.run_sync(daemon.stop)


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (servers.healthy("0.9.1"), "0.9.1"),
        (servers.healthy("local"), "local"),
        (servers.healthy(""), None),
        (servers.aged, None),
    ],
)
async def test_old_and_nameless_versions_are_taken(
    tool: OpenCodeTool, answer: servers.Answer, version: str | None
) -> None:
    async with servers.server(answer) as url:
        made = await ok(tool, action="connect", url=url)
    assert made.get("server_version") == version
    assert made["instance"] == url.removeprefix("http://")


@pytest.mark.proves("TL3")
async def test_a_daemon_on_tcp_wants_its_token(tool: OpenCodeTool) -> None:
    settings = SETTINGS + 'token_file = "{root}/token"\n'
    with serving(settings, "--listen", "127.0.0.1:0", token=TOKEN) as far:
        address = far.listening
        error = await refused(tool, action="connect", url=address)
        assert error["code"] == "AUTH_FAILED"
        error = await refused(tool, action="connect", url=address, auth_token="x" * 20)
        assert error["code"] == "AUTH_FAILED"
        made = await ok(tool, action="connect", url=f"grpc://{address}", auth_token=TOKEN)
        assert (made["url"], made["connected"]) == (address, True)
        found = await ok(
            tool,
            action="create_session",
            instance=made["instance"],
            project=far.project("far"),
        )
        assert found["instance"] == made["instance"]


@pytest.mark.proves("TL10")
async def test_two_daemons_at_once_each_with_its_own_sessions(
    served: Served, tool: OpenCodeTool
) -> None:
    with serving(SETTINGS) as other:
        await ok(tool, action="connect", url=other.address, name="other")
        near = await session(tool, served, project=served.project("near"))
        far = await ok(
            tool,
            action="create_session",
            instance="other",
            project=other.project("far"),
        )
        async with tool.events(after="now") as feed:
            for found in (near, far["session_id"]):
                await ok(tool, action="send_message", session_id=found, message=f"say {found}")
            ended: set[str] = set()

            def both(event: Json) -> bool:
                ended.update({event["session_id"]} if completes(event) else ())
                return len(ended) == 2

            rows = await until(feed, both)
        assert ended == {near, far["session_id"]}
        assert rows[-1]["cursor"].count(",") == 1, "a place in each journal"
        async with tool.events(after=rows[0]["cursor"]) as feed:
            ended.clear()
            again = await until(feed, both)
        assert {row["timestamp"] for row in again} == {row["timestamp"] for row in rows[1:]}
        listed = await ok(tool, action="list_sessions")
        whose = {row["session_id"]: row["instance"] for row in listed["sessions"]}
        assert (whose[near], whose[far["session_id"]]) == ("local", "other")
        alone = await ok(tool, action="list_sessions", instance="other")
        assert [row["session_id"] for row in alone["sessions"]] == [far["session_id"]]
        assert alone["total"] == 1
        stats = await ok(tool, action="get_stats", instance="other")
        assert (stats["scope"], stats["stats"]["sessions_total"]) == ("instance", 1)
        status = await ok(tool, action="get_status", session_id=far["session_id"])
        assert status["instance"] == "other"
        await ok(tool, action="disconnect", instance="other")
        error = await refused(tool, action="get_status", session_id=far["session_id"])
        assert error["code"] == "INSTANCE_NOT_CONNECTED"
        assert error["details"]["instance"] == "other"


async def test_an_instance_that_is_away_does_not_hide_the_others(
    served: Served, tool: OpenCodeTool
) -> None:
    with serving(SETTINGS) as other:
        await ok(tool, action="connect", url=other.address, name="away")
    listed = await ok(tool, action="list_sessions")
    assert "away" in listed["message"] and listed["total"] >= 0


@pytest.mark.proves("TL11")
async def test_a_daemon_that_comes_back_is_used_again(served: Served) -> None:
    with serving(SETTINGS) as daemon:
        async with daemon.tool() as tool:
            found = await session(tool, daemon)
            async with tool.events(found, after="now") as feed:
                await ok(tool, action="send_message", session_id=found, message="say one")
                await until(feed, completes)
                await anyio.to_thread.run_sync(daemon.restart)
                status = await ok(tool, action="get_status", session_id=found)
                assert status["status"] == "paused"
                attached = await ok(tool, action="attach_session", session_id=found)
                assert attached["status"] == "active" and attached["subscribed"] is True
                await ok(tool, action="send_message", session_id=found, message="say two")
                rows = await until(feed, completes)
            assert rows[-1]["summary"] == "two"


@pytest.mark.proves("TL6", "TL11")
async def test_without_auto_reconnect_a_lost_daemon_stays_lost_until_connect() -> None:
    config = ToolConfig(features=Features(auto_reconnect=False))
    with serving(SETTINGS) as daemon:
        async with daemon.tool(config) as tool:
            found = await session(tool, daemon)
            async with tool.events(found) as feed:
                await anyio.to_thread.run_sync(daemon.restart)
                told = (await until(feed, lambda e: e["type"] == "agent.error"))[-1]
                assert told["recoverable"] is True and told["session_id"] == found
            for _ in range(2):
                error = await refused(tool, action="get_status", session_id=found)
                assert error["code"] == "INSTANCE_NOT_CONNECTED"
            await ok(tool, action="connect", url=daemon.address)
            assert (await ok(tool, action="get_status", session_id=found))["status"] == "paused"


@pytest.mark.proves("TL11")
async def test_what_was_connected_outlives_the_process(served: Served, tmp_path: Path) -> None:
    with serving(SETTINGS) as other:
        async with served.tool(data_dir=tmp_path) as tool:
            await ok(tool, action="connect", url=other.address, name="other")
            request = {"action": "create_session", "project": other.project("kept")}
            far = await ok(tool, instance="other", **request)
        kept = json.loads((tmp_path / "tool.json").read_text())
        assert kept["connected"] == {"other": {"url": other.address, "token": False}}
        async with served.tool(data_dir=tmp_path) as tool:
            status = await ok(tool, action="get_status", session_id=far["session_id"])
            assert status["instance"] == "other"
            await ok(tool, action="disconnect")
        async with served.tool(data_dir=tmp_path) as tool:
            error = await refused(tool, action="list_sessions")
            assert error["code"] == "INSTANCE_NOT_CONNECTED"


@pytest.mark.proves("TL6", "TL11")
async def test_without_state_persistence_nothing_is_written(served: Served, tmp_path: Path) -> None:
    config = ToolConfig(features=Features(state_persistence=False))
    async with served.tool(config, data_dir=tmp_path) as tool:
        await ok(tool, action="connect", url=served.address, name="again")
        await session(tool, served)
    assert not [*tmp_path.iterdir()]  # noqa: ASYNC240  an empty directory


async def test_no_token_is_ever_written(served: Served, tmp_path: Path) -> None:
    async with servers.server(servers.guarded("Bearer s3cret-token")) as url:
        async with served.tool(data_dir=tmp_path) as tool:
            await ok(tool, action="connect", url=url, auth_token="s3cret-token", name="safe")
        written = (tmp_path / "tool.json").read_text()
        assert "s3cret" not in written and json.loads(written)["connected"]["safe"]["token"]
        async with served.tool(data_dir=tmp_path) as tool:
            error = await refused(tool, action="list_sessions", instance="safe")
            assert error["code"] == "PERMISSION_DENIED", "its token is not there any more"


@pytest.mark.proves("TL6")
async def test_the_instances_of_the_file_are_used_as_it_says(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers.server(servers.guarded("Bearer from-the-environment")) as url:
        monkeypatch.setenv("FAR_TOKEN", "from-the-environment")
        instances = (
            InstanceConfig(name="one", url=served.address, auto_connect=False),
            InstanceConfig(name="two", url=served.address, default=True),
            InstanceConfig(name="far", url=url, auth_token_env="FAR_TOKEN"),
        )
        async with served.tool(ToolConfig(instances=instances)) as tool:
            made = await ok(tool, action="create_session", project=served.project("p"))
            assert made["instance"] == "two", "the default"
            error = await refused(tool, action="list_sessions", instance="one")
            assert error["code"] == "INSTANCE_NOT_CONNECTED", "it is not connected by itself"
            assert (await ok(tool, action="list_sessions", instance="far"))["total"] == 0
            names = await ok(tool, action="disconnect")
            assert names["disconnected"] == ["two", "far"]


async def test_a_name_that_is_given_to_another_server_is_that_one_from_then_on(
    served: Served, tool: OpenCodeTool
) -> None:
    near = await session(tool, served)
    with serving(SETTINGS) as other:
        await ok(tool, action="connect", url=other.address, name="local")
        assert (await ok(tool, action="list_sessions"))["total"] == 0
        error = await refused(tool, action="get_status", session_id=near)
        assert error["code"] == "SESSION_NOT_FOUND"


async def test_an_opencode_url_without_a_daemon_of_ones_own_says_so(served: Served) -> None:
    async with (
        servers.server(servers.healthy("1.2.3")) as url,
        OpenCodeTool(ToolConfig(), address="unix:/none.sock", data_dir=served.root) as tool,
    ):
        error = await refused(tool, action="connect", url=url)
    assert error["code"] == "SERVER_ERROR" and "Your own daemon" in error["message"]
    assert error["details"]["cause"] == "ECONNREFUSED"


async def test_a_call_that_waits_is_not_disturbed_by_a_disconnect(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    answers: list[Json] = []

    async def wait() -> None:
        request = {"session_id": found, "message": "plan || slow 4 100"}
        answers.append(await tool(action="send_message", wait_for_completion=True, **request))

    async with (
        served.tool() as other,
        other.events(found) as feed,
        anyio.create_task_group() as group,
    ):
        group.start_soon(wait)
        await until(feed, lambda event: event["type"] == "agent.progress")
        await ok(tool, action="disconnect")
    assert answers[0]["success"] is True
