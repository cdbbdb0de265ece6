"""What a user sees when a turn on an OpenCode server fails or is stopped, and of sessions (see scenarios.py)."""

import base64

from agentctl.core.adapter import HistoryConnection
from agentctl.core.events import (
    Message,
    MessageChunk,
    PermissionResolved,
    RateLimit,
    SessionOptions,
    SessionStatus,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import (
    ContentType,
    Outcome,
    Role,
    SessionChange,
    ToolStatus,
)
from tests.adapters.opencode.live import Live, command, text
from tests.adapters.opencode.scenario_groups import PIXEL, scenario

# Errors


@scenario("errors")
async def a_model_error_fails_the_run_once(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 400")

    assert run.complete.outcome is Outcome.FAILED
    assert run.complete.error and run.complete.error.code == "MODEL_ERROR"
    assert (await live.ask(session, "SAYTEXT fine")).text == "fine"


@scenario("errors")
async def a_wrong_key_fails_at_once_and_asks_for_a_login(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 401")

    assert run.complete.error and run.complete.error.code == "AUTH_REQUIRED"


@scenario("errors")
async def a_retry_is_told_and_the_answer_still_comes(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 500 1")

    (told,) = run.of(RateLimit)
    assert told.attempt == 1
    assert told.next_try_at
    assert run.text == "recovered"


@scenario("errors")
async def an_answer_that_is_too_long_completes_with_its_reason(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FINISH MAX_TOKENS")

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.complete.stop_reason == "length"
    assert run.text == "cut short"


@scenario("errors")
async def an_empty_answer_completes_without_text(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "EMPTY")

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.text == ""


# Abort


async def _cancelled(live: Live, session: str, nth: int = 1) -> None:
    run = await live.ended(session, nth)  # pyright: ignore[reportArgumentType]  # a native id
    assert run.complete.outcome is Outcome.CANCELLED
    again = await live.ask(session, "SAYTEXT next")  # pyright: ignore[reportArgumentType]  # same
    assert again.text == "next"
    assert again.complete.outcome is Outcome.COMPLETED


@scenario("abort")
async def a_cancel_while_text_streams_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "SLOW 200 50")
    await live.until(lambda: "slow1" in "".join(live_text(live, session)))
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_while_the_model_says_nothing_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "HANG")
    await live.until(lambda: live.connection._host.translator.book.view(session).busy)  # pyright: ignore[reportPrivateUsage]  # no event tells that the server has begun
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_right_behind_the_prompt_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "SLOW 200 50")
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_with_a_request_open_answers_it_too(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo never")
    await live.asked(session)
    await live.cancel(session)

    await _cancelled(live, session)
    assert len(live.of_type(PermissionResolved, session)) == 1
    left = await live.connection._host.api.call(
        "GET", "/permission", directory=live.workspace, quiet=True
    )  # pyright: ignore[reportPrivateUsage]  # what the server still lists
    assert left.body == []


@scenario("abort")
async def a_cancel_while_a_command_runs_ends_the_command(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo begun; sleep 30")
    await live.approve(session)
    await live.until(lambda: any(u.output_delta for u in live.of_type(ToolUpdate, session)))
    await live.cancel(session)

    await _cancelled(live, session)
    assert live.runs(session)[0].of(ToolUpdate)[-1].status is ToolStatus.CANCELLED


@scenario("abort")
async def a_cancel_when_idle_changes_nothing(live: Live) -> None:
    session = await live.session()
    await live.connection.cancel(session)

    assert (await live.ask(session, "SAYTEXT fine")).complete.outcome is Outcome.COMPLETED


# Sessions


@scenario("sessions")
async def a_fork_knows_the_past_and_tells_none_of_it(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    fork = await live.connection.fork_session(session, live.spec())
    run = await live.ask(fork, "HISTORY")

    assert fork != session
    assert run.text == "HISTORY 2", run
    assert len(live.completes(fork)) == 1


@scenario("sessions")
async def a_resumed_session_goes_on_and_tells_none_of_its_past(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    await live.connection.close_session(session)
    before = len(live.events)
    await live.connection.resume_session(session, live.spec())
    assert not [e for e in live.events[before:] if isinstance(e.payload, Message)]
    await live.begin(session, "HISTORY")
    run = await live.ended(session, 2)

    assert run.text == "HISTORY 2", run


@scenario("sessions")
async def sessions_side_by_side_keep_their_own_text(live: Live) -> None:
    sessions = [await live.session() for _ in range(4)]
    for number, session in enumerate(sessions):
        await live.begin(
            session, f"SLOW 3 10 || SAYTEXT t{number}" if number % 2 else f"SAYTEXT t{number}"
        )
    for number, session in enumerate(sessions):
        run = await live.ended(session)
        assert run.complete.outcome is Outcome.COMPLETED
        if number % 2 == 0:
            assert run.text == f"t{number}"


@scenario("sessions")
async def the_offers_of_the_server_are_told(live: Live) -> None:
    session = await live.session()
    told = await live.until(lambda: live.of_type(SessionOptions, session))

    models = [m.id for o in told for m in o.models or []]
    assert "fake/fast" in models
    modes = [m.id for o in told for m in o.modes or []]
    assert {"build", "plan"} <= set(modes)
    assert any(o.commands for o in told)


@scenario("sessions")
async def model_and_mode_of_a_prompt_are_in_force_and_told(live: Live) -> None:
    session = await live.session()
    await live.ask(session, text("SAYTEXT x", model="fake/slow", mode="plan"))

    told = live.of_type(SessionOptions, session)
    assert [o.model for o in told if o.model][-1] == "fake/slow"
    assert [o.mode for o in told if o.mode][-1] == "plan"


@scenario("sessions")
async def a_shortened_conversation_is_a_run(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    run = await live.ask(session, PromptSpec(compact=True))

    assert run.complete.outcome is Outcome.COMPLETED
    await live.until(
        lambda: SessionChange.COMPACTED in [s.status for s in live.of_type(SessionStatus, session)]
    )


@scenario("sessions")
async def a_slash_command_is_a_run(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, command("init", "SAYTEXT commanded"))

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.text


@scenario("sessions")
async def an_image_reaches_the_model(live: Live) -> None:
    session = await live.session()
    data = base64.b64decode(PIXEL)
    image = ContentBlock(ContentType.IMAGE, data=data, mime_type="image/png", name="p.png")
    blocks = (ContentBlock(ContentType.TEXT, text="PARTS"), image)
    run = await live.ask(session, PromptSpec(blocks=blocks))

    assert "image" in run.text


@scenario("sessions")
async def the_messages_of_the_session_can_be_read_back(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT answer")
    assert isinstance(live.connection, HistoryConnection)
    page = await live.connection.messages(session)

    said = [
        (m.role, "".join(b.text or "" for b in m.content))
        for m in page.payloads
        if isinstance(m, Message)
    ]
    assert said == [(Role.USER, "SAYTEXT answer"), (Role.ASSISTANT, "answer")]


@scenario("sessions")
async def sessions_of_the_agent_are_listed(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT x")

    rows = await live.connection.list_sessions(live.workspace)
    assert session in [row.native_session_id for row in rows]
    assert session in [row.native_session_id for row in await live.connection.list_sessions(None)]
    await live.connection.delete_session(session)
    rows = await live.connection.list_sessions(live.workspace)
    assert session not in [row.native_session_id for row in rows]


def live_text(live: Live, session: str) -> list[str]:
    return [c.text or "" for c in live.of_type(MessageChunk, session)]
