"""A session's events as the hub would serve them, for tests of what is read back."""

from collections.abc import AsyncGenerator, Callable, Sequence

from agentctl import v1
from agentctl.core.events import (
    Complete,
    Event,
    FileChange,
    Message,
    MessageChunk,
    Payload,
    PermissionRequest,
    PermissionResolved,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock, Model, PermissionDetails, Usage
from agentctl.core.spec import SessionSpec
from agentctl.core.words import (
    ChangeKind,
    ContentType,
    DecidedBy,
    Decision,
    Outcome,
    Role,
    RunChange,
    ToolKind,
    ToolStatus,
)
from agentctl.rpc.convert import encode_frame, to_message
from agentctl.session.hub import Batch, Query
from agentctl.session.progress import Facts
from agentctl.session.records import SessionRecord, TallyRecord

JOURNAL = "abc123"


def text(*words: str) -> list[ContentBlock]:
    return [ContentBlock(ContentType.TEXT, text=each) for each in words]


def run(number: int, *answer: Payload, end: Outcome | None = Outcome.COMPLETED) -> list[Event]:
    """A run whose prompt is `prompt N`; without an end it goes on."""
    run_id = f"run_{number}"
    payloads: list[Payload] = [
        RunStatus(RunChange.CREATED, prompt=text(f"prompt {number}")),
        RunStatus(RunChange.STARTED),
        *answer,
    ]
    if end is not None:
        begun = number * 10_000
        payloads.append(
            Complete(
                end,
                usage=Usage(input=10, output=5),
                cost_usd=0.5,
                started_at=begun,
                ended_at=begun + 2_000,
            )
        )
    return [Event(each, run_id=run_id, session_id="ses_1") for each in payloads]


def numbered(events: Sequence[Event]) -> list[Event]:
    """Gives each its place and a time: its run's number times 10 s."""
    for seq, event in enumerate(events, start=1):
        event.seq = seq
        event.ts = int((event.run_id or "run_0").removeprefix("run_")) * 10_000
    return list(events)


def folded(events: Sequence[Event]) -> list[TallyRecord]:
    """What each run of these did, as it is counted while they come."""
    facts = Facts(SessionRecord("ses_1", SessionSpec("demo", "/w", model="m-first")))
    found: dict[str, TallyRecord] = {}
    for each in numbered(events):
        if isinstance(each.payload, SessionStatus | SessionOptions) and each.payload.model:
            facts.record.model = each.payload.model
        facts.feed(each)
        found |= facts.tallies
    return list(found.values())


def wire(events: Sequence[Event]) -> list[v1.AgentEvent]:
    return [to_message(each, JOURNAL) for each in numbered(events)]


def serving(
    events: Sequence[Event], *, later: Sequence[Event] = ()
) -> Callable[[Query], AsyncGenerator[Batch, None]]:
    """A hub that has these; `later` ones are there from the second look on."""
    numbered([*events, *later])
    looks: list[Query] = []

    async def stream(query: Query) -> AsyncGenerator[Batch, None]:
        looks.append(query)
        there = [*events, *later] if len(looks) > 1 else [*events]
        fit = [
            each
            for each in there
            if (not query.types or each.type in query.types)
            and (not query.sessions or each.session_id in query.sessions)
        ]
        for at in range(0, len(fit), 3):
            some = fit[at : at + 3]
            data = b"".join(encode_frame(each, JOURNAL) for each in some)
            yield Batch(data, len(some), f"{JOURNAL}:{some[-1].seq}", caught_up=False)
        yield Batch(b"", 0, f"{JOURNAL}:{len(there)}", caught_up=True)

    return stream


def worked() -> list[Event]:
    """A run that thinks, asks, runs a command that fails, changes a file, and answers."""
    return run(
        1,
        Reasoning("m0", text="Let me "),
        Reasoning("m0", text="see."),
        ToolCall("t1", kind=ToolKind.EXECUTE, command="npm test"),
        PermissionRequest(
            "apr_1", tool_call_id="t1", details=PermissionDetails(command="npm test")
        ),
        PermissionResolved("apr_1", Decision.APPROVED, by=DecidedBy.RULE, rule_id="rul_9"),
        ToolUpdate("t1", output_delta="1 failing\n"),
        ToolUpdate("t1", status=ToolStatus.FAILED, exit_code=1),
        ToolCall("t2", kind=ToolKind.EDIT, paths=["/w/a.py"]),
        ToolUpdate("t2", status=ToolStatus.COMPLETED),
        FileChange("/w/a.py", ChangeKind.MODIFY, additions=1, deletions=1, diff="-old\n+new\n"),
        MessageChunk("m1", text="Fix"),
        MessageChunk("m1", text="ed."),
        Message("m1", content=text("Fixed it.")),
    )


def offered(*names: str, model: str | None = None) -> Event:
    return Event(
        SessionOptions(models=[Model(each) for each in names], model=model), session_id="ses_1"
    )


def said(message_id: str, words: str, role: Role = Role.ASSISTANT) -> MessageChunk:
    return MessageChunk(message_id, role, text=words)
