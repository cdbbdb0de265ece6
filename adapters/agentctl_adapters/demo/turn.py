"""One turn of the demo agent: the voice (text, tools, permissions) and the end of the turn.

Owns the order of what a turn sends and its cancel. Knows no directive: those are in `actions`.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agentctl_adapters.demo.store import Saved, Store
from agentctl_adapters.demo.wire import Json, RpcError, Wire, obj

CONTEXT_SIZE = 200_000
USD_PER_TOKEN = 0.000_002
# Who cancels a turn may answer its open request first; the cancel itself is a line behind.
CANCEL_S = 0.2

_OPTIONS: list[Json] = [
    {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow in this session", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Always reject in this session", "kind": "reject_always"},
]


class TurnCancelled(Exception):
    """The client cancelled; the turn answers `cancelled` after its last update."""


@dataclass(slots=True)
class Live:
    """One open session of this process."""

    saved: Saved
    mcp_servers: list[Json] = field(default_factory=list[Json])
    standing: dict[str, bool] = field(default_factory=dict[str, bool])
    turn: "Turn | None" = None
    thread: threading.Thread | None = None


class Turn:
    """What a directive speaks through; runs in a thread of its own."""

    def __init__(self, wire: Wire, store: Store, live: Live, client_capabilities: Json) -> None:
        self.wire, self.store, self.live = wire, store, live
        self.client_capabilities = client_capabilities
        self.cancelled = threading.Event()
        self.afterwards: list[Callable[[], None]] = []
        self.attachments: list[str] = []
        self._wake: threading.Event | None = None
        self._message_id: str | None = None
        self._message_kind = ""
        self._count = 0
        self._said = 0
        self._asked = 0

    @property
    def saved(self) -> Saved:
        return self.live.saved

    def cancel(self) -> None:
        """Wake the turn wherever it waits; safe to call twice and from any thread."""
        self.cancelled.set()
        if self._wake is not None:
            self._wake.set()

    def hear(self, prompt: list[Json]) -> str:
        """Take the user's content blocks into the history.

        Returns:
            The text of the prompt.
        """
        texts: list[str] = []
        self.saved.turns += 1
        for block in prompt:
            kind: str = block.get("type", "")
            if kind == "text":
                texts.append(str(block.get("text", "")))
            else:
                self.attachments.append(kind)
                if kind != "resource_link":
                    block = {"type": "text", "text": f"[{kind}]"}
            self.saved.remember({"sessionUpdate": "user_message_chunk", "content": block})
        text = "\n".join(texts)
        self._asked = len(text)
        self.saved.title = self.saved.title or " ".join(text.split())[:60] or None
        return text

    def usage(self) -> Json:
        """Tokens of this turn, guessed at four characters each."""
        given, made = self._asked // 4 + 1, self._said // 4
        return {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}

    def update(self, body: Json, *, keep: bool = True) -> None:
        """Send one session/update; `keep` puts it into the history a replay shows."""
        if body["sessionUpdate"] not in ("agent_message_chunk", "agent_thought_chunk"):
            self._message_id = None
        if keep:
            self.saved.remember(body)
        self.wire.notify("session/update", {"sessionId": self.saved.session_id, "update": body})

    def chunk(self, text: str, *, kind: str = "agent_message_chunk") -> Json:
        """A chunk of the message that is open, or of a new one."""
        if self._message_id is None or self._message_kind != kind:
            self._count += 1
            self._message_id = f"message-{self.saved.turns}-{self._count}"
            self._message_kind = kind
        self._said += len(text)
        content = {"type": "text", "text": text}
        return {"sessionUpdate": kind, "messageId": self._message_id, "content": content}

    def say(self, text: str) -> None:
        self.update(self.chunk(text))

    def think(self, text: str) -> None:
        self.update(self.chunk(text, kind="agent_thought_chunk"))

    def plan(self, statuses: list[tuple[str, str]]) -> None:
        """Replace the plan by these (content, status) pairs."""
        entries = [{"content": c, "priority": "medium", "status": s} for c, s in statuses]
        self.update({"sessionUpdate": "plan", "entries": entries})

    def report_usage(self) -> None:
        """Send usage_update: the context filled so far and its cost in USD."""
        used = self.usage()["totalTokens"] + sum(
            len(str(update.get("content", ""))) // 4 for update in self.saved.updates
        )
        cost = {"amount": round(used * USD_PER_TOKEN, 6), "currency": "USD"}
        body = {"sessionUpdate": "usage_update", "used": used, "size": CONTEXT_SIZE, "cost": cost}
        self.update(body, keep=False)

    def pause(self, seconds: float) -> None:
        """Wait, unless the turn is cancelled meanwhile.

        Raises:
            TurnCancelled: It was.
        """
        if self.cancelled.wait(seconds):
            raise TurnCancelled

    def call_id(self) -> str:
        self._count += 1
        return f"call-{self.saved.turns}-{self._count}"

    def tool(self, call_id: str, title: str, kind: str, status: str, **more: Any) -> None:
        """Announce a tool call; `more` holds rawInput, locations, content."""
        self.update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call_id,
                "title": title,
                "kind": kind,
                "status": status,
                **more,
            }
        )

    def tool_update(self, call_id: str, *, keep: bool = True, **more: Any) -> None:
        body = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **more}
        self.update(body, keep=keep)

    def request(self, method: str, params: Json) -> Json:
        """Ask the client; a JSON-RPC error reads as an empty result.

        Raises:
            TurnCancelled: The turn was cancelled before the answer came.
        """
        answer = self.wire.request(method, params, self._waiting)
        self._wake = None
        if answer is None or self.cancelled.is_set():
            raise TurnCancelled
        return obj(answer.get("result"))

    def allowed(self, tool_call: Json, *, always_ask: bool = False) -> bool:
        """Whether this tool call may go on: by mode, by an earlier "always", or by asking.

        Raises:
            TurnCancelled: The turn was cancelled while the client was thinking.
        """
        kind: str = tool_call["kind"]
        if not always_ask:
            if self.saved.mode == "auto":
                return True
            if kind in self.live.standing:
                return self.live.standing[kind]
        params = {
            "sessionId": self.saved.session_id,
            "toolCall": {**tool_call, "status": "pending"},
            "options": _OPTIONS,
        }
        outcome = obj(self.request("session/request_permission", params).get("outcome"))
        if outcome.get("outcome") == "cancelled":
            self.pause(CANCEL_S)
        option = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
        if option in ("always", "never"):
            self.live.standing[kind] = option == "always"
        return option in ("once", "always")

    def end(self, request_id: Any, stop_reason: str) -> None:
        """Answer the prompt; the session is free before the answer is seen."""
        self._leave()
        result = {"stopReason": stop_reason, "usage": self.usage()}
        self.wire.answer(request_id, result)

    def fail(self, request_id: Any, error: RpcError) -> None:
        """Answer the prompt with an error."""
        self._leave()
        self.wire.refuse(request_id, error)

    def keep(self) -> None:
        """Write the session down; a full or read-only disk costs the history, not the turn."""
        try:
            self.store.save(self.saved)
        except OSError as error:
            note(f"cannot keep the session: {error}")

    def _leave(self) -> None:
        self.keep()
        self.live.turn = None

    def _waiting(self, done: threading.Event) -> None:
        self._wake = done
        if self.cancelled.is_set():
            done.set()


def note(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"agentctl-demo: {text}\n")
    sys.stderr.flush()
