"""Owns how a run looks on a terminal: header, streamed text, a line per tool, the end.

It takes events in their JSON form and draws on a `Screen`; it refuses to call the daemon.
"""

import time
from typing import Any

from agentctl.cli.cards import subject
from agentctl.cli.ids import short
from agentctl.cli.out import MINUS, clean, clip, home, plain, spread
from agentctl.cli.runview import Texts
from agentctl.cli.screen import Screen
from agentctl.cli.summary import Summary, ending
from agentctl.cli.toolcards import FINAL, Tool

Json = dict[str, Any]

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Each file that changed has had its line; the record of a run is there for every one.
_SEEN_ANYWAY = frozenset({"file", "trajectory", "workspace"})
_MARKS = {"completed": "☑", "in_progress": "▸", "cancelled": "☒"}


class TerminalView:
    """One run on a screen."""

    shows_starts = True

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._texts = Texts()
        self._summary = Summary()
        self._tools: dict[str, Tool] = {}
        self._block: Tool | None = None
        self._speaking = ""
        self._waits = ""
        self._since = 0.0
        self._plan: list[Json] = []
        self._frame = 0
        self.quiet = False
        """Whether a card is on the screen, whose line at the bottom must stay."""

    def header(self, session: Json, agent: Json | None) -> None:
        self._wait("")
        self._screen.workspace = session.get("workspace", "")
        name = session.get("entry_id", "")
        version = (agent or {}).get("version", "")
        facts = [
            f"{name} {version}".strip(),
            session.get("model", ""),
            home(session.get("workspace", "")),
            session.get("policy", ""),
        ]
        left = " · ".join(plain(each) for each in facts if each)
        right = short(session.get("session_id", ""))
        style = self._screen.style
        self._screen.line(
            spread(
                style(clip(left, self._screen.room - 16), "bold"),
                style(right, "dim"),
                self._screen.room,
            )
        )

    def event(self, event: Json) -> None:
        self._summary.event(event)
        data: Json = event["data"]
        match event["type"]:
            case "message_chunk" | "message":
                self._message(event, data)
            case "reasoning" if not data.get("retracted") and not data.get("whole"):
                self._stream("think", data["message_id"], data.get("text", ""), "dim italic")
            case "tool_call" | "tool_update":
                self._tool(event, data)
            case "file_change":
                self._file(data)
            case "permission_resolved":
                self._answered(event, data)
            case "complete":
                self._end_text()
                self._wait("")
            case other:
                self._line_of(other, data)

    def _line_of(self, kind: str, data: Json) -> None:
        match kind:
            case "agent_status":
                self._agent(data)
            case "run_status" if data["status"] == "queued":
                place = f", place {data['position']} in the queue" if "position" in data else ""
                self._wait(f"waiting for the session{place}")
            case "run_status" if data["status"] == "started":
                self._wait("working")
            case "plan":
                self._show_plan(data)
            case "task" if data.get("status") not in (None, "running"):
                self._aside(f"task {data.get('title', data['task_id'])}: {data['status']}")
            case "rate_limit":
                self._limit(data)
            case "error":
                self._aside(data["message"], "yellow")
            case "artifact" if data.get("kind") not in _SEEN_ANYWAY:
                self._artifact(data)
            case "session_status" if data.get("status") == "failed":
                self._wait("")
            case _:
                pass

    def gap(self, gap: Json) -> None:
        self._aside(f"some events are gone: {gap.get('reason', '')}", "yellow")

    def note(self, text: str) -> None:
        self._end_text()
        self._screen.line(self._screen.style(text, "dim"))

    def end(self, complete: Json | None) -> None:
        self._end_text()
        self._wait("")
        if complete is not None:
            for line in ending(complete, self._summary, self._screen.out):
                self._screen.line(line)

    def open_output(self) -> None:
        """Prints all of the last output that was cut (the key `o`)."""
        if self._block is not None:
            for line in self._block.block(self._screen, whole=True):
                self._screen.line(line)
            self._block = None

    def tick(self) -> None:
        if self.quiet or not self._waits:
            return
        self._frame += 1
        passed = time.monotonic() - self._since
        text = f"{SPINNER[self._frame % len(SPINNER)]} {clip(self._waits, self._screen.room - 14)}"
        self._screen.bottom(text + (f" … {passed:.0f} s" if passed >= 1 else " …"))

    def _wait(self, what: str) -> None:
        """Says at the bottom what is being waited for; "" for nothing."""
        if what != self._waits:
            self._waits, self._since = what, time.monotonic()
            if not self.quiet and not what:
                self._screen.bottom("")

    def _message(self, event: Json, data: Json) -> None:
        if data.get("role") == "user":
            return
        text = self._texts.new(event["type"], data)
        if data.get("retracted"):
            self._aside("the agent took back its last words")
        style = "dim" if "parent_tool_call_id" in event or data["role"] == "system" else ""
        self._stream("say", data["message_id"], text, style)

    def _stream(self, kind: str, message_id: str, text: str, style: str) -> None:
        if not text:
            return
        speaker = f"{kind}:{message_id}"
        if speaker != self._speaking:
            self._end_text()
            self._speaking = speaker
            self._wait("")
            text = text.lstrip("\n")
        self._screen.text(text, style)

    def _end_text(self) -> None:
        self._speaking = ""
        self._screen.end_text()

    def _aside(self, text: str, style: str = "dim") -> None:
        self._end_text()
        self._screen.line(self._screen.style(f"  {plain(text)}", style))

    def _tool(self, event: Json, data: Json) -> None:
        identifier = data["tool_call_id"]
        tool = self._tools.get(identifier)
        if tool is None:
            tool = self._tools[identifier] = Tool(event["ts"])
        was_final = tool.ended
        tool.take(event["ts"], data)
        if was_final:
            return
        if data.get("status") in FINAL:
            tool.ended = True
            self._end_text()
            self._wait("working")
            self._screen.line(tool.line(self._screen))
            for line in tool.block(self._screen):
                self._screen.line(line)
            self._block = tool if tool.hides else self._block
        elif tool.data.get("status") != "awaiting_approval":
            self._wait(f"{tool.kind} {subject(tool.data, self._screen.workspace)}")

    def _answered(self, event: Json, data: Json) -> None:
        for tool in self._tools.values():
            if not tool.ended:
                tool.since = event["ts"]
        by = data.get("by", "client")
        if by != "client" and data.get("decision") in ("approved", "denied"):
            self._aside(f"{data['decision']} by {by}")
        elif data.get("decision") in ("expired", "cancelled"):
            self._aside(f"the request {data['approval_id'][-4:]} is {data['decision']}")

    def _artifact(self, data: Json) -> None:
        what = f"{data.get('kind', 'artifact')} {data.get('title', '')}".rstrip()
        get = f"agentctl artifacts get {data['artifact_id'][-6:]}"
        self._aside(f"{what} · {data.get('url') or get}")

    def _file(self, data: Json) -> None:
        tool = self._tools.get(data.get("tool_call_id", ""))
        if tool is not None and tool.counted:
            return
        counts = (
            f"+{data['additions']} {MINUS}{data.get('deletions', 0)}" if "additions" in data else ""
        )
        place = subject({"paths": [data["path"]]}, self._screen.workspace)
        path = clip(place, self._screen.room - len(counts) - 14)
        left = f"  {data.get('change', 'modify')} {path}"
        self._end_text()
        self._screen.line(self._screen.style(spread(left, counts, self._screen.room), "dim"))

    def _show_plan(self, data: Json) -> None:
        entries: list[Json] = data.get("entries", [])
        known = [each["content"] for each in self._plan] == [each["content"] for each in entries]
        # The same plan a step further shows only its steps that moved.
        fresh = [each for each in entries if not known or each not in self._plan]
        self._plan = entries
        if fresh:
            self._end_text()
        for entry in fresh:
            mark = _MARKS.get(entry["status"], "☐")
            style = "" if entry["status"] == "in_progress" else "dim"
            text = f"  {mark} {plain(entry['content'])}"
            self._screen.line(self._screen.style(clip(text, self._screen.room), style))
        if data.get("document"):
            self._screen.line(self._screen.style(clean(data["document"]), "dim"))

    def _limit(self, data: Json) -> None:
        wait = ""
        if "next_try_at" in data:
            wait = f", next try in {max(data['next_try_at'] / 1000 - time.time(), 0):.0f} s"
        self._aside(f"the model is busy: {data.get('message', 'rate limit')}{wait}", "yellow")

    def _agent(self, data: Json) -> None:
        entry = data.get("entry_id", "agent")
        if data.get("state") in ("starting", "ready") and data.get("detail"):
            self._wait(f"{entry}: {plain(data['detail'])}")
        elif data.get("state") == "starting":
            self._wait(f"starting {entry}")
        elif data.get("state") == "ready":
            self._wait("working")
