"""Owns the form of a cursor, `<journal>:<seq>`; refuses to know whether it is still readable."""

import re
import secrets

from agentctl.core.errors import Invalid

_FORM = re.compile(r"([a-z0-9]{4,32}):(0|[1-9][0-9]{0,17})")


def new_journal_id() -> str:
    """A random name for a new database file."""
    return secrets.token_hex(6)


def format_cursor(journal: str, seq: int) -> str:
    return f"{journal}:{seq}"


def parse_cursor(text: str) -> tuple[str, int]:
    """Splits a cursor into journal and seq.

    Raises:
        Invalid: it is none (INVALID_CURSOR).
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise invalid_cursor(text, "it is malformed")
    return found[1], int(found[2])


def invalid_cursor(text: str, why: str) -> Invalid:
    """The error for a cursor that this journal never gave."""
    return Invalid(
        f"The cursor {text[:80]!r} is not of this stream: {why}. Pass back a cursor that a batch"
        ' carried, or "" for the oldest kept event, or "now".',
        reason="INVALID_CURSOR",
    )
