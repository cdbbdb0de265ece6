"""Owns a thread with an event loop, on which the synchronous client does its work."""

import asyncio
import atexit
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# The loop ends once what it does is cancelled; a defect there must not keep a program from ending.
END_S = 5.0


class LoopThread:
    """Runs from its making to `close`; the thread ends with the program in any case."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="agentctl-client", daemon=True)
        self._thread.start()
        # A program that ends without closing its client leaves no thread behind in the middle of work.
        atexit.register(self.close)

    @property
    def open(self) -> bool:
        """Whether work can be done; not any more while the interpreter ends."""
        ending = sys.is_finalizing() or self._loop.is_closed()
        return not ending and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits in this thread for what is done in that one; an interrupt here cancels it there.

        Raises:
            RuntimeError: the client is closed, or this is its own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread or not self.open:
            work.close()
            closed = (
                "this client is closed."
                if not self.open
                else "called from the client's own thread."
            )
            raise RuntimeError(closed)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        atexit.unregister(self.close)
        if self.open:
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
