"""Owns what can be chosen in one ACP session: models, modes, config options, slash commands.

Pure. Agents offer the same choice in up to three places (`models`, `modes`, `configOptions`) and call
some that they never offered; here is decided which call sets what. Sends nothing.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agentctl.core.errors import Invalid
from agentctl.core.ids import NativeSessionId
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

SET_MODEL, SET_MODE, SET_OPTION = (
    "session/set_model",
    "session/set_mode",
    "session/set_config_option",
)
# Names under which agents offer to shorten their context.
COMPACT_COMMANDS = ("compact", "compress", "summarize")
_SHOWN_CHOICES = 12


@dataclass(frozen=True, slots=True)
class Call:
    """One request to make; `listed`: the agent itself offered what is asked."""

    method: str
    params: Json
    listed: bool = True


@dataclass(slots=True)
class _List:
    """Ids to choose from, and the one in force; `known` where the agent told them."""

    known: bool = False
    current: str = ""
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class SessionChoices:
    models: _List = field(default_factory=_List)
    modes: _List = field(default_factory=_List)
    options: dict[str, Json] = field(default_factory=dict[str, Json])
    commands: tuple[str, ...] = ()

    def absorb_result(self, result: Json) -> None:
        """Takes the result of session/new, load, resume, fork or set_config_option."""
        if models := as_object(result.get("models")):
            ids = [as_text(m.get("modelId")) for m in as_objects(models.get("availableModels"))]
            self.models = _List(True, as_text(models.get("currentModelId")), tuple(ids))
        if modes := as_object(result.get("modes")):
            ids = [as_text(m.get("id")) for m in as_objects(modes.get("availableModes"))]
            self.modes = _List(True, as_text(modes.get("currentModeId")), tuple(ids))
        if isinstance(result.get("configOptions"), list):
            options = as_objects(result["configOptions"])
            self.options = {as_text(option.get("id")): dict(option) for option in options}

    def absorb_update(self, update: Json) -> None:
        """Takes the `update` of a session/update notification."""
        match update.get("sessionUpdate"):
            case "current_mode_update":
                self.modes.current = as_text(update.get("currentModeId"))
                self._set_current("mode", self.modes.current)
            case "config_option_update":
                self.absorb_result(update)
            case "available_commands_update":
                commands = as_objects(update.get("availableCommands"))
                self.commands = tuple(as_text(command.get("name")) for command in commands)
            case _:
                pass

    def chosen(self, call: Call) -> None:
        """The agent accepted the call."""
        match call.method:
            case "session/set_model":
                self.models.current = as_text(call.params["modelId"])
                self._set_current("model", self.models.current)
            case "session/set_mode":
                self.modes.current = as_text(call.params["modeId"])
                self._set_current("mode", self.modes.current)
            case _:
                option = self.options.get(as_text(call.params["configId"]))
                if option is not None:
                    option["currentValue"] = call.params["value"]

    def set_model(self, session: NativeSessionId, model: str) -> Call | None:
        """The call that selects a model; None when it is in force already.

        A model that a config option does not list is refused here. The older `models` field is no
        complete list (Gemini takes any id), so there the agent decides.

        Raises:
            Invalid: INVALID_MODEL, naming the nearest ones.
        """
        option = self._option("model")
        if option is not None:
            if option.get("currentValue") == model:
                return None
            values = tuple(_values(option))
            if model in values or not (values or self.models.known):
                return Call(SET_OPTION, _option_params(session, option, model))
            if model not in self.models.ids:
                raise unknown_choice("model", model, values, reason="INVALID_MODEL")
        if self.models.known and self.models.current == model:
            return None
        params: Json = {"sessionId": session, "modelId": model}
        return Call(SET_MODEL, params, listed=self.models.known)

    def set_mode(self, session: NativeSessionId, mode: str) -> Call | None:
        """The call that selects a mode; None when it is in force already.

        Raises:
            Invalid: the agent has modes and this is none of them; the message names them.
        """
        option = self._option("mode")
        if option is not None and (values := tuple(_values(option))):
            if option.get("currentValue") == mode:
                return None
            if mode not in values:
                raise unknown_choice("mode", mode, values)
            return Call(SET_OPTION, _option_params(session, option, mode))
        if self.modes.known:
            if self.modes.current == mode:
                return None
            if mode not in self.modes.ids:
                raise unknown_choice("mode", mode, self.modes.ids)
        params: Json = {"sessionId": session, "modeId": mode}
        return Call(SET_MODE, params, listed=self.modes.known)

    def set_option(self, session: NativeSessionId, name: str, value: str) -> Call | None:
        """The call that sets a config option; None when it has this value already.

        Raises:
            Invalid: no such option, or no such value of it; the message names what there is.
        """
        option = self.options.get(name) or self._option(name)
        if option is None:
            raise unknown_choice("option", name, tuple(self.options))
        typed: str | bool = value
        if option.get("type") == "boolean":
            if value.lower() not in ("true", "false"):
                raise Invalid(f"the option {name} is true or false, not {value!r}")
            typed = value.lower() == "true"
        elif (values := tuple(_values(option))) and value not in values:
            raise unknown_choice(f"value of the option {name}", value, values)
        if option.get("currentValue") == typed:
            return None
        return Call(SET_OPTION, _option_params(session, option, typed))

    def compact_command(self) -> str | None:
        """The agent's own slash command that shortens its context."""
        return next((name for name in COMPACT_COMMANDS if name in self.commands), None)

    def _option(self, category: str) -> Json | None:
        for option in self.options.values():
            if option.get("category") == category:
                return option
        option = self.options.get(category)
        return option if option is not None and not option.get("category") else None

    def _set_current(self, category: str, value: str) -> None:
        option = self._option(category)
        if option is not None:
            option["currentValue"] = value


def _option_params(session: NativeSessionId, option: Json, value: str | bool) -> Json:
    params: Json = {"sessionId": session, "configId": option["id"], "value": value}
    if isinstance(value, bool):
        params["type"] = "boolean"
    return params


def _values(option: Json) -> Iterator[str]:
    for choice in as_objects(option.get("options")):
        for one in as_objects(choice.get("options")) or [choice]:
            if isinstance(value := one.get("value"), str):
                yield value


def unknown_choice(
    what: str, asked: str, known: Sequence[str], *, reason: str = "INVALID_PARAMETERS"
) -> Invalid:
    """The error for something that was not offered: names the nearest first."""
    if not known:
        return Invalid(f"the agent offers no {what} {asked!r}, nor any other", reason=reason)
    return Invalid(
        f"the agent offers no {what} {asked!r}; it has {listed(_nearest(asked, known))}",
        reason=reason,
    )


def listed(words: Sequence[str]) -> str:
    """Some of the words, for a message."""
    more = len(words) - _SHOWN_CHOICES
    return ", ".join(words[:_SHOWN_CHOICES]) + (f" and {more} more" if more > 0 else "")


def _nearest(asked: str, known: Iterable[str]) -> list[str]:
    def distance(word: str) -> float:
        return -difflib.SequenceMatcher(None, asked.lower(), word.lower()).ratio()

    return sorted(known, key=distance)
