"""Owns the numbers that stand for ids in the tables; used by the writer thread only.

Its memory is a cache of the tables: after a rollback it is cleared and fills again.
"""

import sqlite3
from collections.abc import Iterable

CACHE_ENTRIES = 100_000
"""About 10 MB; beyond it the cache starts afresh, which costs one look-up per id."""


class Names:
    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._numbers: dict[str, int] = {}
        self._serving: dict[str, set[str]] = {}

    def number(self, ident: str | None, *, session_no: int = 0, seq: int = 0) -> int:
        """The number of an id, made when it is new; 0 for none."""
        if ident is None:
            return 0
        number = self._numbers.get(ident)
        if number is not None:
            return number
        row = self._conn.execute("SELECT no FROM name WHERE id = ?", (ident,)).fetchone()
        if row is None:
            row = self._conn.execute(
                "INSERT INTO name (id, session_no, first_seq) VALUES (?, ?, ?) RETURNING no",
                (ident, session_no, seq),
            ).fetchone()
        if len(self._numbers) >= CACHE_ENTRIES:
            self._numbers.clear()
        self._numbers[ident] = row[0]
        return row[0]

    def serve(
        self, agent_id: str, agent_no: int, session_id: str, session_no: int, seq: int
    ) -> None:
        """Notes, the first time, that from `seq` on this session sees what the agent says."""
        sessions = self._sessions(agent_id, agent_no)
        if session_id not in sessions:
            self._conn.execute(
                "INSERT OR IGNORE INTO serving VALUES (?, ?, ?)", (agent_no, session_no, seq)
            )
            sessions.add(session_id)

    def served_by(self, agent_id: str, agent_no: int) -> frozenset[str]:
        """The sessions that see what the agent says now."""
        return frozenset(self._sessions(agent_id, agent_no))

    def _sessions(self, agent_id: str, agent_no: int) -> set[str]:
        sessions = self._serving.get(agent_id)
        if sessions is None:
            rows = self._conn.execute(
                "SELECT id FROM serving JOIN name ON no = serving.session_no WHERE agent_no = ?",
                (agent_no,),
            )
            if len(self._serving) >= CACHE_ENTRIES:
                self._serving.clear()
            sessions = self._serving[agent_id] = {row[0] for row in rows}
        return sessions

    def forget(self, ids: Iterable[str]) -> None:
        """Drops what was deleted from the tables."""
        for ident in ids:
            self._numbers.pop(ident, None)
        self._serving.clear()

    def clear(self) -> None:
        self._numbers.clear()
        self._serving.clear()
