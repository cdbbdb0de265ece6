"""Owns the Runs service."""

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.core.state import FINAL_RUN
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.enums import numbers
from agentctl.rpc.output import output_of
from agentctl.rpc.pages import fitted
from agentctl.rpc.ports import HubApi
from agentctl.rpc.records import artifact_message, run_message
from agentctl.rpc.requests import create_run, need, page_size, page_token, run_states, timeout
from agentctl.rpc.waiting import wait_ms
from agentctl.session.api import ManagerApi
from agentctl.session.records import RunRecord

# A list shows how a prompt begins; Get has more of it.
LISTED_PROMPT_BYTES = 4 * 1024


class RunsService:
    """Prompts and the turns that answer them."""

    def __init__(self, manager: ManagerApi, hub: HubApi, calls: Calls) -> None:
        self._manager = manager
        self._hub = hub
        self._calls = calls

    def _message(self, record: RunRecord) -> v1.Run:
        return run_message(record, self._manager.queue_position(record))

    async def create(self, request: v1.CreateRunRequest, context: Context) -> v1.CreateRunResponse:
        made = await self._calls.change(self._manager.create_run(create_run(request)))
        return v1.CreateRunResponse(
            run=run_message(made.run, made.position), position=made.position, steered=made.steered
        )

    async def get(self, request: v1.GetRunRequest, context: Context) -> v1.Run:
        return await self._whole(await self._manager.get_run(need(request.run_id, "run_id")))

    async def _whole(self, record: RunRecord) -> v1.Run:
        """With its artifacts, and its output once it has ended; one that was folded has its turn's."""
        message = self._message(record)
        if record.state in FINAL_RUN:
            output = await output_of(self._hub, record.folded_into or record.id)
            message.output.CopyFrom(output)
        made = await self._manager.run_artifacts(record.id)
        message.artifacts.extend(artifact_message(each, record.id) for each in made)
        return message

    async def list(self, request: v1.ListRunsRequest, context: Context) -> v1.ListRunsResponse:
        records, token = await self._manager.list_runs(
            session_id=request.session_id,
            states=run_states(request.states),
            after=page_token(request, "run"),
            limit=page_size(request.page_size),
        )
        shown = (
            run_message(each, self._manager.queue_position(each), prompt_bytes=LISTED_PROMPT_BYTES)
            for each in records
        )
        runs, token = await fitted(shown, token, lambda run: run.run_id)
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
            run=await self._whole(record) if ended else self._message(record),
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
