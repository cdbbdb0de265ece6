"""Owns what a session/load needs beyond the call: a wait before it, and the end of the replay after it.

Knows no session's content: what is replayed is dropped elsewhere, this tells when it is over.
"""

from collections.abc import Callable

import anyio

from agentctl.core.spec import Entry
from agentctl.transport.jsonrpc import RpcError
from agentctl_adapters.acp import requests
from agentctl_adapters.acp.link import Link
from agentctl_adapters.acp.outbound import Calls, now_ms

# A method that no agent has: each refuses it at once, behind what it was about to say.
SETTLED = "_agentctl/settled"
# Agents refuse within milliseconds; one that answers nothing unknown costs this once a load.
SETTLE_TIMEOUT_S = 3.0


class Loading:
    """The loads of one connection. `heard` counts the updates of all sessions."""

    def __init__(
        self, entry: Entry, calls: Calls, link: Link, progress: Callable[[str], None]
    ) -> None:
        self.heard = 0
        self._entry = entry
        self._calls = calls
        self._link = link
        self._progress = progress
        self._opened_at: dict[str, int] = {}

    def opened(self, native: str) -> None:
        self._opened_at[native] = now_ms()

    async def wait(self, native: str, made_at: int | None) -> None:
        """Gemini names a session's file by the minute: to load it within that one destroys it.

        Args:
            made_at: when the session was made, Unix ms, if that is known.
        """
        least_s = self._entry.protocol_config.get("min_resume_age_s")
        known = self._opened_at.get(native, made_at)
        if not isinstance(least_s, int | float) or known is None:
            return
        wait_s = requests.resume_wait_s(now_ms(), known, least_s)
        if wait_s > 0:
            self._progress(
                f"waiting {wait_s:.0f} s: {self._entry.id} cannot load a session within the minute"
                " in which it was last opened"
            )
            await anyio.sleep(wait_s)

    async def replayed(self) -> None:
        """Returns when the history has come: Gemini tells most of it after its answer, and no end.

        A refusal takes its turn behind the next update, so that one without an update before it
        is behind them all.

        Raises:
            AgentFailed: it died.
        """
        with anyio.move_on_after(SETTLE_TIMEOUT_S), self._calls.alive("while it told its history"):
            before = -1
            while before != self.heard:
                before = self.heard
                try:
                    await self._link.peer.request(SETTLED, {})
                except RpcError:
                    continue
