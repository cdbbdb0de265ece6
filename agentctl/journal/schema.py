"""Owns the tables, their migrations and how a connection is opened; knows no event and no thread.

block    one row per block (see `blocks`); integers and bytes only
name     id <-> number of sessions, runs and agents; of a run also its session, its first seq
         and the seq of its `complete`
serving  an agent's own events are seen by each session it serves, from this seq on
clock    now and then a seq and the time it was written at, for retention by age
doc      sessions, runs, approvals … as their owners wrote them
brief    of some docs what lists filter by, as a small JSON object
meta     one row: the journal's id, the highest seq ever given, the highest seq that retention
         deleted, whether it was closed in order, and under which kernel boot it ran
"""

import shutil
import sqlite3
from pathlib import Path

from agentctl.core.errors import AgentctlError, DaemonFailed, Exhausted
from agentctl.journal.cursor import new_journal_id
from agentctl.journal.lock import not_writable
from agentctl.journal.reserve import Reserve

SEQ_SKIP = 1_000_000
"""More numbers than a group of commits that a power cut may take back can hold."""

# A TRUNCATE checkpoint holds the write lock for as long as one fsync of what is left takes; a disk
# that needs longer than this is broken, and the caller is told so.
BUSY_TIMEOUT_S = 10.0

# quick_check reads the whole file, about 500 MB/s: half a second of start-up is what it may cost.
QUICK_CHECK_BYTES = 256 * 1024 * 1024

_V1 = """
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    journal TEXT NOT NULL, head INTEGER NOT NULL, floor INTEGER NOT NULL,
    clean INTEGER NOT NULL, boot TEXT NOT NULL
);
CREATE TABLE block (
    first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, session_no INTEGER NOT NULL,
    run_no INTEGER NOT NULL, agent_no INTEGER NOT NULL, mask INTEGER NOT NULL, data BLOB NOT NULL
);
CREATE INDEX block_session ON block (session_no, first_seq);
CREATE TABLE name (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    session_no INTEGER NOT NULL, first_seq INTEGER NOT NULL, done_seq INTEGER
);
CREATE INDEX name_session ON name (session_no) WHERE session_no > 0;
CREATE TABLE serving (
    agent_no INTEGER NOT NULL, session_no INTEGER NOT NULL, from_seq INTEGER NOT NULL,
    PRIMARY KEY (agent_no, session_no)
) WITHOUT ROWID;
CREATE INDEX serving_session ON serving (session_no, agent_no);
CREATE TABLE clock (seq INTEGER PRIMARY KEY, ts INTEGER NOT NULL);
CREATE TABLE doc (
    kind TEXT NOT NULL, id TEXT NOT NULL, session_id TEXT, open INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (kind, id)
);
CREATE INDEX doc_open ON doc (kind, open, id);
CREATE INDEX doc_session ON doc (session_id, kind, id);
"""

_V2 = """
ALTER TABLE doc ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
"""

_V3 = """
CREATE TABLE brief (
    kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
INSERT INTO brief SELECT 'session', id, json_object(
    'state', 'closed', 'phase', 'completed', 'saved', 'yes',
    'entry', json_extract(body, '$.spec.entry_id'), 'project', json_extract(body, '$.project'),
    'key', json_extract(body, '$.key'), 'name', json_extract(body, '$.name'),
    'native', json_extract(body, '$.native_session_id'),
    'labels', (SELECT json_group_array(key || char(31) || value) FROM json_each(body, '$.labels')),
    'places', json_array(json_extract(body, '$.spec.workspace'))
) FROM (SELECT id, CAST(body AS TEXT) AS body FROM doc WHERE kind = 'session' AND open = 0);
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2, _V3)
"""Entry n takes a database from user_version n to n + 1; entries are never changed, only added."""


def prepare(path: Path, boot_id: str, reserve: Reserve) -> str:
    """Makes or migrates the database and notes in it that this boot has it open.

    Returns the journal's id.

    Raises:
        DaemonFailed: not writable, damaged, or of a newer version; the message says what to do.
        Exhausted: the disk is full, even with the reserve given up (DISK_FULL).
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(path.parent, error) from error
    try:
        try:
            return _prepared(path, boot_id)
        except sqlite3.Error as error:
            if not is_full(error, path):
                raise
            reserve.release()
            return _prepared(path, boot_id)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _prepared(path: Path, boot_id: str) -> str:
    conn = connect(path)
    try:
        _check(conn, path)
        _migrate(conn, path)
        _enter(conn, boot_id)
        return conn.execute("SELECT journal FROM meta").fetchone()[0]
    finally:
        conn.close()


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Opens a connection in autocommit mode, for use by one thread at a time."""
    mode = "ro" if readonly else "rwc"
    conn = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
    )
    if not readonly:
        # Takes effect in a new file only, and must come before its first table.
        conn.execute("PRAGMA auto_vacuum = INCREMENTAL")
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.execute("PRAGMA wal_autocheckpoint = 0")
    return conn


def _check(conn: sqlite3.Connection, path: Path) -> None:
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise DaemonFailed(
            f"The journal {path} was written by a newer agentctl (schema {version}, this one knows"
            f" {len(MIGRATIONS)}): run that version or choose another --data-dir."
        )
    if version and path.stat().st_size <= QUICK_CHECK_BYTES:
        answer = conn.execute("PRAGMA quick_check(1)").fetchone()[0]
        if answer != "ok":
            raise sqlite3.DatabaseError(answer)


def _migrate(conn: sqlite3.Connection, path: Path) -> None:
    version = conn.execute("PRAGMA user_version").fetchone()[0]
    for number in range(version, len(MIGRATIONS)):
        conn.executescript(
            f"BEGIN IMMEDIATE;\n{MIGRATIONS[number]}\nPRAGMA user_version = {number + 1};\nCOMMIT;"
        )
    if not version:
        path.chmod(0o600)


def _enter(conn: sqlite3.Connection, boot_id: str) -> None:
    # Synced, unlike other commits: were this note lost to a power cut, the skip would be as well.
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("BEGIN IMMEDIATE")
    row = conn.execute("SELECT clean, boot FROM meta").fetchone()
    if row is None:
        conn.execute("INSERT INTO meta VALUES (1, ?, 0, 0, 0, ?)", (new_journal_id(), boot_id))
    else:
        skip = SEQ_SKIP if not row[0] and row[1] != boot_id else 0
        conn.execute("UPDATE meta SET clean = 0, boot = ?, head = head + ?", (boot_id, skip))
    conn.execute("COMMIT")


def leave(conn: sqlite3.Connection) -> None:
    """Notes that all was closed in order, and moves the WAL into the database."""
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("UPDATE meta SET clean = 1")
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def read_boot_id() -> str:
    """The kernel's id of this boot; "" where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_full(error: sqlite3.Error, path: Path) -> bool:
    """Whether the disk is full: SQLite says so, or an I/O error comes when no room is left."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_IOERR:
        return free_bytes(path) < 1024 * 1024
    return code == sqlite3.SQLITE_FULL


def free_bytes(path: Path) -> int:
    """What the disk of this file has left."""
    try:
        return shutil.disk_usage(path.parent).free
    except OSError:
        return 0


def explained(error: sqlite3.Error, path: Path) -> AgentctlError:
    """Turns SQLite's error into one that says what to do about it."""
    if is_full(error, path):
        return disk_full(path)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    what = " ".join(str(error).split())
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return not_writable(path.parent, OSError(0, what))
    if code == sqlite3.SQLITE_BUSY:
        return DaemonFailed(
            f"The journal {path} is locked by another program: close what has it open, then try"
            " again."
        )
    if type(error) is not sqlite3.DatabaseError:
        return DaemonFailed(
            f"The journal {path} could not be used ({what}): see the daemon's log, and check the"
            " disk."
        )
    return DaemonFailed(
        f"The journal {path} is damaged ({what}): move the file and its -wal away and start"
        " again; a new journal begins, and old cursors will be told of a gap."
    )


def disk_full(path: Path) -> Exhausted:
    return Exhausted(
        f"The disk that holds {path.parent} is full: free some space, then try again.",
        reason="DISK_FULL",
    )
