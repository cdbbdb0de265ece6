"""Owns the minting of our ids: sortable by time, unique, lower case (design section 2)."""

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PREFIXES = {
    "agent": "agt",
    "session": "ses",
    "run": "run",
    "apr": "apr",
    "qst": "qst",
    "rule": "rul",
    "artifact": "art",
}
_last = 0


def now_ms() -> int:
    """Unix time in ms: the one clock of the session room."""
    return time.time_ns() // 1_000_000


def _text(value: int, length: int) -> str:
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(5 * (length - 1), -1, -5))


def mint(kind: str) -> str:
    """A new id of `kind` (agent, session, run, apr, qst, rule, artifact): `ses_` and 26 characters.

    48 bits of ms, then 80 random ones; within one ms the random part only grows, so that ids of one
    daemon sort in the order in which they were made.
    """
    global _last
    value = (now_ms() << 80) | secrets.randbits(80)
    if value >> 80 <= _last >> 80:
        value = _last + 1 + secrets.randbits(32)
    _last = value
    return f"{_PREFIXES[kind]}_{_text(value, 26)}"
