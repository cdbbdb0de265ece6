"""The registry in force: layers packaged < user < project, edits to the top one, news of changes.

Owns which entries there are. It refuses to know what an agent is once started: an `Entry` is frozen,
so a running agent keeps what it had.
"""

import copy
import difflib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import anyio
from anyio import to_thread
from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # its stop_event

from agentctl.core.errors import DaemonFailed, NotFound, Refused
from agentctl.core.spec import Entry
from agentctl_registry import files
from agentctl_registry.changes import Change, ChangeKind, News, Subscription, differences
from agentctl_registry.check import Problem, check, entries_of, found
from agentctl_registry.fieldpath import parse_field, with_field
from agentctl_registry.jsonedit import rewrite
from agentctl_registry.layers import Layer, ids_below, invalid, merge

UNCHANGED = "Nothing was changed."
EMPTY_FILE = '{\n  "version": 1,\n  "agents": []\n}\n'

# An edit must be seen within a second. Where notification fails (network mounts, a directory
# made later) this comparison of file signatures sees it.
POLL_MS = 500
# An editor writes in several steps within some milliseconds; reading between them shows half a file.
DEBOUNCE_MS = 300
# How often the notifier looks for more events to join: short against the second, rare when idle.
STEP_MS = 150


def packaged_file() -> Path:
    """agents.json of this installation: in the package, or at the top of a checkout."""
    inside = Path(__file__).with_name("agents.json")
    return inside if inside.exists() else Path(__file__).parents[2] / "agents.json"


class Catalog:
    """Entries by id. Reads are immediate; edits run on a thread and are told to subscribers."""

    def __init__(self, packaged: Path | None, user: Path | None, project: Path | None) -> None:
        self._layers = [
            Layer("packaged", packaged or packaged_file()),
            Layer("user", user),
            Layer("project", project),
        ]
        self._entries: dict[str, Entry] = {}
        self._orphans: list[Problem] = []
        self._lock = threading.Lock()
        self._news = News()

    @classmethod
    def load(
        cls,
        packaged: Path | None = None,
        user: Path | None = None,
        project: Path | None = None,
    ) -> Self:
        """Read the layers. A missing file is an empty layer; a bad one is left out and told of in
        `problems`.

        Raises:
            Invalid: the packaged file itself is bad.
        """
        catalog = cls(packaged, user, project)
        catalog.reload()
        base = catalog._layers[0]
        if base.problems:
            raise invalid(base.problems[0], "The installation is damaged.")
        return catalog

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files now; the last good version of each is in force."""
        return (*(each for layer in self._layers for each in layer.problems), *self._orphans)

    @property
    def edited_file(self) -> Path | None:
        """Where edits go: the project's file when there is one, else the user's."""
        return self._edited().path

    def entries(self) -> tuple[Entry, ...]:
        """All entries, lower layers first, in file order."""
        return tuple(self._entries.values())

    def find(self, entry_id: str) -> Entry | None:
        return self._entries.get(entry_id)

    def get(self, entry_id: str) -> Entry:
        """The entry.

        Raises:
            NotFound: AGENT_NOT_FOUND, naming the nearest id there is.
        """
        entry = self._entries.get(entry_id)
        if entry is not None:
            return entry
        near = difflib.get_close_matches(entry_id, self._entries, n=1)
        guess = f' Did you mean "{near[0]}"?' if near else ""
        raise NotFound(
            f'there is no agent "{entry_id}".{guess} (agentctl registry ls)',
            reason="AGENT_NOT_FOUND",
            metadata={"entry": entry_id, **({"nearest": near[0]} if near else {})},
        )

    def startable(self, entry_id: str) -> Entry:
        """The entry, unless it is disabled.

        Raises:
            NotFound: AGENT_NOT_FOUND.
            Refused: AGENT_DISABLED.
        """
        entry = self.get(entry_id)
        if not entry.enabled:
            raise Refused(
                f"{entry_id} is disabled. Enable it with: agentctl registry enable {entry_id}",
                reason="AGENT_DISABLED",
                metadata={"entry": entry_id},
            )
        return entry

    def validate(self, text: str, file: str = "agents.json") -> list[Problem]:
        """What is wrong with a text that is to become the edited file; [] when nothing."""
        return check(text, file, ids_below(self._layers, self._edited()))[1]

    def reload(self) -> list[Change]:
        """Read what changed on disk. Returns what became different."""
        with self._lock:
            before = self.problems
            for layer in self._layers:
                if layer.changed():
                    layer.read(ids_below(self._layers, layer))
            changes = self._rebuild()
            if self.problems != before:
                named = {each.file: None for each in (*before, *self.problems)}
                changes += [Change(ChangeKind.PROBLEM, file) for file in named]
            return changes

    async def put(self, raw: Mapping[str, Any] | str | bytes) -> Entry:
        """Write fields of an entry (an object, or its JSON text) into the edited file.

        What that file says of the entry's other fields stays.

        Raises:
            Invalid: REGISTRY_INVALID; nothing was changed.
        """
        if isinstance(raw, str | bytes):
            raw = _parse_entry(raw)
        record = dict(raw)

        def change(agents: list[dict[str, Any]]) -> None:
            for index, each in enumerate(agents):
                if each["id"] == record.get("id"):
                    agents[index] = {**each, **record}
                    return
            agents.append(record)

        await self._edit(change)
        return self._entries.get(record["id"]) or self.get(record["id"])

    async def enable(self, entry_id: str, on: bool) -> Entry:
        """Enable or disable; an own record that then says nothing more is taken out again.

        Raises:
            NotFound: AGENT_NOT_FOUND.
        """
        self.get(entry_id)

        def change(agents: list[dict[str, Any]]) -> None:
            record = next((each for each in agents if each["id"] == entry_id), None)
            below = self._below(entry_id)
            if on and record is not None and below is not None and below.enabled:
                record.pop("enabled", None)
                if len(record) == 1:
                    agents.remove(record)
            elif record is not None:
                record["enabled"] = on
            else:
                agents.append({"id": entry_id, "enabled": on})

        await self._edit(change)
        return self.get(entry_id)

    async def delete(self, entry_id: str) -> None:
        """Take out what the edited file says about an entry. One that a lower layer defines too
        is then as that layer has it.

        Raises:
            NotFound: AGENT_NOT_FOUND.
            Refused: only a lower layer defines it.
        """
        entry = self.get(entry_id)
        if self._edited().record(entry_id) is None:
            where = (
                "packaged" if entry.source == "packaged" else f"defined in {self._file_of(entry)}"
            )
            raise Refused(
                f"{entry_id} is {where} and cannot be deleted here; disable it instead: "
                f"agentctl registry disable {entry_id}",
                reason="INVALID_PARAMETERS",
                metadata={"entry": entry_id},
            )

        def change(agents: list[dict[str, Any]]) -> None:
            agents[:] = [each for each in agents if each["id"] != entry_id]

        await self._edit(change)

    async def set_field(self, entry_id: str, field: str, value: Any) -> Entry:
        """Set one field of an entry: `model_flag`, `env.NAME`, `cmd[1]`.

        Args:
            value: any JSON value. What lies around a nested field is copied from the layers below,
                because objects and lists replace each other whole.

        Raises:
            NotFound: AGENT_NOT_FOUND.
            Invalid: the path leads nowhere, or the value does not fit; nothing was changed.
        """
        entry = self.get(entry_id)
        path = parse_field(field)
        whole = with_field(entry.raw, path, value)

        def change(agents: list[dict[str, Any]]) -> None:
            for each in agents:
                if each["id"] == entry_id:
                    each[path[0]] = whole
                    return
            agents.append({"id": entry_id, path[0]: whole})

        await self._edit(change)
        return self.get(entry_id)

    def subscribe(self) -> Subscription:
        """News from now on: `with catalog.subscribe() as changes: async for change in changes`."""
        return self._news.subscribe()

    async def watch(self) -> None:
        """Notice edits of the files by anyone, within a second, until cancelled."""
        async for _ in self._ticks():
            await self.refresh()

    async def refresh(self) -> None:
        """Reads what changed on disk now, for a caller that does not wait until it is noticed."""
        self._news.publish(await to_thread.run_sync(self.reload))

    async def _ticks(self) -> AsyncIterator[None]:
        while True:
            watched = self._directories()
            if not watched:
                await anyio.sleep(POLL_MS / 1000)
                yield
                continue
            async for _ in awatch(
                *watched,
                recursive=False,
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                rust_timeout=POLL_MS,
                yield_on_timeout=True,
            ):
                yield
                if self._directories() != watched:
                    break

    def _directories(self) -> Sequence[Path]:
        files_ = (layer.path for layer in self._layers[1:] if layer.path is not None)
        parents = {each for path in files_ for each in (path.parent, path.resolve().parent)}
        return sorted(each for each in parents if each.is_dir())

    def _edited(self) -> Layer:
        return self._layers[2] if self._layers[2].path else self._layers[1]

    def _file_of(self, entry: Entry) -> Path | None:
        return next(each.path for each in self._layers if each.source == entry.source)

    def _below(self, entry_id: str) -> Entry | None:
        lower = self._layers[: self._layers.index(self._edited())]
        return merge(lower)[0].get(entry_id)

    def _rebuild(self) -> list[Change]:
        before = self._entries
        self._entries, self._orphans = merge(self._layers)
        return differences(before, self._entries)

    async def _edit(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        # Shielded: once the file is replaced, the news of it must go out too.
        with anyio.CancelScope(shield=True):
            self._news.publish(await to_thread.run_sync(self._edit_file, change))

    def _edit_file(self, change: Callable[[list[dict[str, Any]]], None]) -> list[Change]:
        with self._lock:
            layer = self._edited()
            if layer.path is None:
                raise Refused(
                    "there is no registry file to edit; start the daemon with --registry FILE",
                    reason="INVALID_PARAMETERS",
                )
            below, name = ids_below(self._layers, layer), str(layer.path)
            try:
                text = files.read(layer.path) or EMPTY_FILE
            except files.Unreadable as error:
                raise invalid(Problem(name, str(error)), UNCHANGED) from error
            document, problems = check(text, name, below)
            if document is None or problems:
                raise invalid(problems[0], f"Mend the file first. {UNCHANGED}")
            wanted = copy.deepcopy(document.value)
            change(wanted["agents"])
            changed = _checked(text, wanted, name, below)
            try:
                files.replace(layer.path, changed)
            except OSError as error:
                message = f"{layer.path} cannot be written: {error.strerror}. {UNCHANGED}"
                raise DaemonFailed(message) from error
            layer.seen = files.signature(layer.path)
            layer.agents, layer.problems = entries_of(wanted), []
            return self._rebuild()


def _checked(text: str, wanted: Any, name: str, below: set[str]) -> str:
    """The new text of a file, or the mistake that it would hold."""
    try:
        changed = rewrite(text, wanted)
    except (TypeError, ValueError):
        # Values that JSON cannot hold (NaN, bytes) come only from a caller inside this process.
        raise invalid(
            Problem(name, "expected JSON values, found something else"), UNCHANGED
        ) from None
    _, problems = check(changed, name, below)
    if problems:
        raise invalid(problems[0], UNCHANGED)
    return changed


def _parse_entry(text: str | bytes) -> dict[str, Any]:
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    document, problems = check('{"agents": [' + decoded + "]}", "entry")
    if document is None:
        raise invalid(problems[0], UNCHANGED)
    agents: list[Any] = document.value["agents"]
    if len(agents) != 1 or not isinstance(agents[0], dict):
        shown = found(agents[0]) if len(agents) == 1 else f"{len(agents)} values"
        problem = Problem("entry", f"expected one entry (an object), found {shown}")
        raise invalid(problem, UNCHANGED)
    return cast(dict[str, Any], agents[0])
