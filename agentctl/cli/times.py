"""Owns times as people type them: a moment of ISO 8601, or how long ago."""

import re
import time
from datetime import datetime

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,6})([smhdw])")


def moment(text: str) -> int:
    """Unix ms of `7d` (so long ago) or of an ISO 8601 time, local when it names no zone."""
    if ago := _AGO.fullmatch(text.strip()):
        return int((time.time() - int(ago[1]) * _UNITS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{text!r} is no time: write 7d, 12h, 2026-02-12T08:00 or 2026-02-12T08:00Z",
            param_hint="--since",
        ) from None
