"""Owns the client for programs without an event loop: the same names, each call waits.

    with AgentCtl.connect() as client:
        run = client.agent("demo").run("hello")
        print(run.wait().text)

Every object is a mirror of one of the asynchronous client and works on a thread of its own; iterators
are plain ones, callbacks run in threads. What the mirrors have follows from the originals; the types in
`sync.pyi` are made from them (tools/gen_sync.py). It works beside a running event loop too, which waits.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self, cast

import anyio
import anyio.to_thread

from agentctl.client import agent as _agent
from agentctl.client import (
    agents,
    api,
    artifact,
    asking,
    environment,
    others,
    runs,
    sessions,
    stream,
)
from agentctl.client import run as _run
from agentctl.client import session as _session
from agentctl.client.loop import LoopThread

# A callback may wait for a person for hours; it takes none of the threads that others wait for.
MOST_CALLBACKS = 1000
_END = object()
_CALLBACKS = ("on_approval", "on_question")


class Mirror:
    """One object of the asynchronous client, seen from a thread without a loop."""

    __slots__ = ("_inner", "_loop")

    def __init__(self, inner: Any, loop: LoopThread) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._inner, name)
        if not inspect.ismethod(value):
            return _mirrored(value, self._loop)

        @functools.wraps(value)
        def call(*args: Any, **named: Any) -> Any:
            threaded = name in _CALLBACKS
            given = [_given(each, self._loop, threaded) for each in args]
            told = {key: _given(each, self._loop, threaded) for key, each in named.items()}
            result = self._loop.run(_result(value, given, told))
            if isinstance(result, AsyncIterator):
                return _items(cast("AsyncIterator[Any]", result), self._loop)
            return _mirrored(result, self._loop)

        return call

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._inner) if not name.startswith("_")]

    def __repr__(self) -> str:
        return repr(self._inner)


async def _result(call: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    result = call(*args, **named)
    return await result if inspect.isawaitable(result) else result


def _items(source: AsyncIterator[Any], loop: LoopThread) -> Iterator[Any]:
    async def take() -> Any:
        return await anext(source, _END)

    try:
        while (item := loop.run(take())) is not _END:
            yield _mirrored(item, loop)
    finally:
        close: Any = getattr(source, "aclose", None)
        if close is not None and loop.open:
            loop.run(close())


def _mirrored(value: Any, loop: LoopThread) -> Any:
    kind = MIRRORS.get(cast("type[Any]", type(value)))
    if kind is not None:
        return kind(value, loop)
    if isinstance(value, list):
        return [_mirrored(each, loop) for each in cast("list[Any]", value)]
    return value


def _given(value: Any, loop: LoopThread, threaded: bool) -> Any:
    """An argument: mirrors are taken off, callbacks get mirrors and, where they may wait, a thread."""
    if isinstance(value, Mirror):
        return value._inner  # pyright: ignore[reportPrivateUsage]  a mirror's own business
    if not callable(value) or isinstance(value, type):
        return value
    call = cast("Callable[..., Any]", value)
    if not threaded:

        def direct(*args: Any) -> Any:
            return call(*(_mirrored(each, loop) for each in args))

        return direct
    if inspect.iscoroutinefunction(value):
        raise TypeError("this client takes plain functions as callbacks: drop the async.")
    limiter = anyio.CapacityLimiter(MOST_CALLBACKS)

    async def in_thread(request: Any) -> Any:
        mirrored = _mirrored(request, loop)
        return await anyio.to_thread.run_sync(
            call, mirrored, abandon_on_cancel=True, limiter=limiter
        )

    return in_thread


class AgentCtl(Mirror):
    """A client of one daemon: `with AgentCtl.connect() as client: ...`."""

    __slots__ = ()

    @classmethod
    def connect(cls, address: str | None = None, token: str | None = None) -> Self:
        """As agentctl.client.AgentCtl.connect; close it, or use it as a context manager."""
        loop = LoopThread()

        async def make() -> api.AgentCtl:
            return api.AgentCtl.connect(address, token)

        try:
            return cls(loop.run(make()), loop)
        except BaseException:
            loop.close()
            raise

    def close(self) -> None:
        """Ends the connection, its callbacks and its thread; a second time nothing.

        Another thread that waits in a call or reads events gets a RuntimeError: it is closed.
        """
        self._loop.close(self._inner.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


ORIGINALS: tuple[type[Any], ...] = (
    _agent.Agent,
    _session.Session,
    _run.Run,
    asking.Approval,
    asking.Question,
    artifact.Artifact,
    artifact.ArtifactsOf,
    environment.Environment,
    environment.Task,
    stream.Subscription,
    agents.Daemon,
    agents.Agents,
    agents.Registry,
    agents.Models,
    sessions.Sessions,
    runs.Runs,
    runs.Approvals,
    runs.Questions,
    others.Artifacts,
    others.Tools,
    others.Environments,
    others.Stats,
    others.Tasks,
)


def _mirror_of(original: type[Any]) -> type[Mirror]:
    made = type(original.__name__, (Mirror,), {"__slots__": (), "__doc__": original.__doc__})
    made.__module__ = __name__
    return made


MIRRORS: dict[type[Any], type[Mirror]] = {
    api.AgentCtl: AgentCtl,
    **{original: _mirror_of(original) for original in ORIGINALS},
}
globals().update({mirror.__name__: mirror for mirror in MIRRORS.values()})
