"""Owns how a session reads as Markdown: a header, then prompts, answers, tools, diffs, approvals.

Pure. Text of an agent cannot break out of its place: fences are longer than any in it, and those it
left open are closed.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from agentctl import v1
from agentctl.rpc.conversation import Item, tokens_of
from agentctl.rpc.enums import Enum, words

# Output is there to be understood; all of it is in the JSON form.
OUTPUT_LINES = 40

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def clean(text: str) -> str:
    """Takes out colours and control characters."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def closed(text: str) -> str:
    """The text with a code block that it left open closed."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is None:
            continue
        mark, rest = found[1], found[2]
        if not fence:
            fence = mark
        elif mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip():
            fence = ""
    return f"{text}\n{fence}" if fence else text


def fenced(text: str, language: str = "") -> str:
    """A code block that nothing in the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}\n"


def code(text: str) -> str:
    """One line of code."""
    line = " ".join(clean(text).split())
    if "`" not in line:
        return f"`{line}`" if line else ""
    mark = "`" * (max(len(run) for run in re.findall(r"`+", line)) + 1)
    return f"{mark} {line} {mark}"


def moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def took(ms: int) -> str:
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def word(enum: Enum, number: int) -> str:
    return words(enum.DESCRIPTOR).get(number, "").replace("_", " ")


def header(
    session: v1.Session, stats: v1.EntryStats | None, models: Sequence[v1.ModelStats] = ()
) -> str:
    """The title and a table of what the session is; with stats also of what it used."""
    title = session.title or session.name or f"{session.entry_id} session"
    names = [each.model for each in models if each.model] or [session.model]
    rows = [
        ("session", code(session.session_id)),
        ("agent", session.entry_id),
        ("model", ", ".join(filter(None, names))),
        ("workspace", code(session.workspace)),
        ("project", session.project),
        ("state", word(v1.SessionState, session.state)),
        ("created", moment(session.created_at)),
        ("last active", moment(session.updated_at) if session.updated_at else ""),
        ("closed", moment(session.closed_at) if session.HasField("closed_at") else ""),
    ]
    if stats is not None:
        rows += _used(stats)
    lines = [f"# {_cell(title)}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in rows if value]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(clean(text).split()).replace("|", "\\|")


def _used(stats: v1.EntryStats) -> list[tuple[str, str]]:
    ends = [
        f"{count} {name}"
        for name, count in (
            ("completed", stats.runs_completed),
            ("failed", stats.runs_failed - stats.runs_timed_out),
            ("timed out", stats.runs_timed_out),
            ("cancelled", stats.runs_cancelled),
        )
        if count
    ]
    return [
        ("runs", f"{stats.runs} ended" + (f": {', '.join(ends)}" if ends else "")),
        ("time", took(stats.run_ms) if stats.run_ms else ""),
        ("tokens", tokens(stats.usage) if stats.HasField("usage") else ""),
        ("cost", f"${stats.cost_usd:.4f}" if stats.HasField("cost_usd") else ""),
        ("tools", f"{stats.tools}" + (f", {stats.tools_failed} failed" * bool(stats.tools_failed))),
        ("commands", str(stats.commands or "")),
        ("files changed", str(stats.files_changed or "")),
    ]


def tokens(usage: v1.Usage) -> str:
    """12,700 tokens (8,500 in, 4,200 out)."""
    told = [
        f"{getattr(usage, name):,} {short}"
        for name, short in (("input", "in"), ("output", "out"), ("reasoning", "reasoning"))
        if usage.HasField(name)  # pyright: ignore[reportArgumentType]  names of fields
    ]
    total = tokens_of(usage)
    parts = f" ({', '.join(told)})" if told else ""
    return ("not told" if total is None else f"{total:,} tokens") + parts


def blocks(content: Sequence[v1.ContentBlock]) -> str:
    """The text of some blocks; what is no text is named."""
    return "".join(_block(each) for each in content)


def _block(block: v1.ContentBlock) -> str:
    if block.text and not block.uri:
        return clean(block.text)
    name = block.name or block.path or block.uri or block.mime_type
    return f"\n[{word(v1.ContentType, block.type) or 'content'}: {_cell(name)}]\n"


class Writer:
    """Writes items one after the other; counts the prompts."""

    def __init__(self, agent: str, workspace: str, *, messages: bool = True) -> None:
        self._agent = agent
        self._root = workspace.rstrip("/") + "/"
        self._last = ""
        self._messages = messages
        self._prompts = 0
        self._speaker = ""

    def write(self, item: Item) -> str:
        """The piece of one item, "" when it shows nothing."""
        text = "\n".join(self._lines(item))
        if not text:
            return ""
        # Lines of a list stand close together.
        kind = "list" if text.startswith("- ") else item.kind
        gap = "" if kind == self._last == "list" else "\n"
        self._last = "" if text.count("\n") > 1 else kind
        return gap + text

    def _path(self, path: str) -> str:
        return path.removeprefix(self._root)

    def _lines(self, item: Item) -> Iterator[str]:
        event = item.event
        match item.kind:
            case "message" if self._messages:
                yield from self._message(item)
            case "reasoning" if self._messages and event.reasoning.text.strip():
                text = closed(clean(event.reasoning.text).strip())
                yield f"<details><summary>Thinking</summary>\n\n{text}\n\n</details>\n"
            case "tool_call":
                yield from self._tool(item)
            case "file_change":
                yield from self._file(event.file_change)
            case "permission_request" | "permission_resolved":
                yield from _approval(item)
            case "question_request":
                yield from _question(item)
            case "error":
                yield f"**Error** {event.error.code}: {_cell(event.error.message)}\n"
            case "complete":
                self._speaker = ""
                yield from _complete(event.complete)
            case _:
                return

    def _message(self, item: Item) -> Iterator[str]:
        message = item.event.message
        text = blocks(message.content).strip("\n")
        if message.role == v1.Role.ROLE_USER:
            self._prompts += 1
            self._speaker = ""
            yield f"## {self._prompts}. Prompt · {moment(item.event.ts)}\n"
            yield "\n".join(f"> {line}".rstrip() for line in closed(text).split("\n")) + "\n"
            return
        if not text.strip():
            return
        speaker = self._agent if message.role == v1.Role.ROLE_ASSISTANT else "System"
        if item.event.parent_tool_call_id:
            speaker += " (subagent)"
        if speaker != self._speaker:
            self._speaker = speaker
            yield f"### {speaker}\n"
        yield closed(text) + "\n"

    def _tool(self, item: Item) -> Iterator[str]:
        card = item.event.tool_call
        about = card.command or ", ".join(map(self._path, card.paths)) or card.title or card.name
        facts = [word(v1.ToolStatus, card.status)]
        if item.exit_code is not None:
            facts.append(f"exit {item.exit_code}")
        if item.background:
            facts.append("in the background")
        who = "subagent: " if item.event.parent_tool_call_id else ""
        kind = word(v1.ToolKind, card.kind) or "tool"
        yield f"- {who}**{kind}** {code(about)} · {' · '.join(filter(None, facts))}\n"
        failed = card.status == v1.ToolStatus.TOOL_STATUS_FAILED or item.exit_code
        if not failed and card.kind != v1.ToolKind.TOOL_KIND_EXECUTE:
            return
        lines = clean(item.output).rstrip("\n").split("\n")
        if item.error and item.error not in item.output:
            lines = [*filter(None, lines), clean(item.error)]
        if not any(lines):
            return
        if len(lines) > OUTPUT_LINES:
            lines = [f"… {len(lines) - OUTPUT_LINES} lines before", *lines[-OUTPUT_LINES:]]
        block = fenced("\n".join(lines), "text")
        yield "\n".join(f"  {line}".rstrip() for line in block.split("\n"))

    def _file(self, change: v1.FileChange) -> Iterator[str]:
        moved = f"{code(self._path(change.old_path))} to " if change.old_path else ""
        counts = [
            f"{sign}{getattr(change, name)}"
            for name, sign in (("additions", "+"), ("deletions", "−"))  # noqa: RUF001  the sign of numbers
            if change.HasField(name)  # pyright: ignore[reportArgumentType]  names of fields
        ]
        told = f" · {' '.join(counts)}" if counts else ""
        yield f"**{word(v1.ChangeKind, change.change)}** {moved}{code(self._path(change.path))}{told}\n"
        if change.diff:
            yield fenced(clean(change.diff), "diff")


def _approval(item: Item) -> Iterator[str]:
    request = item.event.permission_request
    details = request.details
    about = details.command or details.file or request.title or request.action or request.tool_name
    yield f"- **Approval** {code(about)} · {_decision(item)}\n"


def _decision(item: Item) -> str:
    if item.end is None:
        return "open"
    answer = item.end.permission_resolved
    by = word(v1.DecidedBy, answer.by)
    if answer.rule_id:
        by += f" {answer.rule_id}"
    text = word(v1.Decision, answer.decision) + (f" by {by}" if by else "")
    return f"{text}: {_cell(answer.reason)}" if answer.reason else text


def _question(item: Item) -> Iterator[str]:
    request = item.event.question_request
    asked = "; ".join(each.question for each in request.questions) or request.message
    outcome = "open"
    if item.end is not None:
        answer = item.end.question_resolved
        outcome = word(v1.QuestionOutcome, answer.outcome)
        values = [value for each in answer.answers.items for value in each.values]
        if values or answer.content_json:
            told = ", ".join(values) or answer.content_json.decode("utf-8", "replace")
            outcome += f": {_cell(told)}"
        if answer.by:
            outcome += f" (by {word(v1.DecidedBy, answer.by)})"
    yield f"- **Question** {_cell(asked)} · {outcome}\n"


def _complete(complete: v1.Complete) -> Iterator[str]:
    facts = [word(v1.Outcome, complete.outcome)]
    if complete.HasField("started_at") and complete.HasField("ended_at"):
        facts[0] += f" in {took(max(complete.ended_at - complete.started_at, 0))}"
    if complete.HasField("usage") and tokens_of(complete.usage) is not None:
        facts.append(tokens(complete.usage))
    if complete.HasField("cost_usd"):
        facts.append(f"${complete.cost_usd:.4f}")
    yield f"*{' · '.join(facts)}*\n"
    if complete.HasField("error"):
        yield f"**{complete.error.code}** {_cell(complete.error.message)}\n"


def file(path: str, text: str | None, note: str) -> str:
    """One changed file as it is now; `note` says why its text is not there."""
    body = fenced(text, path.rpartition(".")[2] if "." in path else "") if text is not None else ""
    return f"\n### {code(path)}\n\n{body or note + chr(10)}"
