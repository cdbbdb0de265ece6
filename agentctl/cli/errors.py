"""Owns how an error looks: one sentence, what to type next, the reason code; and its exit code."""

import errno
import sys
from typing import Any, NoReturn, cast

import typer

from agentctl.core.errors import AgentctlError, Invalid

FAILED = 1
USAGE = 2
DENIED = 3
TIMED_OUT = 124
CANCELLED = 130

# typer exports only the leaf; its base is the class of every mistake on a command line.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


def usage(message: str) -> NoReturn:
    """Ends with exit code 2 and one sentence."""
    raise Invalid(message, reason="INVALID_PARAMETERS", metadata={"usage": "1"})


def show(message: str, reason: str = "") -> None:
    """Prints one error on stderr."""
    from agentctl.cli.out import err, width

    text = " ".join(message.split())
    text = f"error: {text}"
    room = width(sys.stderr) - len(text.split("\n")[-1]) - len(reason)
    gap = " " * max(room, 2) if err().is_terminal else "  "
    line = err().text(text[:6], "bold red") + text[6:]
    err().line(line + (gap + err().text(reason, "dim") if reason else ""))


def report(error: BaseException) -> int:
    """Prints the error of a command and returns its exit code.

    Raises:
        BaseException: the error itself, when it is none that a user can cause.
    """
    error = leaf(error)
    if isinstance(error, AgentctlError):
        show(_words(error), error.reason)
        return USAGE if error.metadata.get("usage") else FAILED
    if isinstance(error, USAGE_ERROR):
        told: Any = error
        path = told.ctx.command_path if told.ctx is not None else "agentctl"
        message = told.format_message().rstrip(".")
        if message:
            show(f"{message}. ({path} --help)", "USAGE")
        return USAGE
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return CANCELLED
    if isinstance(error, BrokenPipeError):
        return FAILED
    if is_of_output(error):
        show(f"The output cannot be written: {error}.", "INVALID_PARAMETERS")
        return FAILED
    if isinstance(error, UnicodeDecodeError):
        show("The input is not UTF-8: convert it first, as with iconv -t UTF-8.", "USAGE")
        return USAGE
    if isinstance(error, OSError) and error.filename is not None:
        show(f"{error.filename}: {error.strerror}.", "INVALID_PARAMETERS")
        return FAILED
    raise error


def is_of_output(error: BaseException) -> bool:
    """Whether nobody reads our output any more, or nothing more fits where it goes."""
    if not isinstance(error, OSError) or error.filename is not None:
        return False
    return error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO)


def leaf(error: BaseException) -> BaseException:
    """The error that tells most of a group: the first of ours, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    leaves = [leaf(each) for each in group.exceptions]
    return next((each for each in leaves if isinstance(each, AgentctlError)), leaves[0])


def _words(error: AgentctlError) -> str:
    """The message; without what gRPC says of a socket, which helps nobody."""
    place = error.metadata.get("address")
    if place and error.message.startswith("No daemon answers"):
        return f"No daemon answers at {place}: start one with `agentctl up`."
    return error.message
