"""Owns the documents beside the events: what a session, run, approval … last was.

Refuses to know what stands in a body: whoever put it reads it.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Doc:
    """A document; `body` None deletes it. `open`: it is still going on, see `Journal.docs`.

    `seq`, of one that was read: the last event of the list that it was written with or after.
    """

    kind: str
    id: str
    body: bytes | None
    session_id: str | None = None
    open: bool = False
    seq: int = field(default=0, compare=False)


def put(conn: sqlite3.Connection, docs: Iterable[Doc], seq: int) -> None:
    """Writes within the caller's transaction, as of `seq`; the last one of an id wins."""
    for doc in docs:
        if doc.body is None:
            conn.execute("DELETE FROM doc WHERE kind = ? AND id = ?", (doc.kind, doc.id))
        else:
            conn.execute(
                "INSERT INTO doc (kind, id, session_id, open, body, seq) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET session_id = excluded.session_id,"
                " open = excluded.open, body = excluded.body, seq = excluded.seq",
                (doc.kind, doc.id, doc.session_id, int(doc.open), doc.body, seq),
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
        f"SELECT kind, id, body, session_id, open, seq FROM doc WHERE {' AND '.join(clauses)}"
        f" ORDER BY id {'DESC' if newest_first else 'ASC'} LIMIT ?",
        (*values, limit),
    )
    return [Doc(*row[:4], open=bool(row[4]), seq=row[5]) for row in rows]


def lacking(conn: sqlite3.Connection, kind: str, other: str, limit: int) -> list[str]:
    """Ids of docs of a kind for which there is none of the other kind, oldest first."""
    rows = conn.execute(
        "SELECT id FROM doc AS one WHERE kind = ? AND NOT EXISTS (SELECT 1 FROM doc WHERE kind = ?"
        " AND id = one.id) ORDER BY id LIMIT ?",
        (kind, other, limit),
    )
    return [row[0] for row in rows]


def get(conn: sqlite3.Connection, kind: str, ident: str) -> Doc | None:
    row = conn.execute(
        "SELECT kind, id, body, session_id, open, seq FROM doc WHERE kind = ? AND id = ?",
        (kind, ident),
    ).fetchone()
    return Doc(*row[:4], open=bool(row[4]), seq=row[5]) if row else None
