"""Owns how a moment is written for programs that are not ours: ISO 8601, in UTC."""

from datetime import UTC, datetime


def iso(ms: int) -> str:
    """Unix ms as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
