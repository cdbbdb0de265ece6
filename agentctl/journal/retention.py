"""Owns what is deleted from the journal and in which steps; knows neither timer nor thread.

Each function is the work of one short transaction on the write connection.
"""

import sqlite3
from dataclasses import dataclass

from agentctl.journal.names import Names

STEP_BYTES = 2 * 1024 * 1024
"""What one transaction deletes: some milliseconds in which appends wait."""

CLOCK_STEP_MS = 60_000
"""Retention by age is exact to this; a row a minute is what it costs."""

STEP_ROWS = 256
VACUUM_PAGES = 256

_OPEN_RUNS = (
    "SELECT name.no FROM doc JOIN name ON name.id = doc.id WHERE doc.kind = 'run' AND doc.open = 1"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is kept: events older than `age_s` seconds go, and the oldest ones for as long as
    the database holds more than `size` bytes. None is without limit."""

    age_s: float | None = None
    size: int | None = None


KEEP_ALL = Retention()


def expire(conn: sqlite3.Connection, rule: Retention, now_ms: int) -> bool:
    """Deletes one step of what the rule lets go, never of an open run; whether there was any."""
    upto = 0 if rule.age_s is None else _older(conn, now_ms - int(rule.age_s * 1000))
    if rule.size is not None and used_bytes(conn) > rule.size:
        upto = conn.execute("SELECT head FROM meta").fetchone()[0]
    if not upto:
        return False
    rows = conn.execute(
        "SELECT first_seq, last_seq, length(data) FROM block WHERE first_seq <= ? AND last_seq <= ?"
        f" AND run_no NOT IN ({_OPEN_RUNS}) ORDER BY first_seq LIMIT {STEP_ROWS}",
        (upto, upto),
    ).fetchall()
    last = _delete(conn, rows)
    if last:
        conn.execute("UPDATE meta SET floor = max(floor, ?)", (last,))
        conn.execute(
            "DELETE FROM clock WHERE seq < (SELECT min(first_seq) FROM block)"
            " AND seq < (SELECT max(seq) FROM clock)"
        )
    return bool(last)


def _older(conn: sqlite3.Connection, ts: int) -> int:
    """The last seq of which it is certain that it was written before `ts`.

    An event is at most a step younger than the clock's row before it: else it had got its own.
    """
    row = conn.execute("SELECT min(seq) - 1 FROM clock WHERE ts > ?", (ts - CLOCK_STEP_MS,))
    seq = row.fetchone()[0]
    return conn.execute("SELECT head FROM meta").fetchone()[0] if seq is None else seq


def _delete(conn: sqlite3.Connection, rows: list[tuple[int, int, int]]) -> int:
    size = last = 0
    for first, last, length in rows:  # noqa: B007  # the last one deleted is the answer
        conn.execute("DELETE FROM block WHERE first_seq = ?", (first,))
        size += length
        if size >= STEP_BYTES:
            break
    return last


def used_bytes(conn: sqlite3.Connection) -> int:
    """The bytes that the database's pages in use have."""
    pages, free, size = (
        conn.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def vacuum(conn: sqlite3.Connection) -> bool:
    """Gives one step of free pages back to the disk; whether more are worth it."""
    conn.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
    return conn.execute("PRAGMA freelist_count").fetchone()[0] > VACUUM_PAGES


def forget(conn: sqlite3.Connection, names: Names, session_id: str) -> bool:
    """Deletes one step of all that a session left here; whether there is more."""
    row = conn.execute("SELECT no FROM name WHERE id = ?", (session_id,)).fetchone()
    if row is not None:
        rows = conn.execute(
            "SELECT first_seq, last_seq, length(data) FROM block WHERE session_no = ?"
            f" ORDER BY first_seq LIMIT {STEP_ROWS}",
            row,
        ).fetchall()
        if _delete(conn, rows):
            return True
        conn.execute("DELETE FROM serving WHERE session_no = ?", row)
        gone = conn.execute(
            "DELETE FROM name WHERE no = ? OR (session_no = ? AND session_no > 0) RETURNING id",
            row * 2,
        ).fetchall()
        names.forget(item[0] for item in gone)
    conn.execute("DELETE FROM brief WHERE kind = 'session' AND id = ?", (session_id,))
    conn.execute(
        "DELETE FROM doc WHERE session_id = ? OR (kind = 'session' AND id = ?)", (session_id,) * 2
    )
    return False
