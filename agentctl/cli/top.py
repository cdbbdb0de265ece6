"""Owns the command `top`: what runs now, on a screen that changes as the events tell.

It asks for a list only when an event has made it old. What is shown, and how, is not its business.
"""

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli.state import go

if TYPE_CHECKING:
    from rich.live import Live

    from agentctl.cli.topstate import Overview
    from agentctl.client import AgentCtl

# A busy daemon has hundreds of events a second; nobody reads lists that change faster.
PAUSE_S = 1.0
# No event tells of CPU and memory.
MEASURE_S = 5.0
# An answer that takes longer comes from a daemon that is in trouble; the next try is a second away.
CALL_S = 10.0
MOST = 200


def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object at each change.")
    ] = False,
) -> None:
    """Shows agents, sessions, open requests and tokens a minute as they change. q or Ctrl-C ends it.

    Without a terminal it prints them once.

    \b
    Examples:
      agentctl top
      agentctl top --once --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.topstate import Overview

        view = Overview()
        after = await _first(client, view)
        if once or not (as_json or sys.stdout.isatty()):
            _print(view, as_json)
            return
        await Watch(client, view, after, as_json=as_json).run()

    go(work)


async def _first(client: "AgentCtl", view: "Overview") -> str:
    """All lists, as they are after the cursor that is returned; and the last minute's tokens."""
    from agentctl.cli.topstate import MINUTE_MS, total
    from agentctl.rpc.jsonview import to_dict

    after = (await client.daemon.get_info(timeout_s=CALL_S)).head_cursor
    now = _now()
    used = (await client.stats.get(since=now - MINUTE_MS)).total
    if used.HasField("usage"):
        view.spend(total(to_dict(used.usage)), now)
    await refresh(client, view)
    return after


async def refresh(client: "AgentCtl", view: "Overview") -> None:
    """Asks for what has become old.

    Raises:
        AgentctlError: the daemon did not answer; what was not told is old still.
    """
    from agentctl.rpc.jsonview import to_dict

    for name in sorted(view.stale):
        view.stale.discard(name)
        try:
            match name:
                case "agents":
                    agents = (await client.agents.list(page_size=MOST)).agents
                    view.agents = [to_dict(each) for each in agents]
                case "sessions":
                    found = await client.sessions.list(open_only=True, page_size=MOST)
                    view.sessions = [to_dict(each) for each in found.sessions]
                case "runs":
                    runs = (await client.runs.list(states=["running"], page_size=MOST)).runs
                    view.runs = [to_dict(each) for each in runs]
                case "approvals":
                    asked = (await client.approvals.list(page_size=MOST)).approvals
                    view.approvals = [to_dict(each) for each in asked]
                case "questions":
                    questions = (await client.questions.list(page_size=MOST)).questions
                    view.questions = [to_dict(each) for each in questions]
                case _:
                    view.info = to_dict(await client.daemon.get_info(timeout_s=CALL_S))
        except BaseException:
            view.stale.add(name)
            raise


class Watch:
    """The view that goes on: reads the stream, asks for old lists, draws."""

    def __init__(self, client: "AgentCtl", view: "Overview", after: str, *, as_json: bool) -> None:
        import anyio

        self._client = client
        self._view = view
        self._after = after
        self._as_json = as_json
        self._news = anyio.Event()
        self._live: Live | None = None
        self._away_since = 0.0

    async def run(self) -> None:
        """Until q or Ctrl-C; a daemon that is away is waited for."""
        import anyio

        from agentctl.cli import keyboard

        with ExitStack() as stack:
            if not self._as_json:
                self._live = stack.enter_context(_screen())
            keys = not self._as_json and keyboard.usable()
            if keys:
                stack.enter_context(keyboard.keys_alone(sys.stdin.fileno()))
            self._draw()
            async with anyio.create_task_group() as group:
                group.start_soon(self._signals, group.cancel_scope)
                group.start_soon(self._read)
                group.start_soon(self._keep_fresh)
                group.start_soon(self._measure)
                if keys:
                    group.start_soon(self._keys, group.cancel_scope)

    async def _read(self) -> None:
        import anyio

        from agentctl.cli.topstate import TYPES
        from agentctl.client.stream import retryable
        from agentctl.core.errors import AgentctlError
        from agentctl.rpc.jsonview import to_dict

        while True:
            try:
                async for batch in self._client.batches(self._after, types=TYPES):
                    self._after = batch.cursor or self._after
                    for event in batch.events:
                        self._view.take(to_dict(event))
                    if batch.HasField("gap"):
                        self._old()
                    if self._view.stale:
                        self._news.set()
            except AgentctlError as error:
                if not retryable(error):
                    raise
            await anyio.sleep(PAUSE_S)
            self._old()
            self._news.set()

    def _old(self) -> None:
        from agentctl.cli.topstate import LISTS

        self._view.stale |= set(LISTS)

    async def _keep_fresh(self) -> None:
        """Draws once a second; asks for what is old before."""
        import anyio

        from agentctl.core.errors import AgentctlError

        while True:
            with anyio.move_on_after(PAUSE_S):
                await self._news.wait()
            changed = bool(self._view.stale)
            if changed:
                self._news = anyio.Event()
                try:
                    with anyio.fail_after(CALL_S):
                        await refresh(self._client, self._view)
                    self._back()
                except (AgentctlError, TimeoutError) as error:
                    self._gone(error)
            if changed or not self._as_json:
                self._draw()
            await anyio.sleep(PAUSE_S)

    def _back(self) -> None:
        if self._view.away:
            self._view.away, self._away_since = "", 0.0
            # What changed while it was away was told by no event, or by one that is gone.
            self._old()

    def _gone(self, error: Exception) -> None:
        self._away_since = self._away_since or time.monotonic()
        passed = time.monotonic() - self._away_since
        self._view.away = f"the daemon does not answer … {passed:.0f} s ({type(error).__name__})"

    async def _measure(self) -> None:
        import anyio

        while True:
            await anyio.sleep(MEASURE_S)
            if self._view.agents:
                self._view.stale.add("agents")
                self._news.set()

    async def _keys(self, scope: Any) -> None:
        from agentctl.cli import keyboard

        async for key in keyboard.read_keys(sys.stdin.fileno()):
            if key in ("q", "Q"):
                scope.cancel()

    async def _signals(self, scope: Any) -> None:
        import anyio

        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH)
        with anyio.open_signal_receiver(*wanted) as received:
            async for number in received:
                if number == signal.SIGWINCH:
                    self._draw()
                else:
                    scope.cancel()
                    return

    def _draw(self) -> None:
        if self._live is None:
            _print(self._view, as_json=True)
            return
        from rich.text import Text

        from agentctl.cli.out import out
        from agentctl.cli.topview import lines

        columns, height = self._live.console.size
        shown = lines(self._view, _now(), columns, height - 1)
        shown += [""] * (height - 1 - len(shown)) + [out().text("q ends it", "dim")]
        text = Text.from_ansi("\n".join(shown), no_wrap=True, overflow="crop")
        self._live.update(text, refresh=True)


def _screen() -> "Live":
    """A screen of its own; the old one comes back at the end, whatever ends it."""
    from rich.console import Console
    from rich.live import Live

    from agentctl.cli.out import out

    console = Console(no_color=not out().color, highlight=False)
    return Live(
        console=console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _print(view: "Overview", as_json: bool) -> None:
    from agentctl.cli.out import out, print_json, width
    from agentctl.cli.topview import lines

    if as_json:
        print_json(view.as_json(_now()))
        return
    screen = out()
    for line in lines(view, _now(), width(screen.stream), whole=not screen.is_terminal):
        screen.line(line)


def _now() -> int:
    return time.time_ns() // 1_000_000


COMMANDS: Sequence[Any] = (top,)
