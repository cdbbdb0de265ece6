"""Owns what an ACP session offers, as events: models, modes, config options, slash commands. Pure.

Config options supersede `modes`; `models` left the specification and lives on in several agents, with
more in it than the option of the same name. Only what changed is told.
"""

from collections.abc import Iterator

from agentctl.core.events import SessionOptions
from agentctl.core.parts import (
    Choice,
    ConfigOption,
    McpServerState,
    Model,
    PromptCapabilities,
    SlashCommand,
)
from agentctl_adapters.acp.usage import number
from agentctl_adapters.acp.view import SessionView
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

_TOLD = (
    "models",
    "model",
    "modes",
    "mode",
    "config_options",
    "commands",
    "prompt_capabilities",
    "mcp_servers",
)


def offered(view: SessionView, source: Json) -> SessionOptions:
    """What a session/new, load, resume or fork result, or an update, says may be chosen."""
    options = SessionOptions()
    models = as_object(source.get("models"))
    if "availableModels" in models:
        options.models = [_model(m) for m in as_objects(models.get("availableModels"))]
        view.model_ids = frozenset(model.id for model in options.models)
        options.model = as_text(models.get("currentModelId")) or None
    modes = as_object(source.get("modes"))
    if "availableModes" in modes:
        options.modes = [_choice(m, "id") for m in as_objects(modes.get("availableModes"))]
        options.mode = as_text(modes.get("currentModeId")) or None
    if isinstance(source.get("configOptions"), list):
        config = [_option(o) for o in as_objects(source.get("configOptions"))]
        options.config_options = config
        _from_config(view, options, config)
    return options


def _from_config(view: SessionView, options: SessionOptions, config: list[ConfigOption]) -> None:
    for option in config:
        match option.category or option.id:
            case "mode":
                options.modes, options.mode = option.choices, option.value
            case "model" if options.models is None and not view.model_ids:
                options.models = [Model(c.id, c.name, c.description) for c in option.choices or []]
                options.model = option.value
            case "model" if option.value in view.model_ids:
                options.model = option.value
            case _:
                pass


def commands(update: Json) -> SessionOptions:
    told = as_objects(update.get("availableCommands"))
    return SessionOptions(
        commands=[
            SlashCommand(
                as_text(c.get("name")),
                as_text(c.get("description")) or None,
                as_text(as_object(c.get("input")).get("hint")) or None,
            )
            for c in told
        ]
    )


def mode(view: SessionView, mode_id: str) -> SessionOptions | None:
    """The mode in force; not when the agent offers modes and this is none of them."""
    known = view.offers.get("modes")
    if not mode_id or (known and all(choice.id != mode_id for choice in known)):
        return None
    return SessionOptions(mode=mode_id)


def capabilities(prompt: Json) -> PromptCapabilities:
    return PromptCapabilities(
        image=prompt.get("image") is True,
        audio=prompt.get("audio") is True,
        embedded_context=prompt.get("embeddedContext") is True,
    )


def servers(params: Json) -> list[McpServerState] | None:
    """The MCP servers that a session was given; ACP never tells what became of them."""
    names = [as_text(s.get("name")) for s in as_objects(params.get("mcpServers"))]
    return [McpServerState(name) for name in names if name] or None


def news(view: SessionView, options: SessionOptions | None) -> SessionOptions | None:
    """The options reduced to what was not said before; None when that is nothing."""
    if options is None:
        return None
    told = False
    for name in _TOLD:
        value = getattr(options, name)
        if value is None:
            continue
        if name == "model" and view.offers.get("model") not in (None, value):
            view.window_size = None
        if view.news(name, value):
            told = True
        else:
            setattr(options, name, None)
    return options if told else None


def _model(model: Json) -> Model:
    meta = as_object(model.get("_meta"))
    return Model(
        as_text(model.get("modelId")),
        as_text(model.get("name")) or None,
        as_text(model.get("description")) or None,
        context_window=number(meta.get("contextLimit")),
    )


def _choice(choice: Json, key: str, group: str | None = None) -> Choice:
    return Choice(
        as_text(choice.get(key)),
        as_text(choice.get("name")) or None,
        as_text(choice.get("description")) or None,
        group,
    )


def _option(option: Json) -> ConfigOption:
    value = option.get("currentValue")
    boolean = option.get("type") == "boolean" or isinstance(value, bool)
    return ConfigOption(
        as_text(option.get("id")),
        as_text(option.get("name")) or None,
        as_text(option.get("description")) or None,
        as_text(option.get("category")) or None,
        boolean=True if boolean else None,
        value=("true" if value else "false") if boolean else as_text(value) or None,
        choices=None if boolean else list(_choices(option)),
    )


def _choices(option: Json) -> Iterator[Choice]:
    for choice in as_objects(option.get("options")):
        if isinstance(choice.get("options"), list):
            group = as_text(choice.get("name")) or as_text(choice.get("group"))
            for inner in as_objects(choice.get("options")):
                yield _choice(inner, "value", group or None)
        else:
            yield _choice(choice, "value")
