"""Owns how one session looks on a screen: what it is, what was done in it, what it used.

Pure drawing of a message of the API; the whole of it is in `--json`.
"""

from typing import Any

from agentctl import v1
from agentctl.cli.out import age, clip, home, out, plain, table, tokens, width
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]

PHASES = {"active": "green", "paused": "yellow", "completed": "dim", "failed": "red"}


def show(session: v1.Session) -> None:
    """Prints its card."""
    screen, data = out(), to_dict(session)
    facts = {name: text for name, text in _facts(session, data).items() if text}
    name = max(len(label) for label in facts)
    room = width(screen.stream) - name - 2
    table(
        [[screen.text(f"{label:<{name}}", "dim"), clip(text, room) if screen.is_terminal else text]
         for label, text in facts.items()],
        whole=True,
    )  # fmt: skip


def _facts(session: v1.Session, data: Json) -> dict[str, str]:
    progress: Json = data.get("progress") or {}
    return {
        "session": session.session_id,
        "name": plain(session.name or session.title),
        "phase": phase(data, reason=True),
        "entry": " · ".join(
            each for each in (session.entry_id, session.model, session.mode) if each
        ),
        "agent": session.agent_id,
        "native id": plain(session.native_session_id),
        "workspace": _place(session),
        "also in": ", ".join(home(each) for each in session.additional_directories),
        "task": task(progress),
        "progress": done(progress),
        "tests": tests(progress),
        "last command": plain(progress.get("last_command", "")),
        "last message": plain(progress.get("last_message", "")),
        "used": used(data),
        "policy": _policy(session, data),
        "project": plain(session.project),
        "key": plain(session.key),
        "labels": ", ".join(f"{k}={plain(v)}" for k, v in sorted(session.labels.items())),
        "forked from": session.forked_from,
        "times": _times(session),
    }


def phase(data: Json, *, reason: bool = False) -> str:
    """Phase and state in one: `active (idle)`, or one word where both say the same."""
    state, word = str(data.get("state", "")), str(data.get("phase", ""))
    text = out().text(word or state, PHASES.get(word, ""))
    if word and state not in ("", word):
        text += f" ({state})"
    why = plain(data.get("reason", "")) if reason else ""
    return f"{text} · {why}" if why else text


def _place(session: v1.Session) -> str:
    facts = [home(session.workspace)]
    if session.environment and session.environment != "local":
        facts.append(session.environment)
    if session.branch:
        facts.append(f"branch {plain(session.branch)}")
    if session.source_workspace:
        facts.append(f"of {home(session.source_workspace)}")
    return " · ".join(facts)


def task(progress: Json) -> str:
    """What it is at, and how much of the plan is done."""
    if "current_task" not in progress and "percent" not in progress:
        return ""
    percent = f"{progress['percent']:.0f} %" if "percent" in progress else ""
    return " · ".join(each for each in (percent, plain(progress.get("current_task", ""))) if each)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def done(progress: Json) -> str:
    """Runs, messages, files and commands, those that there were."""
    told: list[str] = []
    for name, noun in (("runs", "run"), ("message_count", "message")):
        if progress.get(name):
            told.append(count(progress[name], noun))
    if progress.get("files_open"):
        told.append(f"{count(progress['files_open'], 'file')} read")
    if changed := progress.get("files_changed"):
        new = progress.get("files_created", 0)
        told.append(f"{changed} changed" + (f" ({new} new)" if new else ""))
    if progress.get("commands_run"):
        told.append(count(progress["commands_run"], "command"))
    return ", ".join(told)


def tests(progress: Json) -> str:
    """What the newest test command told."""
    names = {"tests_passed": "passed", "tests_failed": "failed"}
    return ", ".join(f"{progress[k]} {word}" for k, word in names.items() if k in progress)


def used(data: Json) -> str:
    """Tokens and cost, as far as they were told."""
    facts: list[str] = []
    if usage := data.get("usage"):
        facts.append(f"{tokens(usage.get('input', 0))} in, {tokens(usage.get('output', 0))} out")
    if "cost_usd" in data:
        facts.append(money(data["cost_usd"]))
    return " · ".join(facts)


def money(dollars: float) -> str:
    # Cents would show many a session as free.
    return f"${dollars:.{4 if dollars < 0.1 else 2}f}"


def _policy(session: v1.Session, data: Json) -> str:
    rules = count(len(session.rules), "rule") if session.rules else ""
    return " · ".join(each for each in (str(data.get("policy", "")), rules) if each)


def _times(session: v1.Session) -> str:
    facts = [f"made {age(session.created_at)} ago"] if session.created_at else []
    if session.last_active_at:
        facts.append(f"last active {age(session.last_active_at)} ago")
    if session.HasField("closed_at"):
        facts.append(f"closed {age(session.closed_at)} ago")
        if session.HasField("state_saved") and not session.state_saved:
            facts.append("cannot be taken up again")
    return ", ".join(facts)
