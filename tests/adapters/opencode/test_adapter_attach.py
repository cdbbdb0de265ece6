"""Servers that somebody else runs, of other makes and ages: reached, used as far as they go, left alone."""

import base64
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentFailed, Invalid, Refused, Unsupported
from agentctl.core.events import PermissionResolved, SessionOptions, ToolUpdate
from agentctl.core.words import Decision, Outcome
from agentctl_adapters.opencode.attach import target_of
from agentctl_adapters.opencode.stream import Pace
from tests.adapters.opencode.live import launch, outside, running
from tests.adapters.opencode.scenarios import GROUPS

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse"
SHORT = Pace(tick_s=0.1, retry_s=0.01, gone_s=0.5)
ALL = {name: check for group in GROUPS.values() for name, check in group.items()}
LACKING = {
    # No list of all sessions, no questions, no route for these in the older server.
    "a_question_is_answered_and_the_turn_goes_on",
    "a_rejected_question_ends_the_turn",
    # A word for a status tells no attempt.
    "a_retry_is_told_and_the_answer_still_comes",
    # Its reject takes no words, so that it ends the turn.
    "a_denial_reaches_the_model_with_its_reason_and_the_turn_goes_on",
    "a_denial_without_a_reason_says_who_denied",
}


def at(url: str, **auth: str) -> dict[str, Any]:
    """A connection by URL: a command that would be noticed, were it started."""
    return {"argv": ("/nonexistent/never-started",), "url": url, "auth": auth}


@pytest.mark.parametrize(
    "auth",
    [
        {"password": PASSWORD},
        {"type": "basic", "user": "opencode", "password": PASSWORD},
        {"type": "auth_token", "password": PASSWORD},
        {"auth_token": base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()},
        {"bearer": "for-the-proxy", "password": PASSWORD},
        {"password": "env:SERVER_PASSWORD"},
    ],
)
async def test_each_way_to_say_who_we_are_is_understood(
    tmp_path: Path, auth: dict[str, str]
) -> None:
    async with outside(password=PASSWORD) as (url, _):
        env = {"SERVER_PASSWORD": PASSWORD}
        async with running(workspace=str(tmp_path), env=env, **at(url, **auth)) as live:
            session = await live.session()
            assert (await live.ask(session, "SAYTEXT hi")).text == "hi"
            assert live.connection.info.pid is None
            assert PASSWORD not in str([frame.msg for frame in live.frames])


async def test_a_wrong_password_asks_for_another_one(tmp_path: Path) -> None:
    async with outside(password=PASSWORD) as (url, _):
        with pytest.raises(Refused, match="Check the user and password") as caught:
            async with running(workspace=str(tmp_path), **at(url, password="wrong")):
                pytest.fail("it must not be let in")
        assert caught.value.reason == "AUTH_REQUIRED"


async def test_a_url_in_a_url_with_user_and_password_is_understood() -> None:
    made = launch(["x"], [], url="http://me:pa%20ss@127.0.0.1:1/", auth={})
    target = target_of(made)

    assert (target.url, target.user, target.password) == ("http://127.0.0.1:1", "me", "pa ss")
    assert not target.remote
    assert target_of(launch(["x"], [], url="https://example.invalid/x", auth={})).remote


@pytest.mark.parametrize(
    ("url", "auth", "words"),
    [
        ("ftp://x", {}, "http://HOST:PORT"),
        ("127.0.0.1:4096", {}, "http://HOST:PORT"),
        ("http://x", {"pasword": "p"}, "auth has no field 'pasword'"),
        ("http://x", {"password": "env:NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE is not set"),
    ],
)
async def test_a_wrong_url_or_auth_is_named(url: str, auth: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        target_of(launch(["x"], [], url=url, auth=auth))


@pytest.mark.parametrize("fault", ["html", "locked"])
async def test_what_is_no_opencode_server_or_locked_is_told(tmp_path: Path, fault: str) -> None:
    async with outside(fault) as (url, _):
        with pytest.raises((AgentFailed, Refused)) as caught:
            async with running(workspace=str(tmp_path), **at(url)):
                pytest.fail("it must not connect")
    assert ("not an OpenCode server" in caught.value.message) == (fault == "html")


async def test_the_server_of_somebody_else_is_never_stopped(tmp_path: Path) -> None:
    async with (
        outside() as (url, pid),
        running(workspace=str(tmp_path), **at(url)) as live,
    ):
        session = await live.session()
        await live.begin(session, "TOOL sleep 0.3; touch done")
        await live.approve(session)
        await live.ended(session)
        assert psutil.Process(pid).is_running()
        assert live.requests("/global/dispose") == []
        async with running(workspace=str(tmp_path), **at(url)) as again:
            await again.connection.resume_session(session, again.spec())
            assert (await again.ask(session, "HISTORY")).text == "HISTORY 2"


async def test_of_another_clients_session_nothing_is_taken(tmp_path: Path) -> None:
    async with (
        outside() as (url, _),
        running(workspace=str(tmp_path), **at(url)) as one,
        running(workspace=str(tmp_path), **at(url)) as two,
    ):
        theirs, ours = await one.session(), await two.session()
        await one.ask(theirs, "SAYTEXT theirs")
        assert (await two.ask(ours, "SAYTEXT ours")).text == "ours"
        assert {event.session_id for event in two.events} == {ours}


@pytest.mark.proves("A1")
async def test_a_request_that_another_client_answers_is_resolved_elsewhere(tmp_path: Path) -> None:
    async with (
        outside() as (url, _),
        running(workspace=str(tmp_path), **at(url)) as one,
        running(workspace=str(tmp_path), **at(url)) as two,
    ):
        session = await one.session()
        await one.begin(session, "TOOL echo x")
        await one.asked(session)
        await two.connection.resume_session(session, two.spec())
        await two.approve(session)
        await one.ended(session)
        (answer,) = one.of_type(PermissionResolved)
        assert (answer.decision, answer.by and answer.by.value) == (Decision.APPROVED, "elsewhere")


async def test_a_server_without_rules_of_its_own_is_told_to_ask(tmp_path: Path) -> None:
    async with (
        outside(asks=False) as (url, _),
        running(workspace=str(tmp_path), **at(url)) as live,
    ):
        session = await live.session()
        (made,) = [r for r in live.requests("/session") if r["method"] == "POST"]
        asks = {rule["permission"]: rule["action"] for rule in made["body"]["permission"]}
        assert asks == {"edit": "ask", "bash": "ask", "webfetch": "ask"}
        await live.begin(session, "TOOL echo x")
        await live.approve(session)
        await live.ended(session)


@pytest.mark.proves("T5")
async def test_a_server_that_goes_away_fails_its_runs(tmp_path: Path) -> None:
    async with (
        outside() as (url, pid),
        running(workspace=str(tmp_path), pace=SHORT, **at(url)) as live,
    ):
        session = await live.session()
        await live.begin(session, "SLOW 100 100")
        await live.until(lambda: live.requests("prompt_async"))
        psutil.Process(pid).kill()
        run = await live.ended(session)
        assert run.complete.outcome is Outcome.FAILED
        await live.until(lambda: live.gone)


# Other makes and ages


@pytest.mark.parametrize("name", sorted(set(ALL) - LACKING))
async def test_a_scenario_holds_on_a_server_of_older_shapes(tmp_path: Path, name: str) -> None:
    async with outside("old") as (url, _), running(workspace=str(tmp_path), **at(url)) as live:
        await ALL[name](live)


@pytest.mark.parametrize(
    "name",
    [
        "text_is_equal_byte_for_byte",
        "two_prompts_make_two_runs_with_their_own_text",
        "a_model_error_fails_the_run_once",
        "the_todo_list_is_a_plan",
    ],
)
async def test_a_server_without_events_answers_when_it_is_done(tmp_path: Path, name: str) -> None:
    async with (
        outside("sync_only") as (url, _),
        running(workspace=str(tmp_path), **at(url)) as live,
    ):
        with anyio.fail_after(10):
            await ALL[name](live)
        assert live.requests("prompt_async") == []


async def test_what_a_server_lacks_is_unsupported_and_then_absent(tmp_path: Path) -> None:
    async with (
        outside("sync_only") as (url, _),
        running(workspace=str(tmp_path), **at(url)) as live,
    ):
        session = await live.session()
        with pytest.raises(Unsupported):
            await live.connection.authenticate("any")
        assert Feature.FORK in live.connection.info.features
        assert live.of_type(SessionOptions, session) or live.connection.info.version == ""


async def test_an_older_servers_denial_ends_the_turn_and_the_next_prompt_works(
    tmp_path: Path,
) -> None:
    async with outside("old") as (url, _), running(workspace=str(tmp_path), **at(url)) as live:
        session = await live.session()
        await live.begin(session, "TOOL echo no")
        await live.answer(await live.asked(session), Decision.DENIED)
        run = await live.ended(session)
        assert [r.decision for r in run.of(PermissionResolved)] == [Decision.DENIED]
        assert run.of(ToolUpdate)[-1].error
        assert (await live.ask(session, "SAYTEXT next")).text == "next"
