"""Owns the parts of a message: what each holds, and how it looks to a client. Pure.

A part is told as a whole when it begins, when it has doubled and when it ends; in between as deltas, so
that a long text costs a client no more than twice its size.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentctl.gateway.opencode.words import STATES, Json, tool_name

# What a client is shown of the output of a tool that still runs, in characters: the newest of it.
SHOWN_OUTPUT = 30_000


@dataclass(slots=True)
class Part:
    """What every part has. `told`: how long the text was when it was last told as a whole."""

    id: str
    message_id: str
    session_id: str
    started: int
    ended: int | None = None
    told: int | None = None

    def head(self, kind: str) -> Json:
        return {
            "id": self.id,
            "sessionID": self.session_id,
            "messageID": self.message_id,
            "type": kind,
        }

    def view(self) -> Json:
        raise NotImplementedError


class Pieces:
    """A text that grows by pieces, and is put together only when somebody looks."""

    __slots__ = ("_pieces", "size")

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]
        self.size = len(text)

    def add(self, text: str) -> None:
        self._pieces.append(text)
        self.size += len(text)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def tail(self, size: int) -> str:
        """The newest `size` characters, or all of them."""
        found: list[str] = []
        for piece in reversed(self._pieces):
            if size <= 0:
                break
            found.append(piece[-size:])
            size -= len(found[-1])
        return "".join(reversed(found))


@dataclass(slots=True)
class Text(Part):
    """Text or reasoning. `unsent`: what came since clients last heard of it."""

    kind: str = "text"
    text: Pieces = field(default_factory=Pieces)
    unsent: list[str] = field(default_factory=list[str])
    synthetic: bool = False
    timed: bool = True

    def view(self) -> Json:
        out: Json = {**self.head(self.kind), "text": str(self.text)}
        if self.synthetic:
            out["synthetic"] = True
        if self.timed:
            out["time"] = {"start": self.started}
            if self.ended is not None:
                out["time"]["end"] = self.ended
        return out


@dataclass(slots=True)
class File(Part):
    """An image, a sound, a file or a resource."""

    mime: str = "application/octet-stream"
    url: str = ""
    name: str = ""

    def view(self) -> Json:
        media = self.mime.partition("/")[0]
        out = {**self.head("file"), "mime": self.mime, "mediaType": media, "url": self.url}
        return {**out, "filename": self.name} if self.name else out


@dataclass(slots=True)
class StepFinish(Part):
    """What the whole run used."""

    reason: str = "stop"
    cost: float = 0
    tokens: Json = field(default_factory=dict[str, Any])

    def view(self) -> Json:
        head = self.head("step-finish")
        return {**head, "reason": self.reason, "cost": self.cost, "tokens": self.tokens}


@dataclass(slots=True)
class Tool(Part):
    """A use of a tool, with every later word on it laid over the first."""

    call: str = ""
    card: Json = field(default_factory=dict[str, Any])
    output: Pieces = field(default_factory=Pieces)
    diffs: list[str] = field(default_factory=list[str])
    parent: str = ""

    def update(self, data: Json, ts: int) -> None:
        """Lays a tool_call or a tool_update over what is known."""
        for name, value in data.items():
            if name == "output_delta":
                self.output.add(str(value))
            elif name == "output_replace":
                self.output = Pieces(str(value))
            elif name != "status" or self.card.get("status") not in _FINAL:
                self.card[name] = value
        if self.card.get("status") in _FINAL and self.ended is None:
            self.ended = ts

    def view(self) -> Json:
        card = self.card
        kind = str(card.get("kind") or "")
        name = tool_name(str(card.get("name") or ""), kind)
        state = self._state(name)
        out = {**self.head("tool"), "callID": self.call, "tool": name, "state": state}
        shown = self._shown() if self.ended is not None else self._tail()
        return {**out, "input": state["input"], "output": shown}

    def _state(self, name: str) -> Json:
        status = STATES.get(str(self.card.get("status") or "pending"), "completed")
        told = self.input(name)
        title = str(self.card.get("title") or "")
        meta = self._metadata()
        begun = {"start": self.started}
        match status:
            case "pending":
                return {"status": status, "input": told, "raw": ""}
            case "running":
                meta["output"] = self._tail()
                return {
                    "status": status,
                    "input": told,
                    "title": title,
                    "metadata": meta,
                    "time": begun,
                }
            case _:
                times = {**begun, "end": self.ended if self.ended is not None else self.started}
                base: Json = {"status": status, "input": told, "metadata": meta, "time": times}
                if status == "error":
                    return {**base, "error": self._failure()}
                meta["output"] = self._tail()
                return {**base, "output": self._shown(), "title": title}

    def input(self, name: str) -> Json:
        """Its arguments; with the names that a client looks for where the agent's own differ."""
        told = self.card.get("input")
        out: Json = {}
        if isinstance(told, dict):
            out.update(cast(Json, told))
        elif told is not None:
            out["input"] = told
        if name == "bash" and self.card.get("command"):
            out.setdefault("command", self.card["command"])
        path = _first(self.card.get("paths")) or _path(self.card.get("locations"))
        if name in ("read", "edit", "write") and path:
            out.setdefault("filePath", path)
        return out

    def _failure(self) -> str:
        content = cast("Sequence[Json]", self.card.get("content") or ())
        words = str(self.output) or "\n".join(str(b["text"]) for b in content if b.get("text"))
        if told := self.card.get("error") or words:
            return str(told)
        ended = self.card.get("status") == "cancelled"
        return "Tool execution aborted" if ended else "The tool failed."

    def _metadata(self) -> Json:
        meta: Json = {"agent": {k: self.card[k] for k in ("name", "kind") if self.card.get(k)}}
        if self.card.get("exit_code") is not None:
            meta["exit"] = self.card["exit_code"]
        if self.card.get("truncated"):
            meta["truncated"] = True
        if self.parent:
            meta["parentCallID"] = self.parent
        if self.diffs:
            meta["diff"] = "\n".join(self.diffs)
        return meta

    def _tail(self) -> str:
        if self.output.size:
            return self.output.tail(SHOWN_OUTPUT)
        return self._shown()[-SHOWN_OUTPUT:]

    def _shown(self) -> str:
        if self.output.size:
            return str(self.output)
        content = cast("Sequence[Json]", self.card.get("content") or ())
        return "\n".join(text for block in content if (text := _words(block)))


_FINAL = frozenset({"completed", "failed", "cancelled"})


def _words(block: Json) -> str:
    return str(block.get("text") or block.get("diff") or block.get("uri") or "")


def _first(value: Any) -> str:
    return str(value[0]) if value else ""


def _path(locations: Any) -> str:
    return str(locations[0].get("path") or "") if locations else ""


def file_of(block: Json) -> tuple[str, str, str]:
    """(media type, URL, name) of a content block that is not text."""
    mime = str(block.get("mime_type") or "")
    name = str(block.get("name") or block.get("path") or "")
    if data := block.get("data"):
        return mime or "application/octet-stream", f"data:{mime};base64,{data}", name
    if block.get("type") in ("resource", "diff") and _words(block):
        plain = mime or "text/plain"
        text = base64.b64encode(_words(block).encode()).decode()
        return plain, f"data:{plain};base64,{text}", name
    path = str(block.get("path") or "")
    url = str(block.get("uri") or (f"file://{path}" if path else ""))
    return mime or "text/plain", url, name
