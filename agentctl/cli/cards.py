"""Owns how one request looks: the card of a permission, of a question, its diff, its hint.

Pure drawing: a payload in its JSON form in, lines out.
"""

from collections.abc import Iterator
from typing import Any

from agentctl.cli.out import MINUS, clean, clip, home, plain, spread
from agentctl.cli.screen import Screen

Json = dict[str, Any]

DIFF_LINES = 8
"""Lines of a diff on a card; `d` shows all."""

DOCUMENT_LINES = 20
"""Lines of a plan on a card: it is what is decided."""

_ONCE = frozenset({"allow_once", "reject_once"})


def subject(data: Json, workspace: str = "") -> str:
    """What a request or a tool is about, in one line: its command, file or title.

    A path inside the workspace is shown from there.
    """
    details = data.get("details", {})
    paths = data.get("paths") or [each["path"] for each in data.get("locations") or ()]
    told = (
        details.get("command")
        or data.get("command")
        or details.get("file")
        or (paths[0] if paths else "")
        or data.get("title")
        or data.get("tool_name")
        or data.get("name")
        or data.get("action")
        or ""
    )
    text = plain(str(told))
    if workspace and text.startswith(workspace + "/"):
        return text[len(workspace) + 1 :]
    return home(text)


def verb(data: Json) -> str:
    """The kind of a request: that of its tool where it has one."""
    return str(data.get("tool_kind") or data.get("kind") or "other")


def card(data: Json, screen: Screen) -> Iterator[str]:
    """The lines above the keys of a permission request."""
    details = data.get("details", {})
    diff = details.get("diff", "")
    facts: list[str] = []
    if diff:
        facts.append(counted(diff))
    if data.get("risk"):
        facts.append(f"risk: {data['risk']}")
    right = " · ".join(facts)
    left = f"{verb(data)} "
    room = screen.room - len(left) - len(right) - 4
    whole = subject(data, screen.workspace)
    about = clip(whole, room)
    yield spread(
        screen.style("? ", "bold yellow") + screen.style(left, "bold") + about,
        screen.style(right, "dim"),
        screen.room,
    )
    if details.get("reason"):
        yield "  " + screen.style(clip(plain(details["reason"]), screen.room - 2), "dim")
    if len(about) < len(whole):
        yield "  " + whole
    lines = _changes(diff)
    yield from (_bar(line, screen) for line in lines[:DIFF_LINES])
    if len(lines) > DIFF_LINES:
        yield _bar(f"… {len(lines) - DIFF_LINES} more lines (d to see them)", screen)
    document = clean(data.get("document", "")).strip()
    plan = document.split("\n") if document else []
    yield from (_bar(line, screen) for line in plan[:DOCUMENT_LINES])
    if len(plan) > DOCUMENT_LINES:
        yield _bar(f"… {len(plan) - DOCUMENT_LINES} more lines (d to see them)", screen)
    for number, option in enumerate(_further(data), 1):
        yield f"  [{number}] " + plain(option["name"])


def _further(data: Json) -> list[Json]:
    return [each for each in data.get("options", []) if each.get("kind") not in _ONCE]


def full_diff(data: Json, screen: Screen) -> Iterator[str]:
    """All of what a card shows the beginning of: a diff, or a plan."""
    whole = data.get("details", {}).get("diff", "") or data.get("document", "")
    for line in clean(whole).rstrip("\n").split("\n"):
        yield _bar(line, screen)


def question_card(data: Json, screen: Screen) -> Iterator[str]:
    """The lines above the answer to a question."""
    asked: list[Json] = data.get("questions", [])
    first = data.get("message") or (asked[0]["question"] if asked else "The agent asks")
    yield screen.style("? ", "bold yellow") + plain(first)
    if asked and data.get("message") and plain(asked[0]["question"]) != plain(data["message"]):
        yield "  " + plain(asked[0]["question"])
    if data.get("url"):
        yield "  open " + plain(data["url"])
    for question in asked[:1]:
        yield from choices(question, screen)
    fields: Json = data.get("schema", {}).get("properties", {})
    for name, each in fields.items():
        yield screen.style(f"  {plain(name)}: {plain(str(each.get('type', 'text')))}", "dim")
    yield screen.style("  Enter sends it, Esc declines", "dim")


def choices(question: Json, screen: Screen) -> Iterator[str]:
    """The options of one question, and how many of them may be named."""
    for number, option in enumerate(question.get("options", []), 1):
        about = f" · {plain(option['description'])}" if option.get("description") else ""
        yield f"  [{number}] {plain(option.get('name') or option['id'])}" + screen.style(
            about, "dim"
        )
    if question.get("multiple") and question.get("options"):
        yield screen.style("  several may be named: 1, 3", "dim")


def diff_counts(diff: str) -> tuple[int, int]:
    """Lines added and removed by a unified diff."""
    lines = _changes(diff)
    return (
        sum(line.startswith("+") for line in lines),
        sum(line.startswith("-") for line in lines),
    )


def counted(diff: str) -> str:
    """Both counts of a diff in two words."""
    added, removed = diff_counts(diff)
    return f"+{added} {MINUS}{removed}"


def _changes(diff: str) -> list[str]:
    lines = clean(diff).split("\n")
    return [
        line
        for line in lines
        if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- ", "+++\t", "---\t"))
    ]


def _bar(line: str, screen: Screen) -> str:
    style = {"+": "green", "-": "red"}.get(line[:1], "dim")
    return screen.style("  │ ", "dim") + screen.style(clip(line, screen.room - 4), style)


def hint(data: Json, *, question: bool) -> str:
    """What to type elsewhere to answer a request."""
    if question:
        asked: list[Json] = data.get("questions", [])
        text = data.get("message") or (asked[0]["question"] if asked else "")
        identifier = data["question_id"]
        return (
            f"? {plain(text)}\n  answer: agentctl answer {identifier} TEXT"
            f"   decline: agentctl reject {identifier}"
        )
    identifier = data["approval_id"]
    return (
        f"? {verb(data)} {subject(data)}\n  allow: agentctl approve {identifier}"
        f"   refuse: agentctl deny {identifier}"
    )
