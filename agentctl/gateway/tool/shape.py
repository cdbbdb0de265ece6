"""Owns how our records look as the tool's: status words, times, sessions, messages, statistics.

Pure: messages of the client in, JSON out. It asks nobody.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agentctl import v1
from agentctl.client import views
from agentctl.client.times import iso
from agentctl.rpc.enums import words
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]

_PHASES = words(v1.SessionPhase.DESCRIPTOR)
_ROLES = {
    v1.Role.ROLE_USER: "user",
    v1.Role.ROLE_ASSISTANT: "agent",
    v1.Role.ROLE_SYSTEM: "system",
}
ROLE_OF: Mapping[str, str] = {"user": "user", "agent": "assistant", "system": "system"}
"""The tool's word for a role -> ours."""

OUTCOMES: Mapping[int, str] = {
    v1.RunState.RUN_STATE_COMPLETED: "success",
    v1.RunState.RUN_STATE_FAILED: "failed",
    v1.RunState.RUN_STATE_TIMED_OUT: "failed",
    v1.RunState.RUN_STATE_CANCELLED: "cancelled",
}
"""How a run ended -> the tool's word. What has not ended is in none of them."""

ACTIVE = (v1.SessionPhase.SESSION_PHASE_ACTIVE,)


def status(session: v1.Session) -> str:
    return _PHASES.get(session.phase, "active")


def project(session: v1.Session) -> str:
    """The directory that it was made for, also when its environment is a copy of it."""
    return session.source_workspace or session.workspace


def used(usage: v1.Usage) -> int:
    """All tokens: as told, else what went in and came out."""
    return usage.total or usage.input + usage.output


def row(session: v1.Session, instance: str) -> Json:
    """A session in a list."""
    name = {"name": session.name} if session.name else {}
    return {
        "session_id": session.session_id,
        "instance": instance,
        "project": project(session),
        **name,
        "status": status(session),
        "model": session.model,
        "created": iso(session.created_at),
        "last_active": iso(last_active(session)),
        "message_count": session.progress.message_count,
        "files_changed": session.progress.files_changed,
        "tokens_used": used(session.usage),
    }


def last_active(session: v1.Session) -> int:
    return session.last_active_at or session.updated_at


_COUNTS = ("files_open", "files_changed", "files_created", "commands_run")
_MAYBE = ("last_command", "tests_passed", "tests_failed")


def progress(session: v1.Session) -> Json:
    told = session.progress
    task = {"current_task": told.current_task} if told.HasField("current_task") else {}
    return {
        **task,
        **{name: getattr(told, name) for name in _COUNTS},
        **{name: getattr(told, name) for name in _MAYBE if told.HasField(name)},
    }


def tokens(usage: v1.Usage, cost: float | None) -> Json:
    out: Json = {"input": usage.input, "output": usage.output, "total": used(usage)}
    return out if cost is None else {**out, "cost_usd": cost}


def timing(session: v1.Session) -> Json:
    seconds = (last_active(session) - session.created_at) / 1000
    return {
        "created": iso(session.created_at),
        "last_active": iso(last_active(session)),
        "duration_seconds": max(round(seconds, 3), 0),
    }


def cost_of(message: v1.Session | v1.EntryStats | v1.ModelStats) -> float | None:
    return message.cost_usd if message.HasField("cost_usd") else None


def text_of(blocks: Iterable[v1.ContentBlock]) -> str:
    """The text of a message; other content by its name."""
    return "".join(each.text or _named(each) for each in blocks)


def _named(block: v1.ContentBlock) -> str:
    kind = words(v1.ContentType.DESCRIPTOR).get(block.type, "content")
    return "" if kind == "text" else f"[{kind}: {block.name or block.uri or block.mime_type}]"


def messages(answer: v1.MessagesResponse) -> list[Json]:
    """The messages of a page in their order; reasoning and tools are left out."""
    facts = {each.message_id: each for each in answer.metadata}
    out: list[Json] = []
    for event in answer.events:
        if not event.HasField("message"):
            continue
        message = event.message
        told = facts.get(message.message_id)
        metadata = {"metadata": _metadata(told)} if told is not None else {}
        out.append(
            {
                "message_id": message.message_id,
                "role": _ROLES.get(message.role, "system"),
                "content": text_of(message.content),
                "timestamp": iso(event.ts),
                **metadata,
            }
        )
    return out


def _metadata(told: v1.MessageMetadata) -> Json:
    out: Json = {}
    if told.files_changed:
        out["files_changed"] = list(told.files_changed)
    if told.HasField("command_run"):
        out["command_run"] = told.command_run
    if told.HasField("tokens_used"):
        out["tokens_used"] = told.tokens_used
    return out


def request(approval: v1.Approval) -> Json:
    """An open permission request, in the fields of its event."""
    return views.permission(to_dict(approval.request))


def question(record: v1.QuestionRecord) -> Json:
    """An open question."""
    told = to_dict(record.request)
    return {"question_id": record.question_id, "question": views.question(told)}


class Totals:
    """Sums for get_stats, by model."""

    def __init__(self) -> None:
        self.sessions = 0
        self.active = 0
        self._in = 0
        self._out = 0
        self._total = 0
        self._cost = 0.0
        self._models: dict[str, tuple[int, float]] = {}

    def add(self, sign: int, usage: v1.Usage, cost: float | None) -> None:
        """Adds, or with a sign of -1 takes away again."""
        self._in += sign * usage.input
        self._out += sign * usage.output
        self._total += sign * used(usage)
        self._cost += sign * (cost or 0.0)

    def model(self, sign: int, name: str, usage: v1.Usage, cost: float | None) -> None:
        tokens_, cost_ = self._models.get(name, (0, 0.0))
        self._models[name] = (tokens_ + sign * used(usage), cost_ + sign * (cost or 0.0))

    def stats(self, answer: v1.GetStatsResponse) -> None:
        """Adds what a daemon counted."""
        self.sessions += answer.total.sessions
        self.active += answer.total.sessions_active
        self.add(1, answer.total.usage, cost_of(answer.total))
        for each in answer.by_model:
            self.model(1, each.model, each.usage, cost_of(each))

    def session(self, session: v1.Session, sign: int = 1) -> None:
        """Adds one session, or takes it away."""
        self.sessions += sign
        self.active += sign * (session.phase in ACTIVE)
        self.add(sign, session.usage, cost_of(session))
        if session.HasField("usage"):
            self.model(sign, session.model, session.usage, cost_of(session))

    def view(self) -> Json:
        models = {
            name: {"tokens": max(count, 0), "cost_usd": max(round(cost, 9), 0.0)}
            for name, (count, cost) in self._models.items()
            if count > 0 or cost > 0
        }
        by_model = {"by_model": models} if models else {}
        return {
            "sessions_total": max(self.sessions, 0),
            "sessions_active": max(self.active, 0),
            "tokens": {
                "input_total": max(self._in, 0),
                "output_total": max(self._out, 0),
                "total": max(self._total, 0),
                "cost_usd": max(round(self._cost, 9), 0.0),
            },
            **by_model,
        }
