"""Says what is wrong with the text of an agents.json: where, what was expected, what was found.

Pure: text in, problems out. It knows no files and no edits.
"""

import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentctl_registry.jsontext import (
    Document,
    JsonSyntaxError,
    Path,
    line_starts,
    locate,
    parse,
    show_path,
)
from agentctl_registry.models import EntryModel, known_protocols

SHOWN_VALUE = 60
TEMPLATES = ("{home}/", "{workspace}/", "{python}")
RESERVED_IDS = ("agt_",)

_EXPECTED: Mapping[str, str] = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "missing": "a value",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in one file. `line` and `column` count from 1; 0 means the file as a whole.

    `field` is a path such as `agents[1].cmd[1]`, "" for the whole; `message` says the rest.
    """

    file: str
    message: str
    field: str = ""
    line: int = 0
    column: int = 0

    def short(self) -> str:
        """File name, field and message, as for an edit that was refused."""
        return ": ".join(filter(None, (PurePath(self.file).name, self.field, self.message)))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(filter(None, (place, self.field, self.message)))


Fault = tuple[Path, str]
"""A path inside the file and the message that belongs there."""


def check(
    text: str, file: str, below: Collection[str] = ()
) -> tuple[Document | None, list[Problem]]:
    """Check the text of one layer.

    Args:
        text: the file's content.
        file: its name, for the problems.
        below: ids that lower layers define; entries of these need no `cmd`.

    Returns:
        The document (None when it is not JSON) and every problem in it, in file order.
    """
    try:
        document = parse(text)
    except JsonSyntaxError as error:
        line, column = locate(line_starts(text), error.offset)
        return None, [Problem(file, error.message, show_path(error.path), line, column)]
    problems = [
        Problem(file, message, show_path(path), *document.position(path))
        for path, message in _faults(document.value, below)
    ]
    return document, sorted(problems, key=lambda each: (each.line, each.column))


def entries_of(value: Any) -> list[dict[str, Any]]:
    """The raw entries of a checked file's value."""
    return cast(list[dict[str, Any]], value["agents"])


def found(value: Any) -> str:
    """A JSON value in words for a message."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            shown = json.dumps(value, ensure_ascii=False)
            return shown if len(shown) <= SHOWN_VALUE else shown[: SHOWN_VALUE - 1] + "…"


def _faults(value: Any, below: Collection[str]) -> Iterator[Fault]:
    if not isinstance(value, dict):
        yield (), f'expected an object {{"agents": […]}}, found {found(value)}'
        return
    top = cast(dict[str, Any], value)
    version = top.get("version", 1)
    if isinstance(version, bool) or version != 1:
        yield ("version",), f"expected 1, found {found(version)}"
    agents: Any = top.get("agents", _ABSENT)
    if not isinstance(agents, list):
        shown = "nothing" if agents is _ABSENT else found(agents)
        yield ("agents",), f"expected a list of agents, found {shown}"
        return
    first: dict[str, int] = {}
    for index, item in enumerate(cast(list[Any], agents)):
        if not isinstance(item, dict):
            yield ("agents", index), f"expected an object, found {found(item)}"
            continue
        raw = cast(dict[str, Any], item)
        for path, message in entry_faults(raw, below):
            yield ("agents", index, *path), message
        entry_id = raw.get("id")
        if isinstance(entry_id, str) and first.setdefault(entry_id, index) != index:
            message = (
                f"expected each id once, found {found(entry_id)} again"
                f" (first in agents[{first[entry_id]}])"
            )
            yield ("agents", index, "id"), message


_ABSENT = object()


def entry_faults(raw: Mapping[str, Any], below: Collection[str] = ()) -> list[Fault]:
    """What is wrong with one raw entry; paths count from the entry."""
    try:
        EntryModel.model_validate(raw)
    except ValidationError as error:
        return [_type_fault(each) for each in error.errors(include_url=False)]
    rules: Sequence[Callable[[Mapping[str, Any]], Iterator[Fault]]] = (
        _command_faults,
        _protocol_faults,
        _variable_faults,
        _url_faults,
        _flag_faults,
        _overlay_faults,
    )
    faults = [fault for rule in rules for fault in rule(raw)]
    if str(raw["id"]).startswith(RESERVED_IDS):
        faults.append((("id",), f"expected an id that does not begin with agt_, found {raw['id']}"))
    startable = raw.get("cmd") or raw.get("url") or raw["id"] in below
    if not startable and raw.get("enabled", True):
        faults.append(((), "expected cmd (or url), found neither"))
    return faults


def _type_fault(error: ErrorDetails) -> Fault:
    path = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error":
            expected = str(context["expected"]).replace("'", "").strip()
        case "greater_than_equal":
            expected = f"{context['ge']} or more"
        case "string_pattern_mismatch":
            expected = "an id of letters, digits, - _ and . (64 at most)"
        case kind:
            expected = _EXPECTED.get(kind, error["msg"])
    shown = "nothing" if error["type"] == "missing" else found(error["input"])
    return path, f"expected {expected}, found {shown}"


def _command_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    cmd: list[str] = raw.get("cmd", [])
    for index, item in enumerate(cmd):
        if "\0" in item:
            yield ("cmd", index), "expected text without NUL, found one"
    if not cmd:
        return
    program = cmd[0]
    relative = "/" in program and not program.startswith(("/", *TEMPLATES))
    if not program.strip() or relative:
        message = f"expected a bare name or an absolute path, found {found(program)}"
        yield ("cmd", 0), message


def _protocol_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    protocol = raw.get("protocol", "")
    if protocol and protocol not in known_protocols():
        words = ", ".join(sorted(known_protocols()))
        yield ("protocol",), f"expected one of {words}, found {found(protocol)}"


def _variable_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    env: dict[str, str] = raw.get("env", {})
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            yield ("env", name), f"expected a variable name without =, found {found(name)}"
        elif "\0" in value:
            yield ("env", name), "expected text without NUL, found one"


def _url_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    url: str = raw.get("url", "")
    if url and not url.startswith(("http://", "https://")):
        yield ("url",), f"expected an http:// or https:// address, found {found(url)}"


_FLAGS: Sequence[tuple[str, ...]] = (
    ("model_flag",),
    ("workspace_flag",),
    ("session_config", "resume_flag"),
    ("permission_config", "permission_flag"),
    ("permission_settings", "auto_approve", "cli_flag"),
)


def _flag_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    for path in _FLAGS:
        flag: Any = raw
        for step in path:
            flag = flag.get(step, {})
        try:
            shlex.split(flag or "")
        except ValueError:
            yield path, f"expected text with its quotes closed, found {found(flag)}"


def _overlay_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    overlay: Any = raw.get("protocol_config", {}).get("overlay")
    if not overlay:
        return
    named = (("dir", overlay["dir"]), ("settings_file", overlay.get("settings_file", "x")))
    links = ((("link", index), name) for index, name in enumerate(overlay.get("link", [])))
    for step, name in (*((((key,), value)) for key, value in named), *links):
        if not name or name.startswith("/") or ".." in name.split("/"):
            path: Path = ("protocol_config", "overlay", *step)
            yield path, f"expected a path inside the home directory, found {found(name)}"
