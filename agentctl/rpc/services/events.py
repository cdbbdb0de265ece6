"""Owns Events.Subscribe: the hub's bytes go out as they are, with the batch's own fields behind."""

import logging
from contextlib import aclosing

import grpc.aio

from agentctl import v1
from agentctl.core.words import EventType
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.convert import encode_tail
from agentctl.rpc.enums import word
from agentctl.rpc.ports import HubApi
from agentctl.session.hub import Batch, Query

logger = logging.getLogger(__name__)


class EventsService:
    """Reads the journal."""

    def __init__(self, hub: HubApi, calls: Calls) -> None:
        self._hub = hub
        self._calls = calls

    async def subscribe(self, request: v1.SubscribeRequest, context: Context) -> None:
        """Writes batches until the stream ends; writing waits for the caller, nobody else does."""
        await self._calls.stream(self._pump(query_of(request), context))

    async def _pump(self, query: Query, context: Context) -> None:
        async with aclosing(self._hub.subscribe(query)) as batches:
            async for batch in batches:
                try:
                    await context.write(batch_bytes(batch))
                except grpc.aio.InternalError as error:
                    # What grpc says of a caller who left in the middle of a batch: no fault of ours.
                    logger.debug("a subscriber left: %s", error)
                    return


def query_of(request: v1.SubscribeRequest) -> Query:
    types = (word(v1.EventType, each, field="types") for each in request.types)
    return Query(
        after=request.after,
        sessions=frozenset(request.sessions),
        runs=frozenset(request.runs),
        agents=frozenset(request.agents),
        types=frozenset(EventType(each) for each in types if each),
        follow=request.follow,
        include_raw=request.include_raw,
        include_log=request.include_log,
    )


def batch_bytes(batch: Batch) -> bytes:
    """The EventBatch of a batch of the hub."""
    gap = batch.gap
    told = None
    if gap is not None:
        told = v1.Gap(
            requested=gap.requested, first_available=gap.first_available, reason=gap.reason
        )
    return batch.data + encode_tail(batch.cursor, batch.caught_up, told)
