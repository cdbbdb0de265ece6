"""Owns the calls about what a server keeps of its sessions: messages, revert, MCP servers, the list.

Knows routes; what an answer means as content is `history`'s. What a server lacks is UNSUPPORTED.
"""

from collections.abc import Sequence

from agentctl.core.adapter import HistoryPage, NativeSession
from agentctl.core.errors import Invalid, NotFound
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import McpServerState
from agentctl_adapters.opencode import history
from agentctl_adapters.opencode.host import Host
from agentctl_adapters.opencode.offers import mcp_states
from agentctl_adapters.opencode.shapes import as_objects, as_text, time_of

MOST_MESSAGES = 1000
# A list is read by people and programs alike; older conversations are asked for by directory.
MOST_SESSIONS = 1000
_CURSOR = "x-next-cursor"


class HistoryCalls:
    """A part of the connection; `_host` is set by it."""

    _host: Host

    async def messages(
        self, native: NativeSessionId, *, limit: int = 100, before: str = ""
    ) -> HistoryPage:
        """Newest page first; inside a page in the order in which it was said."""
        query = {"limit": str(max(1, min(limit, MOST_MESSAGES)))}
        if before:
            query["before"] = before
        path = f"/session/{native}/message"
        answer = await self._host.api.call("GET", path, query=query, quiet=True)
        if not answer.ok:
            raise self._refused(self._host.api.refusal(answer, "tell its messages"), native)
        payloads = tuple(history.payloads(native, answer.body))
        return HistoryPage(payloads, answer.headers.get(_CURSOR, ""))

    async def revert(self, native: NativeSessionId, message_id: str) -> None:
        """Back to before that message; files are restored where the workspace is a git work tree."""
        own = message_id.partition("/")[0]
        if not own:
            raise Invalid("name the message to go back to: its message_id in the events")
        body = {"messageID": own}
        await self._change(native, "revert", body)

    async def unrevert(self, native: NativeSessionId) -> None:
        await self._change(native, "unrevert", None)

    async def mcp_status(self, native: NativeSessionId) -> Sequence[McpServerState]:
        """The servers of the session's directory."""
        directory = self._host.roster.directory_of(native)
        body = await self._host.api.need("tell its MCP servers", "GET", "/mcp", directory=directory)
        return mcp_states(body)

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        """Of one directory, or of all; the newest first, subagents' left out."""
        query = {"limit": str(MOST_SESSIONS)}
        api = self._host.api
        if cwd is None:
            answer = await api.call("GET", "/experimental/session", query=query, quiet=True)
            if answer.ok and as_objects(answer.body):
                return _rows(answer.body, None)
        how = {"directory": cwd} if cwd else {}
        answer = await api.call("GET", "/session", query={**query, **how}, quiet=True)
        if not answer.ok:
            raise api.refusal(answer, "list its sessions")
        return _rows(answer.body, cwd)

    async def _change(self, native: NativeSessionId, what: str, body: object) -> None:
        session = self._host.session(native)
        answer = await self._host.api.call(
            "POST", f"/session/{native}/{what}", directory=session.directory, body=body
        )
        if not answer.ok:
            raise self._refused(self._host.api.refusal(answer, what), native)

    def _refused(self, error: Exception, native: NativeSessionId) -> Exception:
        if isinstance(error, NotFound):
            error.metadata["native_session_id"] = native
        return error


def _rows(body: object, cwd: str | None) -> list[NativeSession]:
    found = [
        NativeSession(
            NativeSessionId(own),
            cwd=as_text(row.get("directory")),
            title=as_text(row.get("title")),
            updated_at=time_of(row, "updated") or time_of(row, "created"),
        )
        for row in as_objects(body)
        if (own := as_text(row.get("id"))) and not as_text(row.get("parentID"))
    ]
    kept = [row for row in found if not cwd or not row.cwd or row.cwd == cwd]
    return sorted(kept, key=lambda row: row.updated_at or 0, reverse=True)
