"""Owns what travels beside an event because it does not fit into it; never on the wire."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Whole:
    """What an event could not hold as it was: a field that was cut, or an image or a sound.

    `field` names it as the event does; bytes of a content block are its `data`.
    """

    field: str
    value: str | bytes
    mime_type: str | None = None
    size: int | None = None
    """Full size in bytes, when even this is only its end."""
