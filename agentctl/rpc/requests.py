"""Owns the reading of requests: what a message asks for, checked and as the session room takes it.

It refuses what is malformed in itself; what depends on the state of things is not its business.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeVar, cast

import orjson

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.core.parts import Answer, ContentBlock
from agentctl.core.spec import Command, McpServer, PromptSpec, Rule, SessionSpec
from agentctl.core.words import ContentType, Policy, RunState, SessionPhase, SessionState, ToolKind
from agentctl.rpc.enums import word
from agentctl.rpc.mirror import read
from agentctl.session.records import (
    AnswerQuestion,
    CreateRun,
    CreateSession,
    IfBusy,
    Respond,
    SessionFilter,
    SessionUpdate,
)

T = TypeVar("T")

DEFAULT_PAGE = 100
MAX_PAGE = 1000
BAD_TOKEN = "page_token is none of this list: begin again without one."

# A rule is held in memory, and each request against it; a longer command is better a pattern.
MAX_RULE_TEXT = 16_384

_PROMPT_BLOCKS = {
    ContentType.TEXT,
    ContentType.IMAGE,
    ContentType.AUDIO,
    ContentType.FILE,
    ContentType.RESOURCE,
    ContentType.RESOURCE_LINK,
}


def invalid(message: str, field: str) -> Invalid:
    return Invalid(message, metadata={"field": field})


def need(value: str, field: str) -> str:
    """Returns an id that must be there."""
    if not value:
        raise invalid(f"{field} is missing: say which one is meant.", field)
    return value


def page_size(asked: int) -> int:
    """How many rows a page has: 0 is the default, more than the maximum is the maximum.

    Raises:
        Invalid: it is negative.
    """
    if asked < 0:
        raise invalid(f"page_size is {asked}: leave it out, or make it positive.", "page_size")
    return min(asked, MAX_PAGE) if asked else DEFAULT_PAGE


def page_token(request: Any, prefix: str) -> str:
    """The page token of a list whose tokens are ids that begin with `prefix`.

    Raises:
        Invalid: it is none.
    """
    token = str(request.page_token)
    if token and not re.fullmatch(rf"{prefix}_[0-9a-z]{{1,60}}", token):
        raise invalid(BAD_TOKEN, "page_token")
    return token


def directory(path: str) -> str:
    """A directory to look for, as sessions have it."""
    return str(PurePath(path)) if path else ""


def page_of(
    rows: Sequence[T], key: Callable[[T], str], size: int, token: str
) -> tuple[Sequence[T], str]:
    """Cuts a page out of rows that are all at hand; `token` is the key of the last one shown.

    Raises:
        Invalid: there is no such row, or no more.
    """
    start = 0
    if token:
        keys = [key(row) for row in rows]
        if token not in keys:
            raise invalid(BAD_TOKEN, "page_token")
        start = keys.index(token) + 1
    limit = page_size(size)
    page = rows[start : start + limit]
    more = start + limit < len(rows)
    return page, key(page[-1]) if more and page else ""


def timeout(request: Any, field: str) -> int | None:
    """An optional time in ms, which must be positive."""
    if not request.HasField(field):
        return None
    value = int(getattr(request, field))
    if value <= 0:
        raise invalid(f"{field} is {value} ms: leave it out, or make it positive.", field)
    return value


def json_bytes(request: Any, field: str) -> bytes | None:
    """An optional field of JSON, which must be JSON."""
    if not request.HasField(field):
        return None
    data = bytes(getattr(request, field))
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid(f"{field} is no JSON: {error}.", field) from None
    return data


def optional(request: Any, field: str) -> Any:
    return getattr(request, field) if request.HasField(field) else None


def policy(value: int, field: str = "policy") -> Policy:
    return Policy(word(v1.Policy, value, field=field) or "ask")


def session_spec(request: v1.CreateSessionRequest, *, entry_id: str) -> SessionSpec:
    """What the agent is to be started with."""
    directories = tuple(request.additional_directories)
    for path in directories:
        if not PurePath(path).is_absolute():
            raise invalid(
                f"additional_directories holds {path!r}: give an absolute path.",
                "additional_directories",
            )
    for name in request.env:
        if not name or "=" in name or "\0" in name:
            raise invalid(f"env holds the name {name!r}, which no process can have.", "env")
        if "\0" in request.env[name]:
            raise invalid(f"env holds a zero byte in the value of {name}: leave it out.", "env")
    if "\0" in request.workspace:
        raise invalid("workspace holds a zero byte: give a path.", "workspace")
    return SessionSpec(
        entry_id=entry_id,
        workspace=need(request.workspace, "workspace"),
        additional_directories=directories,
        model=optional(request, "model") or None,
        mode=optional(request, "mode") or None,
        options=dict(request.options),
        policy=policy(request.policy),
        mcp_servers=mcp_servers(request.mcp_servers),
        env=dict(request.env),
        trust_workspace=optional(request, "trust_workspace"),
        environment=request.environment or "local",
        environment_options=dict(request.environment_options),
        url=request.url,
        auth=dict(request.auth),
    )


def mcp_servers(servers: Sequence[v1.McpServer]) -> tuple[McpServer, ...]:
    made = tuple(_mcp_server(server) for server in servers)
    names = [server.name for server in made]
    for name in names:
        if names.count(name) > 1:
            raise invalid(f"two MCP servers are named {name!r}: rename one.", "mcp_servers")
    return made


def _mcp_server(server: v1.McpServer) -> McpServer:
    field = "mcp_servers"
    name = need(server.name, f"{field}.name")
    told = word(v1.McpTransport, server.transport, field=f"{field}.transport")
    transport = told or ("stdio" if server.command else "http")
    if transport == "stdio" and not server.command:
        raise invalid(f"the MCP server {name!r} has no command: stdio needs one.", field)
    if transport != "stdio" and not server.url:
        raise invalid(f"the MCP server {name!r} has no url: {transport} needs one.", field)
    return McpServer(
        name=name,
        transport=cast(Literal["stdio", "http", "sse"], transport),
        command=server.command,
        args=tuple(server.args),
        env=dict(server.env),
        url=server.url,
        headers=dict(server.headers),
    )


def rule(message: v1.Rule, *, where: str = "rules") -> Rule:
    kind = word(v1.ToolKind, message.kind, field=f"{where}.kind")
    decision = word(v1.Policy, message.decision, field=f"{where}.decision")
    if not decision:
        raise invalid("a rule has no decision: say ask, allow or deny.", f"{where}.decision")
    for text in ("command", "path", "command_pattern", "path_pattern", "workspace", "note"):
        if len(getattr(message, text)) > MAX_RULE_TEXT:
            raise invalid(f"{text} has more than {MAX_RULE_TEXT} characters.", f"{where}.{text}")
    return Rule(
        rule_id=message.rule_id,
        kind=ToolKind(kind) if kind else None,
        command=message.command,
        path=message.path,
        decision=Policy(decision),
        path_pattern=message.path_pattern,
        command_pattern=message.command_pattern,
        entry_id=message.entry_id,
        workspace=message.workspace,
        expires_at=message.expires_at if message.HasField("expires_at") else None,
        note=message.note,
    )


def create_session(request: v1.CreateSessionRequest) -> CreateSession:
    agent = need(request.agent, "agent")
    return CreateSession(
        agent=agent,
        spec=session_spec(request, entry_id="" if agent.startswith("agt_") else agent),
        key=request.key,
        name=request.name,
        project=request.project,
        labels=dict(request.labels),
        rules=tuple(rule(each) for each in request.rules),
        close_when_done=request.close_when_done,
        idempotency_key=request.idempotency_key,
    )


def session_filter(request: v1.ListSessionsRequest) -> SessionFilter:
    words = (word(v1.SessionState, each, field="states") for each in request.states)
    phases = (word(v1.SessionPhase, each, field="phases") for each in request.phases)
    return SessionFilter(
        states=frozenset(SessionState(each) for each in words if each),
        phases=frozenset(SessionPhase(each) for each in phases if each),
        workspace=directory(request.workspace),
        entry_id=request.entry_id,
        project=request.project,
        key=request.key,
        labels=tuple(sorted(request.labels.items())),
        include_closed=not request.open_only,
    )


def run_states(values: Sequence[int]) -> frozenset[RunState]:
    words = (word(v1.RunState, each, field="states") for each in values)
    return frozenset(RunState(each) for each in words if each)


def session_update(request: v1.UpdateSessionRequest) -> SessionUpdate:
    return SessionUpdate(
        title=optional(request, "title"),
        name=optional(request, "name"),
        model=optional(request, "model"),
        mode=optional(request, "mode"),
        options=dict(request.options) or None,
        policy=policy(request.policy) if request.HasField("policy") else None,
        labels=dict(request.labels.items) if request.HasField("labels") else None,
    )


def create_run(request: v1.CreateRunRequest) -> CreateRun:
    busy = word(v1.IfBusy, request.if_busy, field="if_busy") or "queue"
    return CreateRun(
        session_id=need(request.session_id, "session_id"),
        prompt=prompt(request),
        if_busy=cast(IfBusy, busy),
        timeout_ms=timeout(request, "timeout_ms"),
        labels=dict(request.labels),
        idempotency_key=request.idempotency_key,
    )


def prompt(request: v1.CreateRunRequest) -> PromptSpec:
    """What a run is to do.

    Raises:
        Invalid: nothing, or more than one thing, is asked for.
    """
    asked = request.input
    blocks = tuple(block(each, index) for index, each in enumerate(asked.blocks))
    command = None
    if asked.HasField("command"):
        name = asked.command.name.removeprefix("/")
        command = Command(need(name, "input.command.name"), asked.command.arguments)
    ways = [bool(blocks), command is not None, asked.review, asked.compact]
    if sum(ways) > 1:
        raise invalid(
            "input asks for several things: give blocks, a command, a review or a compaction.",
            "input",
        )
    said = any(each.type is not ContentType.TEXT or (each.text or "").strip() for each in blocks)
    if not any(ways) or (blocks and not said):
        raise invalid("the prompt is empty: say what the agent is to do.", "input")
    return PromptSpec(
        blocks=blocks,
        command=command,
        review=asked.review,
        compact=asked.compact,
        model=optional(request, "model") or None,
        mode=optional(request, "mode") or None,
        effort=optional(request, "effort") or None,
        output_schema_json=json_bytes(request, "output_schema_json"),
    )


def block(message: v1.ContentBlock, index: int) -> ContentBlock:
    field = f"input.blocks[{index}]"
    kind = word(v1.ContentType, message.type, field=f"{field}.type")
    if kind not in _PROMPT_BLOCKS:
        raise invalid(
            f"{field}.type is {kind or 'missing'}: a prompt holds {', '.join(_PROMPT_BLOCKS)}.",
            field,
        )
    return read(ContentBlock, message)


def respond(request: v1.RespondRequest) -> Respond:
    decision = word(v1.Verdict, request.decision, field="decision")
    option_id = optional(request, "option_id") or None
    if bool(decision) == (option_id is not None):
        raise invalid("give exactly one of decision (approve, deny) and option_id.", "decision")
    if request.always and decision != "approve":
        raise invalid("always goes with the decision approve only.", "always")
    return Respond(
        approval_id=need(request.approval_id, "approval_id"),
        decision=cast("Literal['approve', 'deny'] | None", decision or None),
        option_id=option_id,
        reason=optional(request, "reason"),
        updated_input_json=json_bytes(request, "updated_input_json"),
        always=request.always,
    )


def answer(request: v1.AnswerQuestionRequest) -> AnswerQuestion:
    content = json_bytes(request, "content_json")
    if not request.answers and content is None:
        raise invalid("the answer is empty: give answers or content_json.", "answers")
    return AnswerQuestion(
        question_id=need(request.question_id, "question_id"),
        answers=tuple(Answer(values=list(each.values)) for each in request.answers),
        content_json=content,
    )
