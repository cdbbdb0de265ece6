"""Owns the Registry service."""

import os

import orjson

from agentctl import v1
from agentctl.core.errors import Conflict, Invalid, Unsupported
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.ports import CatalogApi, Discover
from agentctl.rpc.records import entry_message, found_message, problem_message
from agentctl.rpc.requests import need, page_of


class RegistryService:
    """The agents that agents.json knows."""

    def __init__(self, catalog: CatalogApi, discover: Discover | None, calls: Calls) -> None:
        self._catalog = catalog
        self._discover = discover
        self._calls = calls

    async def list(
        self, request: v1.ListEntriesRequest, context: Context
    ) -> v1.ListEntriesResponse:
        wanted = [
            entry for entry in self._catalog.entries() if entry.enabled or not request.enabled_only
        ]
        page, token = page_of(wanted, lambda each: each.id, request.page_size, request.page_token)
        return v1.ListEntriesResponse(
            entries=[entry_message(entry) for entry in page], next_page_token=token
        )

    async def get(self, request: v1.GetEntryRequest, context: Context) -> v1.Entry:
        return entry_message(self._catalog.get(need(request.entry_id, "entry_id")))

    async def put(self, request: v1.PutEntryRequest, context: Context) -> v1.Entry:
        if request.create_only:
            entry_id = _id_of(request.entry_json)
            if self._catalog.find(entry_id) is not None:
                raise Conflict(
                    f"there is an entry {entry_id!r} already: change it without create_only, or "
                    "choose another id.",
                    metadata={"entry": entry_id},
                )
        entry = await self._calls.change(self._catalog.put(bytes(request.entry_json)))
        return entry_message(entry)

    async def delete(
        self, request: v1.DeleteEntryRequest, context: Context
    ) -> v1.DeleteEntryResponse:
        entry_id = need(request.entry_id, "entry_id")
        await self._calls.change(self._catalog.delete(entry_id))
        left = self._catalog.find(entry_id)
        return v1.DeleteEntryResponse(entry=None if left is None else entry_message(left))

    async def enable(self, request: v1.EnableEntryRequest, context: Context) -> v1.Entry:
        entry_id = need(request.entry_id, "entry_id")
        return entry_message(
            await self._calls.change(self._catalog.enable(entry_id, request.enabled))
        )

    async def validate(self, request: v1.ValidateRequest, context: Context) -> v1.ValidateResponse:
        if request.HasField("document_json"):
            problems = self._catalog.validate(_document(request.document_json))
        else:
            await self._catalog.refresh()
            problems = self._catalog.problems
        return v1.ValidateResponse(
            valid=not problems, problems=[problem_message(each) for each in problems]
        )

    async def discover(self, request: v1.DiscoverRequest, context: Context) -> v1.DiscoverResponse:
        if self._discover is None:
            raise Unsupported("this daemon was started without discovery.")
        asked = request.entry_ids
        entries = [self._catalog.get(each) for each in asked] or self._catalog.entries()
        required = {entry.id: entry.required_env for entry in entries}
        return v1.DiscoverResponse(
            agents=[
                found_message(
                    found, [name for name in required[found.entry_id] if name not in os.environ]
                )
                for found in await self._discover(entries)
            ]
        )

    async def watch(self, request: v1.WatchRegistryRequest, context: Context) -> None:
        await self._calls.stream(self._watch(context))

    async def _watch(self, context: Context) -> None:
        with self._catalog.subscribe() as changes:
            await context.write(self._snapshot())
            async for _ in changes:
                await context.write(self._snapshot())

    def _snapshot(self) -> v1.RegistrySnapshot:
        return v1.RegistrySnapshot(
            entries=[entry_message(entry) for entry in self._catalog.entries()],
            problems=[problem_message(each) for each in self._catalog.problems],
        )


def _id_of(entry_json: bytes) -> str:
    try:
        return str(orjson.loads(entry_json)["id"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Invalid(
            "the entry is no JSON object with an id.",
            reason="REGISTRY_INVALID",
            metadata={"field": "entry_json"},
        ) from None


def _document(data: bytes) -> str:
    """A whole file as it is; one entry in the smallest file that holds it, on the same lines."""
    text = data.decode("utf-8", "replace")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return text
    if isinstance(value, dict) and "id" in value and "agents" not in value:
        return f'{{"agents":[{text}]}}'
    return text
