"""The little language in which a test writes down what the model will answer.

Pure: owns the words and what they mean, knows no wire format, no tool's real name and no clock.

The last user text that holds a directive is the script. Its steps are separated by " || "; step k
answers the k-th model round after that text, a round being a set of tool results. When the steps are
used up the model says "DONE: " and the last tool result. One directive per step:

    SAY n              n chunks of text: "word1 " "word2 " ...
    SAYTEXT x          the text x in one chunk; a JSON string or a JSON list of strings is decoded,
                       so that any character and any split into chunks can be written
    SLOW n ms          n chunks, ms milliseconds after each
    BIG n              one chunk of n characters, no two lines alike
    THINK [n]          n thoughts (2), then a text
    TOOL cmd           a text, then a shell command
    TOOLS a ;; b       several shell commands in one round
    WRITE path [text]  a file;  EDIT path old new;  READ path
    TODO               a list with a finished, a started and an open item
    CALL name [json]   any tool by its name
    MCP tool [text]    the tool of an MCP server, called with {"text": ...}
    FAIL code [n]      an HTTP error, for ever or for the first n requests ("recovered" after that)
    FAILMID            a chunk, then the connection is cut;  HANGMID: a chunk, then silence
    HANG               no byte at all
    FINISH reason      a text and that finish reason
    EMPTY              an answer without content
    PARTS              names the kinds of content in the last user message
    HISTORY            says how many scripted user turns the conversation holds
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

FALLBACK = "SAYTEXT no directive"
_STEP_SEPARATOR = " || "
_RESULT_LIMIT = 300
_DIRECTIVE = re.compile(
    r"^[ \t]*((?:SAYTEXT|SAY|SLOW|BIG|THINK|TOOLS|TOOL|WRITE|EDIT|READ|TODO|CALL|MCP|FAILMID|FAIL"
    r"|HANGMID|HANG|FINISH|EMPTY|PARTS|HISTORY)\b[^\n]*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What the user said. `kinds` names each part: text, image, audio, file."""

    text: str
    kinds: tuple[str, ...] = ("text",)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """An answer of the model that is part of the history."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One result; neighbours belong to the same round."""

    text: str


Turn = UserTurn | ModelTurn | ToolResult


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    ms: int


@dataclass(frozen=True, slots=True)
class RunCommand:
    command: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class EditFile:
    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ReadFile:
    path: str


@dataclass(frozen=True, slots=True)
class WriteTodos:
    """Items as (text, status); status is completed, in_progress or pending."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CallTool:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallMcp:
    tool: str
    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error; `times` is how many requests it hits, None for all of them."""

    status: int
    times: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks here."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more is sent and the connection stays open; as the first op not even headers."""


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str


@dataclass(frozen=True, slots=True)
class Empty:
    """The answer has no candidate at all."""


Use = RunCommand | WriteFile | EditFile | ReadFile | WriteTodos | CallTool | CallMcp
Op = Text | Thought | Pause | Use | Fail | Cut | Hang | Finish | Empty


@dataclass(frozen=True, slots=True)
class Plan:
    """What one request gets: the steps of its script, its round (0-based) and the ops."""

    steps: tuple[str, ...]
    round: int
    ops: tuple[Op, ...] = field(default=())


def plan(turns: Sequence[Turn]) -> Plan:
    """Finds the script in a conversation and the ops of its present round."""
    script, rounds, scripted = FALLBACK, 0, 0
    last_user, last_result = UserTurn(""), ""
    previous: Turn | None = None
    for turn in turns:
        match turn:
            case UserTurn():
                last_user = turn
                if found := _DIRECTIVE.findall(turn.text):
                    script, rounds, scripted = found[-1], 0, scripted + 1
            case ToolResult():
                last_result = turn.text
                rounds += not isinstance(previous, ToolResult)
            case ModelTurn():
                pass
        previous = turn
    steps = tuple(step.lstrip(" ") for step in script.split(_STEP_SEPARATOR))
    if rounds >= len(steps):
        return Plan(steps, rounds, (Text("DONE: " + last_result.strip()[:_RESULT_LIMIT]),))
    return Plan(steps, rounds, _ops(steps[rounds], last_user, scripted))


def _ops(step: str, user: UserTurn, scripted: int) -> tuple[Op, ...]:
    word, _, rest = step.partition(" ")
    match word:
        case "PARTS":
            return (Text("PARTS " + ",".join(user.kinds)),)
        case "HISTORY":
            return (Text(f"HISTORY {scripted}"),)
        case "SAY" | "SAYTEXT" | "SLOW" | "BIG" | "THINK":
            return _talk(word, rest)
        case "FAIL" | "FAILMID" | "HANG" | "HANGMID" | "FINISH" | "EMPTY":
            return _trouble(word, rest)
        case _:
            return _uses(word, rest)


def _talk(word: str, rest: str) -> tuple[Op, ...]:
    numbers = [int(item) for item in rest.split() if item.isdigit()] if word != "SAYTEXT" else []
    match word:
        case "SAY":
            return tuple(Text(f"word{i} ") for i in range(1, _nth(numbers, 0, 3) + 1))
        case "SLOW":
            pause = Pause(_nth(numbers, 1, 300))
            return tuple(
                op for i in range(_nth(numbers, 0, 10)) for op in (Text(f"slow{i} "), pause)
            )
        case "BIG":
            size = _nth(numbers, 0, 100_000)
            lines = (f"row {i} value {i * 7919 % 10007} text\n" for i in range(size // 19 + 1))
            return (Text("".join(lines)[:size]),)
        case "THINK":
            thoughts = tuple(
                Thought(f"**Subject {i}** I am thinking about part {i}.")
                for i in range(1, _nth(numbers, 0, 2) + 1)
            )
            return (*thoughts, Text("After thinking: answer."))
        case _:
            return tuple(Text(chunk) for chunk in _decoded(rest))


def _trouble(word: str, rest: str) -> tuple[Op, ...]:
    numbers = [int(item) for item in rest.split() if item.isdigit()]
    match word:
        case "FAIL":
            return (Fail(_nth(numbers, 0, 500), numbers[1] if len(numbers) > 1 else None),)
        case "FAILMID":
            return (Text("partial "), Cut())
        case "HANG":
            return (Hang(),)
        case "HANGMID":
            return (Text("partial "), Hang())
        case "FINISH":
            return (Text("cut short"), Finish(rest or "MAX_TOKENS"))
        case _:
            return (Empty(),)


def _uses(word: str, rest: str) -> tuple[Op, ...]:
    first, _, more = rest.partition(" ")
    match word:
        case "TOOL":
            return (Text("I will run it. "), RunCommand(rest))
        case "TOOLS":
            return tuple(RunCommand(command.strip()) for command in rest.split(";;"))
        case "WRITE":
            return (WriteFile(first, (more or "hello") + "\n"),)
        case "EDIT":
            old, _, new = more.partition(" ")
            return (EditFile(first, old, new),)
        case "READ":
            return (ReadFile(rest),)
        case "TODO":
            states = ("completed", "in_progress", "pending")
            names = ("first step", "second step", "third step")
            return (WriteTodos(tuple(zip(names, states, strict=True))),)
        case "CALL":
            return (CallTool(first, json.loads(more or "{}")),)
        case "MCP":
            return (CallMcp(first, more),)
        case _:
            raise ValueError(f"no such directive: {word}")


def _decoded(rest: str) -> list[str]:
    if not rest.startswith(('"', "[")):
        return [rest]
    try:
        value: object = json.loads(rest)
    except ValueError:
        return [rest]
    return (
        [str(item) for item in cast("list[object]", value)]
        if isinstance(value, list)
        else [str(value)]
    )


def _nth(numbers: list[int], index: int, default: int) -> int:
    return numbers[index] if len(numbers) > index else default
