"""Owns how the frames of a Claude Code process reach those who wait for them: answers and requests.

The path itself is `common.link`. An answer resolves its request only once its draft is with the sink. It
reads no text; it notes whether a turn runs, and stops retries of a login that was refused.
"""

from typing import Any, cast

import anyio
import orjson

from agentctl.core.adapter import Launch, Sink
from agentctl.core.ids import NativeRequestId
from agentctl_adapters.claude.asks import outlives
from agentctl_adapters.claude.control import Control, failure
from agentctl_adapters.claude.translate import ClaudeTranslator, refuses_key
from agentctl_adapters.common import link
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, as_words

# An interrupt ends subagents, but not these.
_SHELLS = frozenset({"local_bash", "monitor", "monitor_mcp"})


def parse(line: bytes) -> Json | None:
    """The frame on a line; None for whatever is not an object with a type."""
    try:
        value: object = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    message = cast(Json, value)
    return message if isinstance(message.get("type"), str) else None


class ClaudeLink(link.Link):
    """Made before the process is started, so that its first words find a listener."""

    def __init__(self, launch: Launch, translator: ClaudeTranslator, sink: Sink) -> None:
        super().__init__(launch, translator, sink, parse_line=parse)
        self.control = Control(self.send, self.before_write)
        self.asked: dict[NativeRequestId, Json] = {}
        self.shells: list[str] = []
        self.tools: list[str] | None = None
        self.refusal = ""
        self.idle = anyio.Event()
        self.idle.set()
        self._waiting_for: set[str] = set()
        self._answers: list[Json] = []
        self.asked_again: set[NativeRequestId] = set()
        self._asked_in_turn: set[NativeRequestId] = set()
        self._key_source = ""
        self._key_refused = False

    def prompted(self, uuid: str) -> None:
        """A prompt is about to be written."""
        self._waiting_for.add(uuid)
        if self.idle.is_set():
            self.idle = anyio.Event()

    def on_message(self, message: Json) -> None:
        match message["type"]:
            case "stream_event" | "assistant" | "user":
                pass
            case "control_response":
                self._answers.append(message)
            case "control_request":
                self._on_request(message)
            case "control_cancel_request":
                self.asked.pop(NativeRequestId(as_text(message.get("request_id"))), None)
            case "system":
                self._on_system(message)
            case "result":
                self._on_result(message)
            case _:
                pass

    def delivered(self) -> None:
        answers, self._answers = self._answers, []
        for answer in answers:
            self.control.resolve(answer)

    def gone(self, reason: str) -> None:
        self.control.fail_all(reason)
        self.asked.clear()
        self.idle.set()

    def _on_request(self, message: Json) -> None:
        request = as_object(message.get("request"))
        own = as_text(message.get("request_id"))
        if request.get("subtype") == "can_use_tool":
            self.asked[NativeRequestId(own)] = request
            self._asked_in_turn.add(NativeRequestId(own))
        else:
            said = f"agentctl does not serve {as_text(request.get('subtype'))!r}"
            self.control.post(failure(own, said))

    def _on_system(self, message: Json) -> None:
        match message.get("subtype"):
            case "init":
                self._key_source = as_text(message.get("apiKeySource")) or self._key_source
                self._key_refused = False
                self._asked_in_turn.clear()
                self.tools = as_words(message.get("tools"))
            case "background_tasks_changed":
                tasks = as_objects(message.get("tasks"))
                shells = (task for task in tasks if task.get("task_type") in _SHELLS)
                self.shells = [as_text(task.get("task_id")) for task in shells]
            case "api_retry" if not self._key_refused and refuses_key(message, self._key_source):
                # Ten tries take three minutes, and none of them can help.
                self._key_refused = True
                self.control.post_request("interrupt")
            case _:
                pass

    def _on_result(self, message: Json) -> None:
        self.asked_again |= {
            key
            for key in self._asked_in_turn
            if key in self.asked and outlives(self.asked[key], message)
        }
        self._asked_in_turn.clear()
        if not self._waiting_for and message.get("is_error"):
            self.refusal = "; ".join(as_words(message.get("errors"))) or self.refusal
        uuids: list[Any] = as_words(message.get("user_message_uuids"))
        self._waiting_for.difference_update(uuids)
        if not uuids and not message.get("origin"):
            self._waiting_for.clear()
        if not self._waiting_for:
            self.idle.set()
