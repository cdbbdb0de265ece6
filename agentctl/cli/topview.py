"""Owns how `agentctl top` looks: lines for a screen of some width and height; pure drawing."""

from collections.abc import Sequence
from typing import Any

from agentctl.cli.cards import subject, verb
from agentctl.cli.ids import short
from agentctl.cli.out import NONE, age, clip, columns, duration, out, plain, size, spread, tokens
from agentctl.cli.session_card import PHASES, count, task
from agentctl.cli.topstate import Json, Overview

_AGENT_STYLES = {"ready": "green", "starting": "yellow", "stopping": "yellow", "lost": "red"}
_STATE_STYLES = {"active": "green", "awaiting": "bold yellow", "starting": "yellow", **PHASES}
_RANKS = {"awaiting": 0, "active": 1, "starting": 2}
_HEAD_LINES = 2
# Requests are what a person came for: they keep this many lines however much else there is.
_WAITING_LINES = 6


def lines(
    view: Overview, now: int, room: int, height: int | None = None, *, whole: bool = False
) -> list[str]:
    """The screen, from the top.

    Args:
        view: What to show.
        now: Unix ms.
        room: Columns.
        height: Lines that there are; None for as many as it takes.
        whole: Ids as they are, for a pipe.
    """
    waiting = _waiting(view, room, whole=whole)
    if height is not None and len(waiting) > _WAITING_LINES:
        more = len(waiting) - _WAITING_LINES
        waiting = [*waiting[:_WAITING_LINES], f"… {more} more: agentctl approvals, questions"]
    agents = _agents(view, room, whole=whole)
    sessions = _sessions(view, now, room, whole=whole)
    if height is not None:
        left = height - _HEAD_LINES - (len(waiting) + 1 if waiting else 0) - 2
        agents = _cut(agents, max(left // 3, left - len(sessions), 2))
        sessions = _cut(sessions, max(left - len(agents), 2))
    shown = [_head(view, now, room), ""]
    for part in (waiting, agents, sessions):
        if part:
            shown += [*part, ""]
    return shown[:-1] if height is None else shown[:height]


def _cut(part: list[str], most: int) -> list[str]:
    if len(part) <= most:
        return part
    return [*part[: most - 1], out().text(f"… {len(part) - most + 1} more", "dim")]


def _head(view: Overview, now: int, room: int) -> str:
    style = out().text
    if view.away:
        return style(clip(f"agentctl · {view.away}", room), "yellow")
    counts: Json = view.info.get("counts", {})
    facts = [f"agentctl {view.info.get('version', '')}".rstrip()]
    if started := view.info.get("started_at"):
        facts.append(f"up {duration(max(now - started, 0))}")
    facts += [
        count(counts.get("agents", 0), "agent"),
        count(counts.get("sessions_open", 0), "session"),
        f"{counts.get('runs_running', 0)} running, {counts.get('runs_queued', 0)} queued",
    ]
    right = f"{tokens(view.tokens_per_minute(now))} tokens/min"
    left = clip(" · ".join(facts), room - len(right) - 1)
    return spread(style(left, "bold"), style(right, "cyan"), room)


def _agents(view: Overview, room: int, *, whole: bool) -> list[str]:
    names = [each["agent_id"] for each in view.agents]
    rows = [
        [
            each["agent_id"] if whole else short(each["agent_id"], names),
            each.get("entry_id", ""),
            out().text(each.get("state", ""), _AGENT_STYLES.get(each.get("state", ""), "dim")),
            str(len(each.get("session_ids", []))),
            str(each.get("pid", NONE)),
            f"{each['cpu_percent']:.0f}%" if "cpu_percent" in each else NONE,
            size(each["memory_bytes"]) if "memory_bytes" in each else NONE,
            age(each["started_at"]) if each.get("started_at") else NONE,
        ]
        for each in view.agents
    ]
    if not rows:
        return [out().text("no agent runs", "dim")]
    head = ["AGENT", "ENTRY", "STATE", "SESSIONS", "PID", "CPU", "MEM", "UP"]
    return columns(rows, head, right="SESSIONS CPU MEM", room=None if whole else room)


def _sessions(view: Overview, now: int, room: int, *, whole: bool) -> list[str]:
    def rank(each: Json) -> tuple[int, int]:
        return _RANKS.get(each.get("state", ""), 9), -int(each.get("last_active_at") or 0)

    names = [each["session_id"] for each in view.sessions]
    rows: list[list[str]] = []
    for each in sorted(view.sessions, key=rank):
        state = str(each.get("state", ""))
        since = view.running_since(each["session_id"])
        rows.append(
            [
                each["session_id"] if whole else short(each["session_id"], names),
                each.get("entry_id", ""),
                out().text(state, _STATE_STYLES.get(state, "dim")),
                NONE if since is None else duration(max(now - since, 0)),
                _doing(each, running=since is not None),
            ]
        )
    if not rows:
        return []
    head = ["SESSION", "ENTRY", "STATE", "RUN", "TASK"]
    return columns(rows, head, right="RUN", room=None if whole else room)


def _doing(session: Json, *, running: bool) -> str:
    """The plan's entry, else the last command, else what the session is called."""
    progress: Json = session.get("progress") or {}
    if told := task(progress):
        return told
    if running and progress.get("last_command"):
        return f"$ {plain(progress['last_command'])}"
    return plain(
        session.get("name") or session.get("title") or progress.get("last_message") or NONE
    )


def _waiting(view: Overview, room: int, *, whole: bool) -> list[str]:
    """What waits for a person, with what to type."""
    names = [each["approval_id"] for each in view.approvals]
    asked = [each["question_id"] for each in view.questions]
    rows: list[tuple[str, str]] = []
    for each in view.approvals:
        request: Json = each.get("request", {})
        tail = each["approval_id"] if whole else _tail(each["approval_id"], names)
        rows.append(
            (
                f"{verb(request)} {subject(request)}",
                f"agentctl approve {tail} · agentctl deny {tail}",
            )
        )
    for each in view.questions:
        request = each.get("request", {})
        questions: Sequence[Any] = request.get("questions") or [{}]
        text = request.get("message") or questions[0].get("question") or "the agent asks"
        tail = each["question_id"] if whole else _tail(each["question_id"], asked)
        rows.append((plain(text), f"agentctl answer {tail} …"))
    if whole:
        return [f"? {about}  {what}" for about, what in rows]
    return [
        spread(
            out().text("? ", "bold yellow") + clip(about, room - len(what) - 3),
            out().text(what, "dim"),
            room,
        )
        for about, what in rows
    ]


def _tail(identifier: str, others: Sequence[str]) -> str:
    """The end of an id that means it alone."""
    return short(identifier, others).rpartition("…")[2]
