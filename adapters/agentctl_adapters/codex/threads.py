"""Owns the threads of a live app-server: which works on what turn, whose subagent it is, how it is ended.

Notes what is notified; everything it says itself is queued, never waited for. Knows no content.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentctl.core.spec import SessionSpec
from agentctl.transport.jsonrpc import Peer, PeerGone, RpcError
from agentctl_adapters.codex.inbound import Inbound
from agentctl_adapters.common.shapes import Json, as_object, as_text

logger = logging.getLogger(__name__)

PLAN = "plan"


@dataclass(slots=True)
class Thread:
    """A thread at work: ours, or one that a subagent of ours works in (`parent`)."""

    id: str
    spec: SessionSpec | None = None
    parent: str = ""
    turn: str = ""
    model: str = ""
    effort: str | None = None
    planning: bool = False
    starting: "asyncio.Future[Any] | None" = None
    interrupting: bool = False
    idle: anyio.Event = field(default_factory=anyio.Event)

    @property
    def busy(self) -> bool:
        starting = self.starting is not None and not self.starting.done()
        return not self.idle.is_set() and (bool(self.turn) or starting)

    def begin(self, answer: "asyncio.Future[Any]") -> None:
        """A prompt of ours is on its way; its answer names the turn."""
        self.idle = anyio.Event()
        self.starting = answer
        answer.add_done_callback(self._begun)

    def in_force(self, told: Mapping[str, Any]) -> None:
        """What a response or a notification says of its settings."""
        self.model = as_text(told.get("model")) or self.model
        for name in ("effort", "reasoningEffort"):
            if name in told:
                self.effort = as_text(told[name]) or None
        if mode := as_text(as_object(told.get("collaborationMode")).get("mode")):
            self.planning = mode == PLAN

    def _begun(self, answer: "asyncio.Future[Any]") -> None:
        if answer.cancelled() or answer.exception() is not None:
            self.idle.set()
            return
        turn = as_text(as_object(as_object(answer.result()).get("turn")).get("id"))
        # A turn may be over before its answer is looked at.
        if turn and not self.turn and not self.idle.is_set():
            self.turn = turn


class Threads:
    """The threads of one process, by their ids."""

    def __init__(self, peer: Peer, inbound: Inbound) -> None:
        self._peer = peer
        self._inbound = inbound
        self._threads: dict[str, Thread] = {}

    def of(self, thread_id: str) -> Thread:
        return self._threads.setdefault(thread_id, Thread(thread_id))

    def family(self, thread_id: str) -> set[str]:
        """The thread and those of its subagents, theirs included."""
        family, before = {thread_id}, 0
        while len(family) > before:
            before = len(family)
            family |= {t.id for t in self._threads.values() if t.parent in family}
        return family

    def forget(self, thread_id: str) -> None:
        for each in self.family(thread_id):
            self._threads.pop(each, None)

    def on_notification(self, method: str, params: Json) -> None:
        thread_id = as_text(params.get("threadId"))
        match method:
            case "item/started":
                child = as_text(as_object(params.get("item")).get("agentThreadId"))
                if child and child not in self._threads:
                    self._threads[child] = Thread(child, parent=thread_id)
            case "turn/started":
                thread = self.of(thread_id)
                thread.turn = as_text(as_object(params.get("turn")).get("id"))
                thread.idle = anyio.Event() if thread.idle.is_set() else thread.idle
            case "turn/completed":
                turn = as_text(as_object(params.get("turn")).get("id"))
                self._turn_over(self.of(thread_id), turn)
            case "thread/settings/updated":
                self.of(thread_id).in_force(as_object(params.get("threadSettings")))
            case _:
                pass

    def interrupt(self, thread: Thread) -> None:
        """Tells its turn to end, whatever its name."""
        thread.interrupting = True
        self._inbound.cancelling.add(thread.id)
        answer = self._queue("turn/interrupt", {"threadId": thread.id, "turnId": ""})
        if answer is not None:
            answer.add_done_callback(lambda done: self._interrupted(thread, done))

    def clean(self, thread_id: str) -> None:
        """Ends the commands that a thread keeps running."""
        self._queue("thread/backgroundTerminals/clean", {"threadId": thread_id})

    def _turn_over(self, thread: Thread, turn: str) -> None:
        thread.turn = ""
        self._inbound.cancelling.discard(thread.id)
        self._inbound.turn_over(thread.id, turn)
        if thread.interrupting:
            # Before any later prompt: what the turn left running must not live on.
            thread.interrupting = False
            self.clean(thread.id)
        thread.idle.set()

    def _interrupted(self, thread: Thread, answer: "asyncio.Future[Any]") -> None:
        """Nothing was there to be interrupted: the turn has ended by itself meanwhile."""
        if not answer.cancelled() and isinstance(answer.exception(), RpcError):
            thread.interrupting = False
            self._inbound.cancelling.discard(thread.id)

    def _queue(self, method: str, params: Json) -> "asyncio.Future[Any] | None":
        try:
            return self._peer.start_request(method, params)[1]
        except PeerGone:
            logger.debug("Codex was gone before %s was written", method)
            return None
