"""Owns the calls of the Sessions service in Python's terms; refuses to know the wire's names of enums.

Every method raises AgentctlError. A word such as a policy may be given as the StrEnum or as text.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from agentctl import v1
from agentctl.client.channel import Connection
from agentctl.client.runs import run_input
from agentctl.rpc.enums import number


class Sessions:
    """Conversations with agents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        agent: str,
        workspace: str,
        *,
        additional_directories: Sequence[str] = (),
        key: str | None = None,
        name: str | None = None,
        project: str | None = None,
        labels: Mapping[str, str] | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str = "",
        rules: Sequence[v1.Rule] = (),
        mcp_servers: Sequence[v1.McpServer] = (),
        env: Mapping[str, str] | None = None,
        trust_workspace: bool | None = None,
        environment: str | None = None,
        url: str | None = None,
        auth: Mapping[str, str] | None = None,
        close_when_done: bool = False,
        idempotency_key: str = "",
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
        environment_options: Mapping[str, str] | None = None,
    ) -> v1.Session:
        """Makes a session; answers in `starting`, with `wait_ready` once the agent is ready."""
        request = v1.CreateSessionRequest(
            agent=agent,
            workspace=workspace,
            additional_directories=additional_directories,
            key=key,
            name=name,
            project=project,
            labels=labels,
            model=model,
            mode=mode,
            options=options,
            policy=number(v1.Policy, policy, field="policy"),
            rules=rules,
            mcp_servers=mcp_servers,
            env=env,
            trust_workspace=trust_workspace,
            environment=environment,
            url=url,
            auth=auth,
            close_when_done=close_when_done,
            idempotency_key=idempotency_key,
            wait_ready=wait_ready,
            wait_timeout_ms=wait_timeout_ms,
            environment_options=environment_options,
        )
        return await self._connection.unary("Sessions/Create", request, v1.Session)

    async def resume(
        self,
        session_id: str = "",
        *,
        entry_id: str | None = None,
        native_session_id: str | None = None,
        create: v1.CreateSessionRequest | None = None,
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
    ) -> v1.Session:
        """Takes up a session of ours, or (entry_id, native_session_id) one of the agent's own."""
        request = v1.ResumeSessionRequest(
            session_id=session_id,
            entry_id=entry_id,
            native_session_id=native_session_id,
            create=create,
            wait_ready=wait_ready,
            wait_timeout_ms=wait_timeout_ms,
        )
        return await self._connection.unary("Sessions/Resume", request, v1.Session)

    async def fork(
        self,
        session_id: str,
        *,
        name: str | None = None,
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
    ) -> v1.Session:
        request = v1.ForkSessionRequest(
            session_id=session_id,
            name=name,
            wait_ready=wait_ready,
            wait_timeout_ms=wait_timeout_ms,
        )
        return await self._connection.unary("Sessions/Fork", request, v1.Session)

    async def resolve(
        self,
        *,
        key: str | None = None,
        native_session_id: str | None = None,
        name: str | None = None,
        project: str | None = None,
        workspace: str = "",
    ) -> v1.Session:
        request = v1.ResolveSessionRequest(
            key=key,
            native_session_id=native_session_id,
            name=name,
            project=project,
            workspace=workspace,
        )
        return await self._connection.unary("Sessions/Resolve", request, v1.Session)

    async def get(self, session_id: str) -> v1.Session:
        request = v1.GetSessionRequest(session_id=session_id)
        return await self._connection.unary("Sessions/Get", request, v1.Session)

    async def list(
        self,
        *,
        states: Sequence[str] = (),
        entry_id: str = "",
        project: str = "",
        key: str = "",
        labels: Mapping[str, str] | None = None,
        open_only: bool = False,
        phases: Sequence[str] = (),
        workspace: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListSessionsResponse:
        request = v1.ListSessionsRequest(
            states=[number(v1.SessionState, word, field="states") for word in states],
            entry_id=entry_id,
            project=project,
            key=key,
            labels=labels,
            open_only=open_only,
            phases=[number(v1.SessionPhase, word, field="phases") for word in phases],
            workspace=workspace,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Sessions/List", request, v1.ListSessionsResponse)

    async def list_native(
        self, agent: str, *, workspace: str | None = None, page_size: int = 0, page_token: str = ""
    ) -> v1.ListNativeResponse:
        request = v1.ListNativeRequest(
            agent=agent, workspace=workspace, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Sessions/ListNative", request, v1.ListNativeResponse)

    async def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        name: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> v1.Session:
        """Changes what is not None; `labels` replaces all of them."""
        request = v1.UpdateSessionRequest(
            session_id=session_id,
            title=title,
            name=name,
            model=model,
            mode=mode,
            options=options,
            policy=None if policy is None else number(v1.Policy, policy, field="policy"),
            labels=None if labels is None else v1.Labels(items=labels),
        )
        return await self._connection.unary("Sessions/Update", request, v1.Session)

    async def send(
        self,
        session_id: str,
        input: str | Sequence[v1.ContentBlock] | v1.RunInput,  # noqa: A002  the API's own word
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        idempotency_key: str = "",
    ) -> v1.CreateRunResponse:
        """Prompts it; the same as Runs.Create, which takes more."""
        request = v1.CreateRunRequest(
            session_id=session_id,
            input=run_input(input),
            if_busy=number(v1.IfBusy, if_busy, field="if_busy"),
            timeout_ms=timeout_ms,
            idempotency_key=idempotency_key,
        )
        return await self._connection.unary("Runs/Create", request, v1.CreateRunResponse)

    async def abort(
        self, session_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> v1.CancelRunResponse:
        """Cancels what runs in it; `run` is absent when nothing did."""
        request = v1.CancelRunRequest(session_id=session_id, drop_queue=drop_queue, force=force)
        return await self._connection.unary("Runs/Cancel", request, v1.CancelRunResponse)

    async def compact(self, session_id: str) -> v1.CompactSessionResponse:
        request = v1.CompactSessionRequest(session_id=session_id)
        return await self._connection.unary("Sessions/Compact", request, v1.CompactSessionResponse)

    async def revert(self, session_id: str, message_id: str) -> v1.Session:
        request = v1.RevertSessionRequest(session_id=session_id, message_id=message_id)
        return await self._connection.unary("Sessions/Revert", request, v1.Session)

    async def unrevert(self, session_id: str) -> v1.Session:
        request = v1.UnrevertSessionRequest(session_id=session_id)
        return await self._connection.unary("Sessions/Unrevert", request, v1.Session)

    async def mcp_status(self, session_id: str) -> v1.McpStatusResponse:
        request = v1.McpStatusRequest(session_id=session_id)
        return await self._connection.unary("Sessions/McpStatus", request, v1.McpStatusResponse)

    async def messages(
        self,
        session_id: str,
        *,
        role: str | None = None,
        since: int | None = None,
        from_journal: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.MessagesResponse:
        """The newest messages in their order; pages go back. `since` is Unix ms."""
        request = v1.MessagesRequest(
            session_id=session_id,
            role=None if role is None else number(v1.Role, role, field="role"),
            since=since,
            from_journal=from_journal,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Sessions/Messages", request, v1.MessagesResponse)

    def export(
        self,
        session_id: str,
        *,
        format: str = "",  # noqa: A002  the API's own word
        include_messages: bool | None = None,
        include_files: bool | None = None,
        include_stats: bool | None = None,
    ) -> AsyncIterator[v1.ExportChunk]:
        """The session as it is at this moment: JSON lines (default) or Markdown."""
        request = v1.ExportSessionRequest(
            session_id=session_id,
            format=number(v1.ExportFormat, format, field="format"),
            include_messages=include_messages,
            include_files=include_files,
            include_stats=include_stats,
        )
        return self._connection.stream("Sessions/Export", request, v1.ExportChunk)

    async def close(
        self,
        session_id: str,
        *,
        reason: str | None = None,
        force: bool = False,
        save_state: bool | None = None,
    ) -> v1.Session:
        """With `save_state` False it can not be taken up again."""
        request = v1.CloseSessionRequest(
            session_id=session_id, reason=reason, force=force, save_state=save_state
        )
        return await self._connection.unary("Sessions/Close", request, v1.Session)

    async def delete(self, session_id: str, *, native: bool = False) -> v1.DeleteSessionResponse:
        request = v1.DeleteSessionRequest(session_id=session_id, native=native)
        return await self._connection.unary("Sessions/Delete", request, v1.DeleteSessionResponse)
