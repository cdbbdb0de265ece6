"""The real Claude Code behind its adapter, on a scripted model: turns, choices and lifecycles."""

import json

import anyio
import pytest

from agentctl.core.errors import AgentFailed, Invalid, NotFound, Refused
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Message,
    MessageChunk,
    RateLimit,
    Reasoning,
    SessionOptions,
    SessionStatus,
)
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import (
    ContentType,
    Outcome,
    SessionChange,
)
from tests.adapters.claude.claude_harness import (
    good,
    spec,
)
from tests.real.claude import ONCE, begun, exists, real
from tests.real.harness import (
    Home,
    Model,
    processes_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.real]


@pytest.mark.proves("M1", "M6")
async def test_text_arrives_byte_for_byte_with_usage_and_window(
    claude_home: Home, claude_model: Model
) -> None:
    words = ["a\u2028b", " ", "\n\n", 'c"\\', "\x1b[31mred", "🎈\r", '\n{"type":"result"}\n']
    async with begun(claude_home, claude_model) as it:
        end = await it.say("SAYTEXT " + json.dumps(words))
    assert good(end) and it.seen.text == "".join(words)
    assert end.usage is not None and (end.usage.input, end.usage.output) == (100, len(words))
    assert end.cost_usd
    window = it.seen.of(ContextWindow)[-1]
    assert window.used == 100 + len(words) and window.size > window.used
    assert it.seen.of(Message) == []


@pytest.mark.proves("P8")
async def test_a_line_of_five_megabytes_passes(claude_home: Home, claude_model: Model) -> None:
    async with begun(claude_home, claude_model) as it:
        end = await it.say("BIG 5000000")
        assert good(end) and it.seen.text == claude_model.sent_text()
    assert len(it.seen.text) == 5_000_000


async def test_thoughts_come_as_reasoning_and_not_as_text(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        assert good(await it.say("THINK 2"))
    thoughts = "".join(r.text for r in it.seen.of(Reasoning))
    assert thoughts == "".join(each["sent_thoughts"] for each in claude_model.turns())
    assert it.seen.text == claude_model.sent_text()


@pytest.mark.proves("T6")
@pytest.mark.parametrize("words", ["SLOW 100 100", "HANG", "FAIL 529", "ASK", "TOOL"])
async def test_a_cancel_ends_what_runs_and_the_next_prompt_works(
    claude_home: Home, claude_model: Model, words: str
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.begin("TOOL touch began; sleep 60" if words in ("ASK", "TOOL") else words)
        match words.split()[0]:
            case "SLOW":
                await it.seen.until(lambda: "slow2" in it.seen.text)
            case "FAIL":
                await it.seen.until(lambda: it.seen.of(RateLimit))
            case "ASK":
                await it.seen.asked()
            case "TOOL":
                await it.answer(ONCE)
                await exists(claude_home.workspace / "began")
            case _:
                await claude_model.wait_for(lambda log: len(log) > 0)
        await it.connection.cancel(it.native)
        await it.connection.cancel(it.native)
        assert (await it.seen.ended()).outcome is Outcome.CANCELLED
        assert good(await it.say("SAYTEXT back"))
        assert len(it.seen.of(Complete)) == 2 and it.seen.text.endswith("back")


@pytest.mark.proves("M3")
async def test_an_answer_that_breaks_off_is_told_once(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.say("FAILMID")
    gone = {m.message_id for m in it.seen.of(Message) if m.retracted}
    shown = {c.message_id for c in it.seen.of(MessageChunk)}
    assert gone and len(shown - gone) <= 1


@pytest.mark.proves("T9")
async def test_a_wrong_key_fails_at_once_and_a_busy_model_says_that_it_waits(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        with anyio.fail_after(5):
            end = await it.say("FAIL 401")
        assert end.outcome is Outcome.FAILED and end.error is not None
        assert end.error.code == "AUTH_REQUIRED"
        assert good(await it.say("FAIL 529 1"))
        assert it.seen.of(RateLimit)[-1].attempt == 1 and it.seen.text == "recovered"
        end = await it.say("FAIL 404")
        assert end.error is not None and end.error.code == "INVALID_MODEL"


async def test_without_a_login_the_session_does_not_begin(
    claude_home: Home, claude_model: Model
) -> None:
    with pytest.raises(Refused) as caught:
        async with real(claude_home, claude_model, without=("ANTHROPIC_API_KEY",)) as it:
            await it.connection.new_session(spec(claude_home.workspace))
    assert caught.value.reason == "AUTH_REQUIRED"


@pytest.mark.proves("S4", "S5")
async def test_a_conversation_is_listed_resumed_and_forked(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as first:
        await first.say("SAYTEXT one")
    where = spec(claude_home.workspace)
    async with real(claude_home, claude_model) as it:
        (listed,) = await it.connection.list_sessions(str(claude_home.workspace))
        assert listed.native_session_id == first.native and "SAYTEXT one" in listed.title
        it.native = await it.connection.resume_session(first.native, where)
        assert it.native == first.native
        await it.say("HISTORY")
        assert it.seen.text == "HISTORY 2"
        async with real(claude_home, claude_model, alone=False) as second:
            with pytest.raises(Refused) as busy:
                with anyio.fail_after(15):
                    await second.connection.resume_session(first.native, where)
            assert busy.value.reason == "SESSION_BUSY"
            second.native = await second.connection.fork_session(first.native, where)
            assert second.native != first.native
            await second.say("HISTORY")
            assert second.seen.text == "HISTORY 3"


@pytest.mark.proves("S4")
async def test_a_conversation_that_is_not_there_is_named(
    claude_home: Home, claude_model: Model
) -> None:
    unknown = NativeSessionId("11111111-1111-4111-8111-111111111111")
    with pytest.raises(NotFound, match=unknown):
        async with real(claude_home, claude_model) as it:
            await it.connection.resume_session(unknown, spec(claude_home.workspace))


async def test_model_mode_and_effort_are_switched_and_nonsense_is_refused(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model, model="haiku") as it:
        await it.say("SAY 1")
        await it.connection.set_model(it.native, "my-own-model")
        await it.connection.set_mode(it.native, "plan")
        await it.connection.set_option(it.native, "effort", "low")
        await it.say("SAY 1")
        models = [each["model"] for each in claude_model.turns()]
        assert "haiku" in models[0] and models[1] == "my-own-model"
        with pytest.raises(Invalid, match="acceptEdits"):
            await it.connection.set_mode(it.native, "yolo")
        with pytest.raises(Invalid):
            await it.connection.set_mode(it.native, "bypassPermissions")
    assert [o.mode for o in it.seen.of(SessionOptions) if o.mode][-1] == "plan"
    with pytest.raises(Invalid, match="has no mode"):
        async with begun(claude_home, claude_model, mode="yolo"):
            pass


@pytest.mark.proves("T5")
async def test_a_killed_agent_fails_its_run_and_can_be_resumed(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.begin("TOOL touch began; sleep 60")
        await it.answer(ONCE)
        await exists(claude_home.workspace / "began")
        for process in processes_of(claude_home):
            if process.pid == it.connection.info.pid:
                process.kill()
        end = await it.seen.ended()
        assert end.error is not None and (end.error.code, end.error.signal) == ("AGENT_EXITED", 9)
        with pytest.raises(AgentFailed):
            await it.begin("SAY 1")
    async with real(claude_home, claude_model) as again:
        again.native = await again.connection.resume_session(it.native, spec(claude_home.workspace))
        assert good(await again.say("HISTORY"))


async def test_slash_commands_are_runs_and_clearing_is_told(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.say("SAY 1")
        before = it.seen.text
        assert good(await it.say("/usage"))
        assert len(it.seen.text) > len(before)
        assert good(await it.say("/clear"))
        told = [s for s in it.seen.of(SessionStatus) if s.status is SessionChange.UPDATED]
        assert any(s.native_session_id not in (None, it.native) for s in told)
        assert good(await it.say("SAYTEXT fresh"))


async def test_an_image_reaches_the_model(claude_home: Home, claude_model: Model) -> None:
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
    async with begun(claude_home, claude_model) as it:
        blocks = (
            ContentBlock(ContentType.IMAGE, data=png, mime_type="image/png"),
            ContentBlock(ContentType.TEXT, text="PARTS"),
        )
        await it.connection.prompt(it.native, PromptSpec(blocks))
        assert good(await it.seen.ended())
    assert it.seen.text.startswith("PARTS image,text")
