"""Owns the state in which the three standard streams and the arguments are taken over.

A caller may have closed them, or speak another encoding; no command has to think of it.
"""

import io
import os
import sys
from collections.abc import Sequence

from agentctl.core.errors import Invalid

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def prepare() -> None:
    """Opens what is closed on nothing; prints what an encoding lacks as escapes.

    A closed descriptor would go to the next file that is opened, and prints would land in it.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  until the end
            setattr(sys, name, stream)
    _set_errors(sys.stdin, "strict")
    _set_errors(sys.stdout, "backslashreplace")
    _set_errors(sys.stderr, "backslashreplace")


def _set_errors(stream: object, errors: str) -> None:
    if isinstance(stream, io.TextIOWrapper) and stream.errors != errors:
        stream.reconfigure(errors=errors)


def readable(arguments: Sequence[str]) -> list[str]:
    """The arguments as text.

    Raises:
        Invalid: one is not UTF-8, which neither a prompt nor a path of the API can be.
    """
    return [_readable(each) for each in arguments]


def _readable(argument: str) -> str:
    if argument.isascii():
        return argument
    try:
        return os.fsencode(argument).decode()
    except UnicodeError:
        shown = argument.encode("utf-8", "replace").decode()
        raise Invalid(
            f'"{shown}" is not UTF-8: convert it first, as with iconv -t UTF-8.',
            metadata={"usage": "1"},
        ) from None
