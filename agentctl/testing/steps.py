"""Owns what a scripted agent can be told to do, as data; knows neither daemon nor protocol."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentctl.core.events import Payload

Words: TypeAlias = str | Callable[[Sequence[str]], str]
"""A text, or a function of the last answers that the app gave to a question."""


class Gate:
    """Holds a script at its `Wait` until the test opens it: a delay that no clock decides.

    It may be opened from any thread.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._reached = threading.Event()
        self._waiting: list[tuple[threading.Event, asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Lets the script go on, now and whenever it comes here."""
        self._tell(self._opened)

    async def reached(self) -> None:
        """Returns when a script waits here, or has waited."""
        await self._wait_for(self._reached)

    def wait_reached(self, timeout_s: float) -> bool:
        """The same for a test without an event loop; False when the time was up first."""
        return self._reached.wait(timeout_s)

    async def wait(self) -> None:
        self._tell(self._reached)
        await self._wait_for(self._opened)

    def _tell(self, what: threading.Event) -> None:
        what.set()
        for told, loop, event in tuple(self._waiting):
            if told is what and not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def _wait_for(self, what: threading.Event) -> None:
        event = asyncio.Event()
        waiter = (what, asyncio.get_running_loop(), event)
        self._waiting.append(waiter)
        try:
            # It may have been told just before it could be heard here.
            if not what.is_set():
                await event.wait()
        finally:
            self._waiting.remove(waiter)


@dataclass(frozen=True, slots=True)
class Say:
    """Says a text, one event for each of its words when `in_words`."""

    text: Words
    in_words: bool = False


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Tells a plan; the first `done` entries are completed, the next is in progress."""

    entries: Sequence[str]
    done: int = 0


@dataclass(frozen=True, slots=True)
class UseTool:
    """Uses a tool from start to end. With `ask` it asks first; a denial makes it fail.

    Attributes:
        kind: read, edit, delete, move, search, execute, think, fetch, subagent, todo, mcp or other.
        pieces: output that comes bit by bit, before `output`, which is all of it.
        images: PNG pictures that it shows.
        error: it fails with this.
        risk: low, medium or high, as the agent would say.
    """

    name: str
    kind: str = "other"
    title: str = ""
    input: Any = None
    command: str = ""
    paths: Sequence[str] = ()
    pieces: Sequence[str] = ()
    output: str = ""
    images: Sequence[bytes] = ()
    exit_code: int | None = None
    error: str = ""
    ask: bool = False
    risk: str = ""


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Writes a file of the workspace, for real, with a tool of kind edit."""

    path: str
    content: str
    ask: bool = False


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Asks for leave that no tool needs, then plays `allowed` or `denied`.

    Attributes:
        kind: tool, plan, mode, mcp, environment or other.
        options: pairs of option id and kind, as the agent offers them.
        expires_at: Unix ms.
    """

    title: str
    kind: str = "other"
    tool_name: str = ""
    risk: str = ""
    command: str = ""
    options: Sequence[tuple[str, str]] = (
        ("once", "allow_once"),
        ("always", "allow_always"),
        ("no", "reject_once"),
    )
    expires_at: int | None = None
    allowed: Sequence["Step"] = ()
    denied: Sequence["Step"] = ()


@dataclass(frozen=True, slots=True)
class AskQuestion:
    """Asks one question; without options any text answers it. `Say` can take up the answers."""

    question: str
    options: Sequence[str] = ()
    header: str = ""
    multiple: bool = False
    custom: bool = False


@dataclass(frozen=True, slots=True)
class ShowImage:
    """Shows a picture in a message."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Spend:
    """What the turn costs; told at its end."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Emit:
    """Any other payload of the event model (agentctl.core.events), such as Git or Task."""

    payload: Payload


@dataclass(frozen=True, slots=True)
class Fail:
    """Ends the turn with an error; `code` is a run's reason such as MODEL_ERROR or RATE_LIMITED."""

    code: str = "MODEL_ERROR"
    message: str = "the script says so"
    recoverable: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """The agent's process dies in the middle of the turn."""

    code: int = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """Says nothing until the gate is opened; a run with `timeout_ms` times out here."""

    gate: Gate


Step: TypeAlias = (
    Say
    | Think
    | Plan
    | UseTool
    | WriteFile
    | AskApproval
    | AskQuestion
    | ShowImage
    | Spend
    | Emit
    | Fail
    | Exit
    | Wait
)
