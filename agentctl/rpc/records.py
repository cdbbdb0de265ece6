"""Owns the messages that show records: sessions, runs, approvals, questions, agents and entries.

"" and 0 in a record that means "not told" become absent fields. It refuses to know the calls.
"""

from typing import Any, cast

import orjson

from agentctl import v1
from agentctl.core.adapter import NativeSession
from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.limits import TEXT_BYTES, short
from agentctl.core.parts import Choice
from agentctl.core.spec import Entry, Rule
from agentctl.core.words import SessionState
from agentctl.rpc.enums import Enum, numbers
from agentctl.rpc.mirror import fill
from agentctl.rpc.ports import FoundView, ProblemView
from agentctl.session.progress import phase_of
from agentctl.session.records import (
    AgentRecord,
    ApprovalRecord,
    ArtifactRecord,
    Counts,
    QuestionRecord,
    RunRecord,
    SessionRecord,
)


def enum_number(enum: Enum, word: str | None) -> Any:
    """The number of one of our own words; None stays None."""
    return None if word is None else numbers(enum.DESCRIPTOR)[word]


def part(kind: Any, value: Any) -> Any:
    """The message of a part, None for None; what does not fit is mended."""
    return None if value is None else fill(kind.DESCRIPTOR, value, mend=True)


def session_message(record: SessionRecord) -> v1.Session:
    spec = record.spec
    return v1.Session(
        session_id=record.id,
        entry_id=spec.entry_id,
        agent_id=record.agent_id or None,
        native_session_id=record.native_session_id or None,
        state=enum_number(v1.SessionState, record.state),
        reason=record.reason or None,
        workspace=spec.workspace,
        additional_directories=spec.additional_directories,
        key=record.key or None,
        name=record.name or None,
        project=record.project or None,
        labels=record.labels,
        title=record.title or None,
        model=record.model or None,
        mode=record.mode or None,
        policy=enum_number(v1.Policy, record.policy),
        rules=[rule_message(rule) for rule in record.rules],
        environment=spec.environment,
        source_workspace=record.place.source or None if record.place else None,
        branch=record.place.branch or None if record.place else None,
        close_when_done=record.close_when_done,
        queue_held=record.queue_held,
        forked_from=record.forked_from or None,
        created_at=record.created_at,
        updated_at=record.updated_at,
        closed_at=record.closed_at,
        options=spec.options,
        phase=enum_number(v1.SessionPhase, phase_of(record.state, record.last_outcome)),
        progress=part(v1.SessionProgress, record.progress),
        usage=part(v1.Usage, record.usage),
        cost_usd=record.cost_usd,
        last_active_at=record.last_active_at or record.updated_at,
        state_saved=record.state_saved if record.state is SessionState.CLOSED else None,
    )


def rule_message(rule: Rule) -> v1.Rule:
    return v1.Rule(
        rule_id=rule.rule_id,
        kind=enum_number(v1.ToolKind, rule.kind),
        command=rule.command or None,
        path=rule.path or None,
        decision=enum_number(v1.Policy, rule.decision),
        path_pattern=rule.path_pattern or None,
        command_pattern=rule.command_pattern or None,
        entry_id=rule.entry_id or None,
        workspace=rule.workspace or None,
        expires_at=rule.expires_at,
        created_at=rule.created_at or None,
        note=rule.note or None,
        revision=rule.revision or None,
    )


def run_message(
    record: RunRecord, position: int | None = None, *, prompt_bytes: int = TEXT_BYTES
) -> v1.Run:
    """A run; of its prompt at most about `prompt_bytes`."""
    prompt = record.prompt
    command = prompt.command
    return v1.Run(
        run_id=record.id,
        session_id=record.session_id,
        state=enum_number(v1.RunState, record.state),
        origin=enum_number(v1.Origin, record.origin),
        prompt=[part(v1.ContentBlock, block) for block in short(prompt.blocks, prompt_bytes)],
        command=None
        if command is None
        else v1.CommandInput(name=command.name, arguments=command.arguments),
        review=prompt.review,
        compact=prompt.compact,
        position=position,
        model=prompt.model,
        mode=prompt.mode,
        effort=prompt.effort,
        timeout_ms=record.timeout_ms,
        labels=record.labels,
        created_at=record.created_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        stop_reason=record.stop_reason,
        usage=part(v1.Usage, record.usage),
        cost_usd=record.cost_usd,
        error=part(v1.RunError, record.error),
        folded_into=record.folded_into,
        session_key=record.session_key or None,
    )


def approval_message(record: ApprovalRecord) -> v1.Approval:
    request: PermissionRequest = record.request
    return v1.Approval(
        approval_id=request.approval_id,
        request=part(v1.PermissionRequest, request),
        session_id=record.session_id,
        run_id=record.run_id,
        agent_id=record.agent_id or None,
        parent_tool_call_id=record.parent_tool_call_id,
        created_at=record.created_at,
        resolved_at=record.resolved_at,
        decision=enum_number(v1.Decision, record.decision),
        option_id=record.option_id,
        by=enum_number(v1.DecidedBy, record.by),
        reason=record.reason,
        rule_id=record.rule_id,
    )


def question_message(record: QuestionRecord) -> v1.QuestionRecord:
    request: QuestionRequest = record.request
    answers = record.answers
    return v1.QuestionRecord(
        question_id=request.question_id,
        request=part(v1.QuestionRequest, request),
        session_id=record.session_id,
        run_id=record.run_id,
        agent_id=record.agent_id or None,
        created_at=record.created_at,
        resolved_at=record.resolved_at,
        outcome=enum_number(v1.QuestionOutcome, record.outcome),
        answers=None
        if answers is None
        else v1.AnswerList(items=[part(v1.Answer, answer) for answer in answers]),
        content_json=record.content_json,
        by=enum_number(v1.DecidedBy, record.by),
    )


def artifact_message(record: ArtifactRecord, run_id: str = "") -> v1.ArtifactSummary:
    """An artifact, as of the run that it was asked for by; else of the last that changed it."""
    return v1.ArtifactSummary(
        artifact_id=record.id,
        kind=enum_number(v1.ArtifactKind, record.kind),
        session_id=record.session_id,
        run_id=run_id or (record.runs[-1] if record.runs else None),
        title=record.title or None,
        mime_type=record.mime_type or None,
        size=record.size,
        created_at=record.created_at,
        expires_at=record.expires_at,
        url=record.url,
        sha256=record.sha256 or None,
        path=record.path,
        tool_call_id=record.tool_call_id,
        redacted=record.redacted or None,
        deleted=True if record.deleted else None,
        commit=record.commit,
    )


def agent_message(record: AgentRecord) -> v1.Agent:
    return v1.Agent(
        agent_id=record.id,
        entry_id=record.entry_id,
        state=enum_number(v1.AgentState, record.state),
        pid=record.pid,
        name=record.name or None,
        version=record.version or None,
        session_ids=record.session_ids,
        started_at=record.started_at,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        signal=record.signal,
        stderr_tail=record.stderr_tail,
        features=record.features,
        auth_methods=[v1.Choice(id=id_, name=name or None) for id_, name in record.auth_methods],
        cpu_percent=record.cpu_percent,
        memory_bytes=record.memory_bytes,
    )


def choice_message(choice: Choice) -> v1.Choice:
    return cast(v1.Choice, part(v1.Choice, choice))


def native_message(session: NativeSession) -> v1.NativeSession:
    return v1.NativeSession(
        native_session_id=session.native_session_id,
        cwd=session.cwd or None,
        title=session.title or None,
        updated_at=session.updated_at,
    )


def counts_message(counts: Counts) -> v1.Counts:
    return cast(v1.Counts, part(v1.Counts, counts))


def entry_message(entry: Entry) -> v1.Entry:
    return v1.Entry(
        entry_id=entry.id,
        display_name=entry.display_name or entry.name or entry.id,
        description=entry.description,
        enabled=entry.enabled,
        protocol=entry.protocol,
        source=entry.source,
        cmd=entry.cmd,
        url=entry.url or None,
        capabilities=entry.capabilities,
        default_model=entry.default_model or None,
        models=[part(v1.Model, model) for model in entry.models],
        entry_json=orjson.dumps(dict(entry.raw)),
    )


def problem_message(problem: ProblemView) -> v1.Problem:
    return v1.Problem(
        file=problem.file or None,
        line=problem.line or None,
        field=problem.field or None,
        message=problem.message,
    )


def found_message(found: FoundView, missing_env: list[str]) -> v1.Discovered:
    return v1.Discovered(
        entry_id=found.entry_id,
        installed=found.installed,
        binary=found.path or None,
        version=found.version or None,
        authenticated={"yes": True, "no": False}.get(str(found.login)),
        auth_detail=found.via or None,
        install=found.install or None,
        missing_env=missing_env,
        problem=found.note or None,
    )
