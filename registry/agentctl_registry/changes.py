"""Tells subscribers which entries changed. A slow subscriber costs one row per entry, no more.

Owns the news of the registry, not its content.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

import anyio

from agentctl.core.spec import Entry


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    PROBLEM = "problem"
    """A file became bad, or good again; `id` is its path."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: ChangeKind
    id: str


def differences(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> list[Change]:
    """What must be told when entries `old` became `new`."""
    gone = [Change(ChangeKind.REMOVED, each) for each in old if each not in new]
    return gone + [
        Change(ChangeKind.CHANGED if each in old else ChangeKind.ADDED, each)
        for each, entry in new.items()
        if old.get(each) != entry
    ]


class Subscription:
    """An async iterator of changes; leaving it as a context manager ends it."""

    def __init__(self, news: "News") -> None:
        self._news = news
        self._pending: dict[str, ChangeKind] = {}
        self._wake = anyio.Event()

    def push(self, changes: Iterable[Change]) -> None:
        for change in changes:
            earlier = self._pending.pop(change.id, None)
            kind = change.kind
            if earlier is ChangeKind.ADDED and kind is ChangeKind.CHANGED:
                kind = ChangeKind.ADDED
            elif earlier is ChangeKind.REMOVED and kind is ChangeKind.ADDED:
                kind = ChangeKind.CHANGED
            self._pending[change.id] = kind
        if self._pending:
            self._wake.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._pending:
            self._wake = anyio.Event()
            await self._wake.wait()
        entry_id = next(iter(self._pending))
        return Change(self._pending.pop(entry_id), entry_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._news.drop(self)


class News:
    """Who listens. Used from one event loop only."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def subscribe(self) -> Subscription:
        subscription = Subscription(self)
        self._subscriptions.append(subscription)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def publish(self, changes: Iterable[Change]) -> None:
        told = list(changes)
        for subscription in self._subscriptions:
            subscription.push(told)
