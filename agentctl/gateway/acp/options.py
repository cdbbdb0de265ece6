"""Owns what may be chosen in one session, in ACP's three places: modes, models, config options. Pure.

It folds what the session has told and says what changed. Config options supersede the other two; a
client that knows only `modes` or the older `models` is served all the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from agentctl.core.events import SessionOptions, SessionStatus
from agentctl.core.parts import Choice, ConfigOption
from agentctl.gateway.acp.errors import Json

AGENT, MODEL, MODE = "agent", "model", "mode"
_KEPT = ("models", "model", "modes", "mode", "config_options", "commands", "prompt_capabilities")
# Categories that ACP v1 names; any other would be refused by strict clients.
_CATEGORIES = frozenset({"mode", "model", "model_config", "thought_level"})


@dataclass(slots=True)
class Agents:
    """The entries to choose from before the first prompt, and the one that is meant."""

    current: str
    choices: Sequence[Choice]


@dataclass(slots=True)
class Offers:
    """What a session offers. `booleans`: the client shows switches."""

    booleans: bool = False
    agents: Agents | None = None
    told: SessionOptions = field(default_factory=SessionOptions)
    _sent: dict[str, Any] = field(default_factory=lambda: {"config_option_update": list[Json]()})

    def fold(self, options: SessionOptions) -> None:
        for each in fields(options):
            if each.name in _KEPT and (value := getattr(options, each.name)) is not None:
                setattr(self.told, each.name, value)

    def fold_status(self, status: SessionStatus) -> None:
        """A session_status repeats the model and the mode in force."""
        self.told.model = status.model or self.told.model
        self.told.mode = status.mode or self.told.mode

    def choose(self, name: str, value: str) -> None:
        """The daemon has taken a choice of the client; the agent may confirm it later."""
        own = self._own(name)
        if own is not None:
            own.value = value
            name = own.category or name
        if name == MODEL:
            self.told.model = value
        elif name == MODE:
            self.told.mode = value

    def is_own(self, name: str) -> bool:
        """Whether the agent itself has a config option of this id."""
        return self._own(name) is not None

    def names(self) -> list[str]:
        return [option["id"] for option in self.config_options()]

    def _own(self, name: str) -> ConfigOption | None:
        return next((each for each in self.told.config_options or () if each.id == name), None)

    @property
    def commands(self) -> frozenset[str]:
        return frozenset(each.name for each in self.told.commands or ())

    def result(self) -> Json:
        """The fields of a session/new, load, resume or fork result; what is in it counts as told."""
        made: Json = {"configOptions": self.told_options()}
        if (modes := self._modes()) is not None:
            made["modes"] = modes
        if (models := self._models()) is not None:
            made["models"] = models
        self._sent["current_mode_update"] = self._mode()
        return made

    def told_options(self) -> list[Json]:
        """All config options for an answer; they count as told."""
        self._sent["config_option_update"] = made = self.config_options()
        return made

    def news(self) -> Iterator[Json]:
        """The updates that bring a client up to date."""
        if self.told.commands is not None:
            commands = [_command(c.name, c.description, c.hint) for c in self.told.commands]
            yield from self._changed("available_commands_update", "availableCommands", commands)
        if mode := self._mode():
            yield from self._changed("current_mode_update", "currentModeId", mode)
        yield from self._changed("config_option_update", "configOptions", self.config_options())

    def _changed(self, kind: str, name: str, value: Any) -> Iterator[Json]:
        if self._sent.get(kind) != value:
            self._sent[kind] = value
            yield {"sessionUpdate": kind, name: value}

    def config_options(self) -> list[Json]:
        """All of them: ours for agent, model and mode where the agent has none of its own."""
        told = self.told
        own = [_option(each, self.booleans) for each in told.config_options or ()]
        known = {each.category or each.id for each in told.config_options or ()}
        made: list[Json] = []
        if self.agents is not None:
            made.append(_select(AGENT, "Agent", None, self.agents.current, self.agents.choices))
        if MODE not in known and told.modes and told.mode:
            made.append(_select(MODE, "Mode", MODE, told.mode, told.modes))
        if MODEL not in known and told.models:
            choices = [Choice(m.id, m.name, m.description) for m in told.models]
            made.append(_select(MODEL, "Model", MODEL, told.model or "", choices))
        return made + own

    def _mode(self) -> str:
        """The mode in force, where it is one of those that are offered."""
        mode = self.told.mode or ""
        return mode if any(each.id == mode for each in self.told.modes or ()) else ""

    def _modes(self) -> Json | None:
        if not self.told.modes or not self._mode():
            return None
        modes = [_named({"id": each.id}, each) for each in self.told.modes]
        return {"currentModeId": self._mode(), "availableModes": modes}

    def _models(self) -> Json | None:
        """The older field: it left the specification and lives on in clients."""
        if not self.told.models:
            return None
        models = [
            _named({"modelId": m.id}, Choice(m.id, m.name, m.description)) for m in self.told.models
        ]
        return {"currentModelId": self.told.model or "", "availableModels": models}


def _command(name: str, description: str | None, hint: str | None) -> Json:
    made: Json = {"name": name, "description": description or name}
    return made | {"input": {"hint": hint}} if hint else made


def _named(made: Json, choice: Choice) -> Json:
    made["name"] = choice.name or choice.id
    return made | {"description": choice.description} if choice.description else made


def _select(
    own: str, name: str, category: str | None, value: str, choices: Sequence[Choice]
) -> Json:
    made: Json = {
        "type": "select",
        "id": own,
        "name": name,
        "currentValue": value,
        "options": _grouped(choices),
    }
    return made | {"category": category} if category in _CATEGORIES else made


def _grouped(choices: Sequence[Choice]) -> list[Json]:
    rows = [(each.group, _named({"value": each.id}, each)) for each in choices]
    if not choices or any(group is None for group, _ in rows):
        return [row for _, row in rows]
    groups: dict[str, list[Json]] = {}
    for group, row in rows:
        groups.setdefault(group or "", []).append(row)
    return [{"group": name, "name": name, "options": rows} for name, rows in groups.items()]


def _option(option: ConfigOption, booleans: bool) -> Json:
    name = option.name or option.id
    if option.boolean and booleans:
        made: Json = {
            "type": "boolean",
            "id": option.id,
            "name": name,
            "currentValue": option.value == "true",
        }
        made |= {"category": option.category} if option.category in _CATEGORIES else {}
    else:
        choices = [Choice("true", "On"), Choice("false", "Off")] if option.boolean else None
        choices = choices or option.choices or [Choice(option.value or "")]
        made = _select(option.id, name, option.category, option.value or "", choices)
    return made | {"description": option.description} if option.description else made
