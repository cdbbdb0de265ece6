"""The Claude Code adapter against a fake that misbehaves in one way: what the caller is told."""

from pathlib import Path

import anyio
import psutil
import pytest

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.errors import AgentFailed, Invalid, NotFound, Refused, TimedOut
from agentctl.core.events import Complete, MessageChunk
from agentctl.core.ids import NativeSessionId
from agentctl.core.words import Decision, Outcome
from tests.adapters.claude.claude_harness import (
    Seen,
    connected,
    faulty,
    good,
    launch,
    request_of,
    say,
    spec,
    text,
)
from tests.fakes.claude.claude import FAULTS

pytestmark = pytest.mark.anyio
OLD = NativeSessionId("44444444-4444-4444-8444-444444444444")
SOON_S = 20.0


@pytest.mark.proves("P6")
async def test_an_agent_that_never_answers_is_killed_and_named(tmp_path: Path) -> None:
    config = {"handshake_timeout_ms": 300}
    with anyio.fail_after(SOON_S), pytest.raises(AgentFailed, match="did not answer initialize"):
        async with faulty(tmp_path, Seen(), "--fault=silent", config=config) as connection:
            await connection.new_session(spec(tmp_path))


@pytest.mark.proves("P6")
async def test_an_agent_that_dies_at_its_start_tells_its_last_words(tmp_path: Path) -> None:
    with anyio.fail_after(SOON_S), pytest.raises(AgentFailed, match="settings are broken") as died:
        async with faulty(tmp_path, Seen(), "--fault=dies-at-start") as connection:
            await connection.new_session(spec(tmp_path))
    assert died.value.metadata["exit_code"] == "3"


async def test_a_program_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    seen = Seen()
    made = launch(("/no/such/claude",), tmp_path, seen, install="npm i claude")
    with pytest.raises(Refused, match="npm i claude") as refused:
        async with connected(made, seen) as connection:
            await connection.new_session(spec(tmp_path))
    assert refused.value.reason == "AGENT_NOT_INSTALLED"


async def test_a_refused_handshake_says_why(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="not today"):
        async with faulty(tmp_path, Seen(), "--fault=refuses-initialize") as connection:
            await connection.new_session(spec(tmp_path))


async def test_without_a_login_nothing_begins(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        async with faulty(tmp_path, Seen(), "--fault=no-login") as connection:
            await connection.new_session(spec(tmp_path))
    assert refused.value.reason == "AUTH_REQUIRED"


@pytest.mark.proves("S4")
async def test_a_conversation_that_is_not_there_is_named(tmp_path: Path) -> None:
    with anyio.fail_after(SOON_S), pytest.raises(NotFound, match=OLD):
        async with faulty(tmp_path, Seen(), "--fault=no-conversation") as connection:
            await connection.resume_session(OLD, spec(tmp_path))
    async with faulty(tmp_path, Seen()) as connection:
        with pytest.raises(NotFound, match="no conversation in"):
            await connection.resume_session(NativeSessionId("continue"), spec(tmp_path))


async def test_replies_that_are_none_leave_the_conversation_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctl_adapters.claude.connection.CALL_TIMEOUT_S", 0.3)
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=malformed-reply") as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.set_model(native, "opus")
        assert good(await say(connection, seen, native, "say hi"))


async def test_a_setting_that_is_never_answered_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctl_adapters.claude.connection.CALL_TIMEOUT_S", 0.0)
    async with faulty(tmp_path, Seen()) as connection:
        native = await connection.new_session(spec(tmp_path))
        with pytest.raises(TimedOut, match="set_model"):
            await connection.set_model(native, "opus")


@pytest.mark.proves("T1")
@pytest.mark.parametrize("fault", ["no-result", "old", "repeats", "noise", "half-shapes"])
async def test_a_turn_ends_once_and_its_text_comes_once(tmp_path: Path, fault: str) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, f"--fault={fault}") as connection:
        native = await connection.new_session(spec(tmp_path))
        assert good(await say(connection, seen, native, "say hello"))
        assert good(await say(connection, seen, native, "say again"))
    assert len(seen.of(Complete)) == 2 and seen.text == "helloagain"


@pytest.mark.proves("T5")
async def test_a_death_in_mid_turn_fails_the_run_with_its_exit_code(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=dies-in-turn") as connection:
        native = await connection.new_session(spec(tmp_path))
        end = await say(connection, seen, native, "say x")
        assert end.outcome is Outcome.FAILED and end.error is not None
        await seen.until(lambda: any(gone.exit_code == 9 for gone in seen.gone()))
        with pytest.raises(AgentFailed):
            await connection.prompt(native, text("say y"))
        with pytest.raises(AgentFailed):
            await connection.set_model(native, "opus")


@pytest.mark.proves("P1", "P3")
async def test_an_agent_that_stays_after_the_end_of_stdin_is_killed(tmp_path: Path) -> None:
    with anyio.fail_after(SOON_S):
        async with faulty(tmp_path, Seen(), "--fault=ignores-eof") as connection:
            await connection.new_session(spec(tmp_path))
            pid = connection.info.pid
    assert pid is not None and not psutil.pid_exists(pid)


@pytest.mark.proves("T9")
async def test_a_refused_key_is_not_tried_again(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=refused-key") as connection:
        native = await connection.new_session(spec(tmp_path))
        end = await say(connection, seen, native, "say x")
        assert end.error is not None and end.error.code == "AUTH_REQUIRED"
        await seen.until(lambda: seen.controls("interrupt"))
    assert len(seen.of(Complete)) == 1


@pytest.mark.proves("P8")
async def test_a_line_of_five_megabytes_passes(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=big-line") as connection:
        native = await connection.new_session(spec(tmp_path))
        assert good(await say(connection, seen, native, "say x"))
    assert len(seen.text) == 5_000_000
    assert len(seen.of(MessageChunk)) > 1


@pytest.mark.proves("A5")
async def test_what_nobody_serves_is_refused_and_not_left_waiting(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=asks-too-much") as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        no = PermissionAnswer(Decision.DENIED, "reject")
        await connection.answer_permission(request_of(await seen.asked()), no)
        await seen.ended()
    answers = [m["response"] for m in seen.sent("control_response")]
    refused = [a["request_id"] for a in answers if a["subtype"] == "error"]
    assert refused == ["hook_callback", "mcp_message", "elicitation"]


async def test_a_request_that_was_taken_back_is_resolved_and_takes_no_answer(
    tmp_path: Path,
) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen, "--fault=takes-back") as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        asked = await seen.asked()
        await seen.ended()
        yes = PermissionAnswer(Decision.APPROVED, "allow")
        await connection.answer_permission(request_of(asked), yes)
    assert seen.sent("control_response") == []
    assert seen.turns.open_permissions == {}


@pytest.mark.proves("A5")
async def test_an_approval_that_is_open_at_the_end_is_answered_before_stdin_ends(
    tmp_path: Path,
) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        await seen.asked()
    (answer,) = seen.sent("control_response")
    assert answer["response"]["response"]["behavior"] == "deny"
    assert seen.turns.open_permissions == {} and len(seen.of(Complete)) == 1


@pytest.mark.proves("T6", "P1")
async def test_a_deaf_agent_is_stopped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctl_adapters.claude.connection.GOODBYE_TIMEOUT_S", 0.2)
    seen = Seen()
    with anyio.fail_after(SOON_S):
        async with faulty(tmp_path, seen, "--fault=deaf") as connection:
            native = await connection.new_session(spec(tmp_path))
            await connection.prompt(native, text("work"))
            await seen.until(lambda: seen.text)
            await connection.cancel(native)
    assert seen.of(Complete)[0].outcome is Outcome.CANCELLED


@pytest.mark.proves("S8")
async def test_another_mode_than_asked_for_is_an_error(tmp_path: Path) -> None:
    async with faulty(tmp_path, Seen(), "--fault=other-mode") as connection:
        native = await connection.new_session(spec(tmp_path))
        with pytest.raises(Invalid, match="instead of plan"):
            await connection.set_mode(native, "plan")


async def test_root_is_told_why_it_may_not_bypass_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(Invalid, match="IS_SANDBOX"):
        async with faulty(tmp_path, Seen()) as connection:
            await connection.new_session(spec(tmp_path, mode="bypassPermissions"))
    sandbox = {"IS_SANDBOX": "1"}
    async with faulty(tmp_path, Seen(), env=sandbox) as connection:
        await connection.new_session(spec(tmp_path, mode="bypassPermissions"))


def test_every_fault_of_the_fake_is_met_in_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    unmet = [name for name in FAULTS if f"={name}" not in source and f'"{name}"' not in source]
    assert unmet == []
