"""Owns the documents beside the events: what a session, run, approval … last was.

Refuses to know what stands in a body: whoever put it reads it.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Doc:
    """A document; `body` None deletes it. `open`: it is still going on, see `Journal.docs`.

    `seq`, of one that was read: the last event of the list that it was written with or after.
    `brief`: what it is found by, see `Where`; "" takes it out of what is found, None leaves it.
    """

    kind: str
    id: str
    body: bytes | None
    session_id: str | None = None
    open: bool = False
    seq: int = field(default=0, compare=False)
    brief: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on briefs: their member `name`, or one of its items, is one of `values`."""

    name: str
    values: tuple[str, ...]


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
        if doc.brief:
            conn.execute(
                "INSERT INTO brief VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
                (doc.kind, doc.id, doc.brief),
            )
        elif doc.brief is not None:
            conn.execute("DELETE FROM brief WHERE kind = ? AND id = ?", (doc.kind, doc.id))


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


def briefed(
    conn: sqlite3.Connection,
    kind: str,
    where: Sequence[Where],
    *,
    but: Collection[str],
    before_id: str,
    limit: int,
) -> list[Doc]:
    """The docs whose briefs fit, newest first: at most `limit`, with ids below `before_id`."""
    text, values = _fit(kind, where, but)
    if before_id:
        text += " AND brief.id < ?"
        values.append(before_id)
    rows = conn.execute(
        "SELECT doc.kind, doc.id, doc.body, session_id, open, seq FROM brief JOIN doc ON"
        f" doc.kind = brief.kind AND doc.id = brief.id WHERE {text} ORDER BY brief.id DESC LIMIT ?",
        (*values, limit),
    )
    return [Doc(*row[:4], open=bool(row[4]), seq=row[5]) for row in rows]


def count_briefed(
    conn: sqlite3.Connection, kind: str, where: Sequence[Where], but: Collection[str]
) -> int:
    text, values = _fit(kind, where, but)
    return conn.execute(f"SELECT count(*) FROM brief WHERE {text}", values).fetchone()[0]


def count_by(
    conn: sqlite3.Connection, kind: str, name: str, where: Sequence[Where], but: Collection[str]
) -> dict[str, int]:
    text, values = _fit(kind, where, but)
    rows = conn.execute(
        f"SELECT json_extract(brief.body, ?) AS value, count(*) FROM brief WHERE {text}"
        " GROUP BY value",
        (f"$.{name}", *values),
    )
    return {row[0]: row[1] for row in rows}


def _fit(kind: str, where: Sequence[Where], but: Collection[str]) -> tuple[str, list[str | int]]:
    texts, values = ["brief.kind = ?"], list[str | int]([kind])
    for one in where:
        marks = ",".join("?" * len(one.values))
        texts.append(f"EXISTS (SELECT 1 FROM json_each(brief.body, ?) WHERE value IN ({marks}))")
        values += (f"$.{one.name}", *one.values)
    if but:
        texts.append("brief.id NOT IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(but)))
    return " AND ".join(texts), values


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
