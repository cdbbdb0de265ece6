"""Owns the Runs service."""

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.enums import numbers
from agentctl.rpc.pages import fitted
from agentctl.rpc.records import run_message
from agentctl.rpc.requests import create_run, need, page_size, run_states, timeout
from agentctl.rpc.waiting import wait_ms
from agentctl.session.api import RunsApi
from agentctl.session.records import RunRecord

# A list shows how a prompt begins; Get has more of it.
LISTED_PROMPT_BYTES = 4 * 1024


class RunsService:
    """Prompts and the turns that answer them."""

    def __init__(self, manager: RunsApi, calls: Calls) -> None:
        self._manager = manager
        self._calls = calls

    def _message(self, record: RunRecord) -> v1.Run:
        return run_message(record, self._manager.queue_position(record))

    async def create(self, request: v1.CreateRunRequest, context: Context) -> v1.CreateRunResponse:
        made = await self._calls.change(self._manager.create_run(create_run(request)))
        return v1.CreateRunResponse(
            run=run_message(made.run, made.position), position=made.position, steered=made.steered
        )

    async def get(self, request: v1.GetRunRequest, context: Context) -> v1.Run:
        return self._message(await self._manager.get_run(need(request.run_id, "run_id")))

    async def list(self, request: v1.ListRunsRequest, context: Context) -> v1.ListRunsResponse:
        records, token = await self._manager.list_runs(
            session_id=request.session_id,
            states=run_states(request.states),
            after=request.page_token,
            limit=page_size(request.page_size),
        )
        shown = (
            run_message(each, self._manager.queue_position(each), prompt_bytes=LISTED_PROMPT_BYTES)
            for each in records
        )
        runs, token = fitted(shown, token, lambda run: run.run_id)
        return v1.ListRunsResponse(runs=runs, next_page_token=token)

    async def wait(self, request: v1.WaitRunRequest, context: Context) -> v1.WaitRunResponse:
        """Answers `accepted` when its time, or the deadline less 200 ms, comes before the end."""
        run_id = need(request.run_id, "run_id")
        asked = wait_ms(timeout(request, "timeout_ms"), context)
        record, ended = await self._manager.wait_run(run_id, asked)
        word = str(record.state) if ended else "accepted"
        status = numbers(v1.WaitStatus.DESCRIPTOR)[word]
        return v1.WaitRunResponse(
            status=status,  # pyright: ignore[reportArgumentType]  a number of this very enum
            run=self._message(record),
        )

    async def cancel(self, request: v1.CancelRunRequest, context: Context) -> v1.CancelRunResponse:
        if bool(request.run_id) == bool(request.session_id):
            raise Invalid(
                "give exactly one of run_id and session_id.", metadata={"field": "run_id"}
            )
        drop, force = request.drop_queue, request.force
        if request.run_id:
            call = self._manager.cancel_run(request.run_id, drop_queue=drop, force=force)
            return v1.CancelRunResponse(run=self._message(await self._calls.change(call)))
        found = await self._calls.change(
            self._manager.cancel_session(request.session_id, drop_queue=drop, force=force)
        )
        return v1.CancelRunResponse(run=None if found is None else self._message(found))
