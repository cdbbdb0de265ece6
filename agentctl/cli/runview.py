"""Owns what a followed run prints where nobody watches: the answer alone, or the event stream.

`RunView` is what `Follow` needs of a view; `render.TerminalView` is the third one.
"""

from typing import Any, Protocol

from agentctl.cli.out import as_json, err, out
from agentctl.cli.summary import Summary, ending

Json = dict[str, Any]


class RunView(Protocol):
    """Takes the events of one run, and those of its session outside any run, in order."""

    shows_starts: bool
    """Whether it wants to know how the start of the agent goes, which is in no session's stream."""

    def header(self, session: Json, agent: Json | None) -> None:
        """Told once, when the run starts."""
        ...

    def event(self, event: Json) -> None: ...

    def gap(self, gap: Json) -> None: ...

    def note(self, text: str) -> None:
        """A word of ours beside the stream."""
        ...

    def tick(self) -> None:
        """Told several times a second, to move what shows that time passes."""
        ...

    def end(self, complete: Json | None) -> None:
        """Told once, after the last event."""
        ...


class JsonView:
    """Each event as a line; `seq` is absent only in a row of type `gap`."""

    shows_starts = False

    def header(self, session: Json, agent: Json | None) -> None:
        pass

    def event(self, event: Json) -> None:
        out().line(as_json(event))

    def gap(self, gap: Json) -> None:
        out().line(as_json({"type": "gap", **gap}))

    def note(self, text: str) -> None:
        err().line(text)

    def tick(self) -> None:
        pass

    def end(self, complete: Json | None) -> None:
        pass


class PlainView:
    """The assistant's text alone on stdout; why a start takes long and a bad end on stderr."""

    shows_starts = True

    def __init__(self) -> None:
        self._text = Texts()
        self._summary = Summary()
        self._last_message = ""
        self._fresh = True
        self._detail = ""

    def header(self, session: Json, agent: Json | None) -> None:
        pass

    def event(self, event: Json) -> None:
        self._summary.event(event)
        data: Json = event["data"]
        match event["type"]:
            case "message_chunk" | "message" if (
                data.get("role") == "assistant" and "parent_tool_call_id" not in event
            ):
                self._print(data["message_id"], self._text.new(event["type"], data))
            case "agent_status":
                detail = data.get("detail", "")
                going = data.get("state") in ("starting", "ready")
                if going and detail and detail != self._detail:
                    self._detail = detail
                    err().line(f"{data.get('entry_id', 'agent')}: {detail}")
            case _:
                pass

    def _print(self, message_id: str, text: str) -> None:
        if not text:
            return
        if self._last_message not in ("", message_id) and not self._fresh:
            text = "\n" + text
        self._last_message = message_id
        self._fresh = text.endswith("\n")
        out().write(text)

    def gap(self, gap: Json) -> None:
        self.note(f"some events are gone: {gap.get('reason', '')}")

    def note(self, text: str) -> None:
        err().line(text)

    def tick(self) -> None:
        pass

    def end(self, complete: Json | None) -> None:
        if not self._fresh:
            out().write("\n")
        if complete is not None and complete["outcome"] != "completed":
            for line in ending(complete, self._summary, err()):
                err().line(line)


class Texts:
    """What of each message was shown, so that text comes once."""

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {}

    def new(self, kind: str, data: Json) -> str:
        """The text of a chunk or a whole message that was not shown yet."""
        pieces = self._shown.setdefault(data["message_id"], [])
        if kind != "message":
            text = data.get("text") or block_text(data.get("content"))
            pieces.append(text)
            return text
        if data.get("retracted"):
            return ""
        shown = "".join(pieces)
        whole = "".join(block_text(each) for each in data.get("content", []))
        pieces[:] = [whole]
        if whole.startswith(shown):
            return whole[len(shown) :]
        return ("\n" if shown and not shown.endswith("\n") else "") + whole


def block_text(block: Json | None) -> str:
    """A content block as text: its own, or what it is."""
    if not block:
        return ""
    if "text" in block:
        return str(block["text"])
    name = block.get("name") or block.get("uri") or block.get("path") or ""
    return f"[{block.get('type', 'content')} {name}".rstrip() + "]"
