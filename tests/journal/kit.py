"""What the tests of journal and hub share: events, and frames made by hand."""

import json
import sqlite3
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentctl.core.events import AgentStatus, Complete, Event, Log, MessageChunk, Payload, Plan
from agentctl.core.words import AgentState, EventType, LogStream, Outcome
from agentctl.journal.blocks import NUMBERS, walk
from agentctl.journal.store import Journal, open_journal
from agentctl.session.hub import Batch, Hub, Query


def frame(body: bytes) -> bytes:
    size, prefix = len(body), bytearray(b"\x0a")
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + body


def encode(event: Event) -> bytes:
    told: dict[str, Any] = {"seq": event.seq, "session": event.session_id, "run": event.run_id}
    if isinstance(event.payload, MessageChunk):
        told["text"] = event.payload.text
    if event.raw is not None:
        told["raw"] = event.raw.decode()
    return frame(bytes([0x08, NUMBERS[event.type]]) + json.dumps(told).encode())


def decode(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start, end, number in walk(data):
        body = data[start:end]
        told = json.loads(body[body.index(b'{"seq') :])
        found.append({**told, "type": list(EventType)[number - 1]})
    return found


def strip_raw(data: bytes) -> bytes:
    told = decode(data)[0]
    number = NUMBERS[told.pop("type")]
    told.pop("raw", None)
    return frame(bytes([0x08, number]) + json.dumps(told).encode())


def event(
    payload: Payload,
    *,
    session: str | None = "ses_1",
    run: str | None = "run_1",
    agent: str | None = "agt_1",
    raw: bytes | None = None,
) -> Event:
    return Event(payload, session_id=session, run_id=run, agent_id=agent, raw=raw)


def chunk(text: str = "hello", session: str = "ses_1", run: str | None = "run_1") -> Event:
    return event(MessageChunk("m1", text=text), session=session, run=run, agent=f"agt_{session}")


def chunks(number: int, session: str = "ses_1", run: str | None = "run_1") -> list[Event]:
    return [chunk(f"t{index}", session, run) for index in range(number)]


def complete(session: str = "ses_1", run: str = "run_1") -> Event:
    return event(Complete(Outcome.COMPLETED), session=session, run=run, agent=f"agt_{session}")


def log(text: str = "noise", session: str = "ses_1") -> Event:
    return event(Log(LogStream.STDERR, text), session=session, agent=f"agt_{session}")


def plan(session: str = "ses_1", run: str | None = "run_1") -> Event:
    return event(Plan(document="p"), session=session, run=run, agent=f"agt_{session}")


def agent_status(agent: str, state: AgentState = AgentState.READY) -> Event:
    return event(AgentStatus(state), session=None, run=None, agent=agent)


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncGenerator[Journal]:
    async with open_journal(
        path / "journal.db", encode=options.pop("encode", encode), **options
    ) as journal:
        yield journal


def hub_of(journal: Journal, **options: Any) -> Hub:
    return Hub(journal, strip_raw=strip_raw, **options)


async def read(hub: Hub, **query: Any) -> list[dict[str, Any]]:
    """All that is there now."""
    return decode(joined(await batches(hub, **query)))


async def batches(hub: Hub, **query: Any) -> list[Batch]:
    return [batch async for batch in hub.subscribe(Query(follow=False, **query))]


def joined(found: Iterable[Batch]) -> bytes:
    return b"".join(batch.data for batch in found)


def seqs(found: Iterable[dict[str, Any]]) -> list[int]:
    return [told["seq"] for told in found]


def ask(path: Path, sql: str) -> Any:
    conn = sqlite3.connect(path / "journal.db")
    try:
        return conn.execute(sql).fetchone()[0]
    finally:
        conn.close()
