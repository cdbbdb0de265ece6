"""Owns reading a page of events with SQL; knows nothing of subscribers, threads or memory.

Each function is one short read transaction on a connection of its own caller.
"""

import heapq
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from agentctl.journal.blocks import PAGE_BYTES
from agentctl.journal.select import Selection

MERGED_SESSIONS = 64
"""More sessions than this are read by a scan: a merge holds one block of each in memory."""

Row = tuple[int, int, int, bytes]


@dataclass(slots=True)
class Page:
    """What lies between a position and `to`; `to` counts what was filtered out as well.

    `head` and `floor` (the highest seq that retention deleted) are of the same moment, `oldest`
    is the first seq kept after the position, filter aside. `done` gives, for runs of the selection,
    the seq of their `complete`.
    """

    to: int
    head: int
    floor: int = 0
    oldest: int | None = None
    data: list[bytes] = field(default_factory=list[bytes])
    count: int = 0
    done: dict[str, int] = field(default_factory=dict[str, int])


def read_page(conn: sqlite3.Connection, selection: Selection, after: int, upto: int | None) -> Page:
    """Reads at most PAGE_BYTES of what the selection wants, with `after` < seq <= `upto`."""
    conn.execute("BEGIN")
    try:
        head, floor = conn.execute("SELECT head, floor FROM meta").fetchone()
        end = head if upto is None else min(head, upto)
        page = Page(
            to=max(end, after), head=head, floor=floor, done=done_runs(conn, selection.runs)
        )
        row = conn.execute(
            "SELECT first_seq, last_seq FROM block WHERE first_seq <= ?"
            " ORDER BY first_seq DESC LIMIT 1",
            (after + 1,),
        ).fetchone()
        if row is not None and row[1] > after:
            start, page.oldest = row[0], after + 1
        else:
            start = after + 1
            page.oldest = conn.execute(
                "SELECT min(first_seq) FROM block WHERE first_seq > ?", (after,)
            ).fetchone()[0]
        _fill(page, _rows(conn, selection, start, end), selection, after)
        return page
    finally:
        conn.execute("COMMIT")


def done_runs(conn: sqlite3.Connection, runs: Collection[str]) -> dict[str, int]:
    """The seq of the `complete` of each of these runs that has one."""
    if not runs:
        return {}
    rows = conn.execute(
        f"SELECT id, done_seq FROM name WHERE id IN ({_marks(runs)}) AND done_seq IS NOT NULL",
        tuple(runs),
    )
    return dict(rows)


def newest(conn: sqlite3.Connection, sessions: Collection[str]) -> dict[str, int]:
    """The last seq of each of these sessions that has events of its own."""
    rows = conn.execute(
        "SELECT id, (SELECT last_seq FROM block WHERE session_no = name.no ORDER BY first_seq DESC"
        f" LIMIT 1) FROM name WHERE id IN ({_marks(sessions)})",
        tuple(sessions),
    )
    return {row[0]: row[1] for row in rows if row[1] is not None}


def _fill(page: Page, rows: Iterator[Row], selection: Selection, after: int) -> None:
    size, previous = 0, after
    for first, last, mask, data in rows:
        cut, count = selection.cut(data, first, last, mask, after)
        if page.data and size + len(cut) > PAGE_BYTES:
            page.to = previous
            return
        if count:
            page.data.append(cut)
            page.count += count
            size += len(cut)
        previous = last


def _rows(conn: sqlite3.Connection, selection: Selection, start: int, end: int) -> Iterator[Row]:
    """The blocks that may matter in order, through the index where a few sessions hold them."""
    base = _Clauses(start, end)
    base.add("mask & ?", (selection.want,))
    sessions: set[int] | None = None
    if selection.sessions:
        sessions = _numbers(conn, selection.sessions)
    if selection.runs:
        runs = _numbers(conn, selection.runs)
        base.among("run_no", runs)
        rows = conn.execute(
            f"SELECT DISTINCT session_no FROM name WHERE no IN ({_marks(runs)})", tuple(runs)
        )
        of_runs = {row[0] for row in rows}
        sessions = of_runs if sessions is None else sessions & of_runs
    if selection.agents:
        agents = _numbers(conn, selection.agents)
        base.among("agent_no", agents)
        if sessions is None:
            sessions = _served(conn, agents)
    if sessions is None:
        return base.select(conn)
    if len(sessions) > MERGED_SESSIONS:
        # The plus keeps SQLite from the index: it would sort all their blocks for every page.
        own = [base.among_sessions("+session_no", sessions)]
    else:
        own = [base.among_sessions("session_no", {number}) for number in sessions]
    if selection.sessions and not selection.runs:
        own.append(base.of_agents(sessions))
    return heapq.merge(*(one.select(conn) for one in own))


def _served(conn: sqlite3.Connection, agents: Collection[int]) -> set[int]:
    rows = conn.execute(
        f"SELECT DISTINCT session_no FROM serving WHERE agent_no IN ({_marks(agents)})",
        tuple(agents),
    )
    return {0, *(row[0] for row in rows)}


class _Clauses:
    """A WHERE in the making."""

    def __init__(self, start: int, end: int) -> None:
        self._texts = ["first_seq >= ?", "first_seq <= ?"]
        self._values: list[int] = [start, end]

    def add(self, text: str, values: Iterable[int]) -> None:
        self._texts.append(text)
        self._values += values

    def among(self, column: str, numbers: Collection[int]) -> None:
        self.add(f"{column} IN ({_marks(numbers)})", numbers)

    def among_sessions(self, column: str, numbers: Collection[int]) -> "_Clauses":
        other = _Clauses(0, 0)
        other._texts, other._values = list(self._texts), list(self._values)
        other.among(column, numbers)
        return other

    def of_agents(self, sessions: Collection[int]) -> "_Clauses":
        """An agent's own events, from when it first served one of the sessions."""
        other = self.among_sessions("session_no", {0})
        other.add(
            "EXISTS (SELECT 1 FROM serving WHERE serving.agent_no = block.agent_no AND from_seq <="
            f" block.first_seq AND serving.session_no IN ({_marks(sessions)}))",
            sessions,
        )
        return other

    def select(self, conn: sqlite3.Connection) -> Iterator[Row]:
        return conn.execute(
            f"SELECT first_seq, last_seq, mask, data FROM block WHERE {' AND '.join(self._texts)}"
            " ORDER BY first_seq",
            self._values,
        )


def _numbers(conn: sqlite3.Connection, ids: Collection[str]) -> set[int]:
    rows = conn.execute(f"SELECT no FROM name WHERE id IN ({_marks(ids)})", tuple(ids))
    return {row[0] for row in rows}


def _marks(values: Collection[object]) -> str:
    return ",".join("?" * len(values))
