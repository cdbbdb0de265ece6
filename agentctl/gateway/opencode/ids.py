"""Owns how our ids and those that OpenCode's clients see stand for each other; pure, nothing is stored.

A run is a message of the user and the answers to it. Their ids hold the run's and begin with its time in
the way of OpenCode's own, so that they sort among ids that clients mint. A client's own messageID is kept
as the user's message; the answers then begin with it.
"""

import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: number for number, letter in enumerate(_ALPHABET)}
_MESSAGE = re.compile(r"msg_[0-9a-f]{12}([0-9a-z]{26})(?:a[0-9a-f]{2})?")
_STAMP_BITS = 48
_RANDOM_BITS = 80
_ID_LENGTH = 26

# OpenCode's prefixes and ours.
_PERMISSION, _APPROVAL = "per_", "apr_"
_QUESTION, _OUR_QUESTION = "que_", "qst_"


def time_of(own_id: str) -> int:
    """The Unix ms in which one of our ids was made; 0 for another kind of id."""
    tail = own_id.partition("_")[2]
    if len(tail) != _ID_LENGTH or any(letter not in _VALUES for letter in tail):
        return 0
    value = 0
    for letter in tail:
        value = value << 5 | _VALUES[letter]
    return value >> _RANDOM_BITS


def _stamp(ms: int) -> str:
    return f"{ms << 12 & (1 << _STAMP_BITS) - 1:012x}"


def user_message(run_id: str) -> str:
    """The user's message of a run whose client named none."""
    return f"msg_{_stamp(time_of(run_id))}{run_id.removeprefix('run_')}"


def answer(user_id: str, number: int) -> str:
    """The `number`-th message (from 1) after the user's in the same run; it sorts behind it."""
    return f"{user_id}a{number:02x}"


def run_of(message_id: str) -> str | None:
    """The run of a message whose client named none."""
    found = _MESSAGE.fullmatch(message_id)
    return f"run_{found[1]}" if found else None


def copied(message_id: str, session_id: str) -> str:
    """A message of one session as a fork of it has it; copies sort as their originals do."""
    return f"{message_id}0{session_id[-8:]}"


def part(message_id: str, number: int) -> str:
    """The `number`-th part of a message; parts sort in the order in which they began."""
    return f"prt_{message_id.removeprefix('msg_')}{number:05x}"


def event(seq: int, number: int) -> str:
    """The `number`-th event that came of the journal's event `seq`."""
    return f"evt_{seq:016d}{number:04x}"


def seq_of(event_id: str) -> int:
    return int(event_id.removeprefix("evt_")[:16])


def permission(approval_id: str) -> str:
    return _PERMISSION + approval_id.removeprefix(_APPROVAL)


def approval(permission_id: str) -> str:
    return _APPROVAL + permission_id.removeprefix(_PERMISSION)


def question(question_id: str) -> str:
    return _QUESTION + question_id.removeprefix(_OUR_QUESTION)


def our_question(request_id: str) -> str:
    return _OUR_QUESTION + request_id.removeprefix(_QUESTION)
