"""Owns the Sessions service; what it has no method for is not served."""

from contextlib import aclosing

from agentctl import v1
from agentctl.core.errors import Invalid, Unsupported
from agentctl.core.events import Event, Message
from agentctl.core.spec import SessionSpec
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.convert import to_message
from agentctl.rpc.enums import word
from agentctl.rpc.export import Options, export
from agentctl.rpc.messages import BAD_TOKEN, PLACE, journalled, shorten
from agentctl.rpc.pages import fitted
from agentctl.rpc.ports import HubApi
from agentctl.rpc.records import native_message, part, session_message
from agentctl.rpc.requests import (
    create_session,
    directory,
    need,
    optional,
    page_of,
    page_size,
    page_token,
    session_filter,
    session_spec,
    session_update,
    timeout,
)
from agentctl.rpc.waiting import wait_ms
from agentctl.session.api import ManagerApi
from agentctl.session.records import SessionFilter, SessionRecord


class SessionsService:
    """Conversations with agents."""

    def __init__(self, manager: ManagerApi, hub: HubApi, calls: Calls) -> None:
        self._manager = manager
        self._hub = hub
        self._calls = calls

    async def create(self, request: v1.CreateSessionRequest, context: Context) -> v1.Session:
        wait = timeout(request, "wait_timeout_ms")
        asked = create_session(request)
        record = await self._calls.change(self._manager.create_session(asked))
        return await self._ready(record, request.wait_ready, wait, context)

    async def resume(self, request: v1.ResumeSessionRequest, context: Context) -> v1.Session:
        wait = timeout(request, "wait_timeout_ms")
        entry_id, native = request.entry_id, request.native_session_id
        if bool(request.session_id) == bool(entry_id or native):
            raise Invalid(
                "give either session_id, or entry_id and native_session_id.",
                metadata={"field": "session_id"},
            )
        spec = None
        if request.session_id:
            given = request.create
            spec = SessionSpec("", "", env=dict(given.env), auth=dict(given.auth))
        else:
            need(native, "native_session_id")
            spec = session_spec(request.create, entry_id=need(entry_id, "entry_id"))
        call = self._manager.resume_session(
            request.session_id, entry_id=entry_id, native_session_id=native, spec=spec
        )
        record = await self._calls.change(call)
        return await self._ready(record, request.wait_ready, wait, context)

    async def fork(self, request: v1.ForkSessionRequest, context: Context) -> v1.Session:
        wait = timeout(request, "wait_timeout_ms")
        session_id = need(request.session_id, "session_id")
        call = self._manager.fork_session(session_id, name=request.name)
        record = await self._calls.change(call)
        return await self._ready(record, request.wait_ready, wait, context)

    async def _ready(
        self, record: SessionRecord, wanted: bool, wait: int | None, context: Context
    ) -> v1.Session:
        if wanted:
            record = await self._manager.wait_ready(record.id, wait_ms(wait, context))
        return session_message(record)

    async def resolve(self, request: v1.ResolveSessionRequest, context: Context) -> v1.Session:
        where = SessionFilter(
            key=request.key,
            native_session_id=request.native_session_id,
            name=request.name,
            project=request.project,
            workspace=directory(request.workspace),
        )
        if where == SessionFilter():
            raise Invalid(
                "give a key, a native_session_id, a workspace, or a name with its project.",
                metadata={"field": "key"},
            )
        return session_message(await self._manager.resolve_session(where))

    async def get(self, request: v1.GetSessionRequest, context: Context) -> v1.Session:
        record = await self._manager.get_session(need(request.session_id, "session_id"))
        return session_message(record)

    async def list(
        self, request: v1.ListSessionsRequest, context: Context
    ) -> v1.ListSessionsResponse:
        where, after = session_filter(request), page_token(request, "ses")
        records, token = await self._manager.list_sessions(
            where, after=after, limit=page_size(request.page_size)
        )
        total = await self._manager.count_sessions(where)
        sessions, token = await fitted(map(session_message, records), token, lambda s: s.session_id)
        return v1.ListSessionsResponse(sessions=sessions, next_page_token=token, total=total)

    async def list_native(
        self, request: v1.ListNativeRequest, context: Context
    ) -> v1.ListNativeResponse:
        agent = need(request.agent, "agent")
        call = self._manager.list_native(agent, optional(request, "workspace"))
        sessions = await self._calls.change(call)
        page, token = page_of(
            sessions, lambda each: each.native_session_id, request.page_size, request.page_token
        )
        return v1.ListNativeResponse(
            sessions=[native_message(each) for each in page], next_page_token=token
        )

    async def update(self, request: v1.UpdateSessionRequest, context: Context) -> v1.Session:
        session_id = need(request.session_id, "session_id")
        call = self._manager.update_session(session_id, session_update(request))
        return session_message(await self._calls.change(call))

    async def close(self, request: v1.CloseSessionRequest, context: Context) -> v1.Session:
        call = self._manager.close_session(
            need(request.session_id, "session_id"),
            reason=request.reason,
            force=request.force,
            save_state=not request.HasField("save_state") or request.save_state,
        )
        return session_message(await self._calls.change(call))

    async def delete(
        self, request: v1.DeleteSessionRequest, context: Context
    ) -> v1.DeleteSessionResponse:
        session_id = need(request.session_id, "session_id")
        await self._calls.change(self._manager.delete_session(session_id, native=request.native))
        return v1.DeleteSessionResponse()

    async def compact(
        self, request: v1.CompactSessionRequest, context: Context
    ) -> v1.CompactSessionResponse:
        call = self._manager.compact_session(need(request.session_id, "session_id"))
        created = await self._calls.change(call)
        return v1.CompactSessionResponse(run_id=created.run.id)

    async def messages(self, request: v1.MessagesRequest, context: Context) -> v1.MessagesResponse:
        wanted = word(v1.Role, request.role, field="role") if request.HasField("role") else ""
        token = request.page_token
        session_id = need(request.session_id, "session_id")
        size = page_size(request.page_size)
        if not token.startswith(PLACE) and not request.from_journal:
            try:
                record, page = await self._manager.messages(session_id, limit=size, before=token)
            except Unsupported:
                if token:
                    raise Invalid(BAD_TOKEN, metadata={"field": "page_token"}) from None
            else:
                events = [
                    to_message(
                        Event(each, session_id=record.id, session_key=record.key or None), ""
                    )
                    for each in page.payloads
                    if not wanted or (isinstance(each, Message) and each.role == wanted)
                ]
                return v1.MessagesResponse(
                    truncated=shorten(events), events=events, next_page_token=page.before
                )
        record = await self._manager.get_session(session_id)
        return await journalled(self._hub, record.id, request, size)

    async def export(self, request: v1.ExportSessionRequest, context: Context) -> None:
        record = await self._manager.get_session(need(request.session_id, "session_id"))
        word(v1.ExportFormat, request.format, field="format")
        options = Options(
            messages=not request.HasField("include_messages") or request.include_messages,
            files=request.include_files,
            stats=not request.HasField("include_stats") or request.include_stats,
        )
        await self._calls.stream(self._export(record, request.format, options, context))

    async def _export(
        self, record: SessionRecord, form: int, options: Options, context: Context
    ) -> None:
        async with aclosing(export(self._manager, self._hub, record, form, options)) as pieces:
            async for data in pieces:
                await context.write(v1.ExportChunk(data=data))

    async def revert(self, request: v1.RevertSessionRequest, context: Context) -> v1.Session:
        session_id = need(request.session_id, "session_id")
        call = self._manager.revert(session_id, need(request.message_id, "message_id"))
        return session_message(await self._calls.change(call))

    async def unrevert(self, request: v1.UnrevertSessionRequest, context: Context) -> v1.Session:
        call = self._manager.unrevert(need(request.session_id, "session_id"))
        return session_message(await self._calls.change(call))

    async def mcp_status(
        self, request: v1.McpStatusRequest, context: Context
    ) -> v1.McpStatusResponse:
        servers = await self._manager.mcp_status(need(request.session_id, "session_id"))
        return v1.McpStatusResponse(servers=[part(v1.McpServerState, each) for each in servers])
