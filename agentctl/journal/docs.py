"""Owns the documents beside the events: what a session, run, approval … last was.

Refuses to know what stands in a body: whoever put it reads it.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doc:
    """A document; `body` None deletes it. `open`: it is still going on, see `Journal.docs`."""

    kind: str
    id: str
    body: bytes | None
    session_id: str | None = None
    open: bool = False


def put(conn: sqlite3.Connection, docs: Iterable[Doc]) -> None:
    """Writes within the caller's transaction; the last one of an id wins."""
    for doc in docs:
        if doc.body is None:
            conn.execute("DELETE FROM doc WHERE kind = ? AND id = ?", (doc.kind, doc.id))
        else:
            conn.execute(
                "INSERT INTO doc VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " session_id = excluded.session_id, open = excluded.open, body = excluded.body",
                (doc.kind, doc.id, doc.session_id, int(doc.open), doc.body),
            )


def find(
    conn: sqlite3.Connection,
    kind: str,
    *,
    session_id: str | None,
    is_open: bool | None,
    after_id: str,
    limit: int,
    newest_first: bool,
) -> list[Doc]:
    """Returns docs of a kind by id (ids sort by time), from beyond `after_id`."""
    clauses, values = ["kind = ?"], list[str | int]([kind])
    if session_id is not None:
        clauses.append("session_id = ?")
        values.append(session_id)
    if is_open is not None:
        clauses.append("open = ?")
        values.append(int(is_open))
    if after_id:
        clauses.append("id < ?" if newest_first else "id > ?")
        values.append(after_id)
    rows = conn.execute(
        f"SELECT kind, id, body, session_id, open FROM doc WHERE {' AND '.join(clauses)}"
        f" ORDER BY id {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*values, limit),
    )
    return [Doc(*row[:4], open=bool(row[4])) for row in rows]


def get(conn: sqlite3.Connection, kind: str, ident: str) -> Doc | None:
    row = conn.execute(
        "SELECT kind, id, body, session_id, open FROM doc WHERE kind = ? AND id = ?", (kind, ident)
    ).fetchone()
    return Doc(*row[:4], open=bool(row[4])) if row else None
