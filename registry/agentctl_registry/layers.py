"""One file of the registry as last read well, and how the layers become entries.

Owns merging and the rule that a bad file leaves its last good version in force. It changes no file.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentctl.core.errors import Invalid
from agentctl.core.spec import Entry
from agentctl_registry import files
from agentctl_registry.check import Problem, check, entries_of
from agentctl_registry.models import to_entry

logger = logging.getLogger(__name__)

REGISTRY_INVALID = "REGISTRY_INVALID"


@dataclass(slots=True)
class Layer:
    """packaged, user or project. `agents` is the last good content; `problems` what is wrong now."""

    source: str
    path: Path | None
    agents: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[Problem] = field(default_factory=list[Problem])
    seen: files.Signature = None

    def ids(self) -> set[str]:
        return {each["id"] for each in self.agents}

    def record(self, entry_id: str) -> dict[str, Any] | None:
        """What this layer alone says about an entry."""
        return next((each for each in self.agents if each["id"] == entry_id), None)

    def changed(self) -> bool:
        """Whether the file is another than the one last read."""
        return self.path is not None and files.signature(self.path) != self.seen

    def read(self, below: Collection[str]) -> None:
        """Read the file; when it is bad, keep what was good and remember why."""
        if self.path is None:
            return
        # Taken before reading: an edit meanwhile then shows as a change.
        self.seen = files.signature(self.path)
        try:
            text = files.read(self.path)
        except files.Unreadable as error:
            self.problems = [Problem(str(self.path), str(error))]
        else:
            if text is None:
                self.agents, self.problems = [], []
                return
            document, self.problems = check(text, str(self.path), below)
            if document is not None and not self.problems:
                self.agents = entries_of(document.value)
        for problem in self.problems:
            logger.warning("%s (the last good version stays in force)", problem)


def merge(layers: Iterable[Layer]) -> tuple[dict[str, Entry], list[Problem]]:
    """Lay each layer's entries over those of the same id below, field by field.

    A record whose base is gone from the layers below is left out, and told of as a problem.
    """
    merged: dict[str, tuple[Mapping[str, Any], Layer]] = {}
    for layer in layers:
        for raw in layer.agents:
            base, _ = merged.get(raw["id"], ({}, layer))
            merged[raw["id"]] = ({**base, **raw}, layer)
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for entry_id, (raw, layer) in merged.items():
        if raw.get("cmd") or raw.get("url"):
            entries[entry_id] = to_entry(raw, layer.source)
        elif raw.get("enabled", True):
            message = f"{entry_id} has no cmd and no url, and no entry below it has"
            problems.append(Problem(str(layer.path), message))
    return entries, problems


def invalid(problem: Problem, outcome: str) -> Invalid:
    """The error for a problem: REGISTRY_INVALID with file, line and field in its metadata."""
    metadata = {"file": problem.file, "line": str(problem.line), "field": problem.field}
    return Invalid(f"{problem.short()}. {outcome}", reason=REGISTRY_INVALID, metadata=metadata)


def ids_below(layers: Sequence[Layer], layer: Layer) -> set[str]:
    """The ids that layers under this one define."""
    below: set[str] = set()
    for each in layers:
        if each is layer:
            break
        below |= each.ids()
    return below
