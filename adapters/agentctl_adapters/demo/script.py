"""The demo agent's script language: prompt text in, steps out.

Pure: it opens nothing, writes nothing and knows no protocol. A prompt is a script when its first
piece is a well-formed directive; pieces are lines, or parts of a line joined with `` || ``.
"""

from collections.abc import Callable
from dataclasses import dataclass

SEPARATOR = " || "


@dataclass(frozen=True, slots=True)
class Step:
    """One directive with its arguments; `verb` "unknown" carries the text that was not understood."""

    verb: str
    text: str = ""
    numbers: tuple[int, ...] = ()


_Reader = Callable[[str], tuple[str, tuple[int, ...]] | None]


def _text(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return (argument, ()) if argument.strip() else None


def _nothing(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return None if argument.strip() else ("", ())


def _anything(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return argument.strip(), ()


def _maybe_word(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return (argument.strip(), ()) if len(argument.split()) <= 1 else None


def _word(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return (argument.strip(), ()) if len(argument.split()) == 1 else None


def _numbers(least: int, most: int) -> _Reader:
    def read(argument: str) -> tuple[str, tuple[int, ...]] | None:
        words = argument.split()
        if not least <= len(words) <= most or not all(w.isascii() and w.isdigit() for w in words):
            return None
        return "", tuple(int(word) for word in words)

    return read


def _path_and_text(argument: str) -> tuple[str, tuple[int, ...]] | None:
    return (argument, ()) if len(argument.split(" ", 1)) == 2 else None


def _code_and_text(argument: str) -> tuple[str, tuple[int, ...]] | None:
    code, _, text = argument.strip().partition(" ")
    digits = code.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and text.strip()):
        return None
    return text, (int(code),)


_VERBS: dict[str, tuple[_Reader, str, str]] = {
    "say": (_text, "TEXT", "say the text"),
    "words": (_numbers(1, 1), "N", "say N words, a chunk each"),
    "slow": (_numbers(2, 2), "N MS", "say N words, MS milliseconds apart"),
    "big": (_numbers(1, 1), "BYTES", "say one chunk of that size"),
    "chunks": (
        _numbers(2, 2),
        "N BYTES",
        "say N chunks of that size, as fast as the pipe takes them",
    ),
    "think": (_text, "TEXT", "think the text aloud"),
    "plan": (_nothing, "", "show a plan"),
    "read": (_word, "PATH", "read a file of the workspace"),
    "run": (_text, "COMMAND", "ask, then run a shell command in the workspace"),
    "run!": (_text, "COMMAND", "the same without asking"),
    "write": (_path_and_text, "PATH TEXT", "ask, then write a file of the workspace"),
    "picture": (_anything, "[TOOL]", "show a picture, or have a tool of that title show it"),
    "ask": (_text, "QUESTION", "ask you a question"),
    "usage": (_nothing, "", "report tokens and cost"),
    "title": (_text, "TEXT", "give the session a title"),
    "mode": (_maybe_word, "[MODE]", "say the mode, or change it from the agent's side"),
    "modelname": (_nothing, "", "say which model is chosen"),
    "history": (_nothing, "", "say how many turns this session has seen"),
    "env": (_word, "NAME", "say an environment variable"),
    "argv": (_nothing, "", "say the command line"),
    "cwd": (_nothing, "", "say the working directories"),
    "mcp": (_nothing, "", "list the MCP servers it was given"),
    "background": (_text, "COMMAND", "start a command that outlives the turn"),
    "late": (_text, "TEXT", "say the text after the turn has ended"),
    "outside": (_nothing, "", "ask for permission after the turn has ended"),
    "model-error": (_code_and_text, "CODE MESSAGE", "end the turn with that error"),
    "auth-error": (_nothing, "", "end the turn with 'authentication required'"),
    "crash": (_numbers(0, 1), "[CODE]", "exit at once"),
    "hang": (_nothing, "", "say nothing more until cancelled"),
    "hang-hard": (_nothing, "", "say nothing more, not even when cancelled"),
    "exit-on-cancel": (_nothing, "", "exit without an answer when cancelled"),
    "stderr": (_text, "TEXT", "write the text to standard error"),
    "noise": (_text, "TEXT", "write a line that is no message to standard output"),
    "spawn-escape": (_nothing, "", "leave a detached process that ignores SIGTERM"),
}


def parse(text: str) -> list[Step]:
    """Read a prompt.

    Returns:
        The steps in order, or an empty list when the prompt is plain talk.
    """
    if text.strip() in ("/help", "help"):
        return [Step("say", help_text())]
    if text.strip() == "/history":
        return [Step("history")]
    pieces = [
        piece for line in text.split("\n") for piece in line.split(SEPARATOR) if piece.strip()
    ]
    steps = [_step(piece) for piece in pieces]
    if not steps or steps[0].verb == "unknown":
        return []
    return steps


def _step(piece: str) -> Step:
    verb, _, argument = piece.lstrip().partition(" ")
    entry = _VERBS.get(verb.rstrip("\r"))
    found = entry[0](argument.rstrip("\r")) if entry is not None else None
    if found is None:
        return Step("unknown", piece.strip())
    return Step(verb.rstrip("\r"), *found)


def help_text() -> str:
    """The directives, one a line, as Markdown-free text for a terminal."""
    rows = [(f"{verb} {args}".rstrip(), what) for verb, (_, args, what) in _VERBS.items()]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"  {usage.ljust(width)}  {what}" for usage, what in rows]
    head = "I do what the prompt says, one directive a line, or joined with ' || ':"
    return "\n".join(
        [head, *lines, "Write a shell OR without spaces (a||b). Anything else gets the short tour."]
    )


def verbs() -> list[str]:
    """Every directive this agent understands."""
    return list(_VERBS)
