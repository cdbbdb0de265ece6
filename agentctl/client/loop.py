"""Owns a thread with an event loop, on which the synchronous client does its work."""

import asyncio
import atexit
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

T = TypeVar("T")

# The loop ends once what it does is cancelled; a defect there must not keep a program from ending.
END_S = 5.0

CLOSED = "this client is closed: connect another one."


class LoopThread:
    """Runs from its making to `close`; the thread ends with the program in any case."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._ending = False
        self._thread = threading.Thread(target=self._serve, name="agentctl-client", daemon=True)
        self._thread.start()
        # A program that ends without closing its client leaves no thread behind in the middle of work.
        atexit.register(self.close)

    @property
    def open(self) -> bool:
        """Whether work can be done; not any more while the interpreter ends."""
        ending = self._ending or sys.is_finalizing() or self._loop.is_closed()
        return not ending and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits in this thread for what is done in that one; an interrupt here cancels it there.

        Raises:
            RuntimeError: the client is closed, or was while this waited; or this is its own thread,
                which would wait for itself.
        """
        # What is begun before the end is cancelled by it; nothing may be begun behind it.
        with self._lock:
            future = self._begin(work)
        try:
            return future.result()
        except CancelledError:
            if self.open:
                raise
            raise RuntimeError(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if threading.current_thread() is self._thread or not self.open:
            work.close()
            raise RuntimeError("called from the client's own thread." if self.open else CLOSED)
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Does what is `last`, then ends; who waits in another thread is told that it is closed."""
        atexit.unregister(self.close)
        with self._lock:
            if not self.open:
                return
            future = self._begin(last()) if last is not None else None
            self._ending = True
        try:
            if future is not None:
                future.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(END_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=END_S))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
