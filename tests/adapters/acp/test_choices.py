"""Which call selects a model, a mode or an option, wherever the agent offered it."""

from typing import Any

import pytest

from agentctl.core.adapter import Launch
from agentctl.core.errors import Invalid
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import Entry
from agentctl.transport.jsonrpc import RpcError
from agentctl_adapters.acp.choices import Call, SessionChoices, listed
from agentctl_adapters.acp.failures import auth_required, words_of
from agentctl_adapters.common.failures import Death, command_line, death_error, quoted

S = NativeSessionId("s")
MODES: dict[str, Any] = {
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "auto", "name": "Auto"}],
    }
}
MODELS: dict[str, Any] = {
    "models": {
        "currentModelId": "big[low]",
        "availableModels": [{"modelId": "big[low]"}, {"modelId": "big[high]"}],
    }
}


def select(name: str, category: str | None, current: str, *values: str) -> dict[str, Any]:
    option: dict[str, Any] = {"id": name, "type": "select", "currentValue": current}
    if category is not None:
        option["category"] = category
    return {**option, "options": [{"value": value, "name": value} for value in values]}


def offering(*results: dict[str, Any]) -> SessionChoices:
    choices = SessionChoices()
    for result in results:
        choices.absorb_result(result)
    return choices


def test_config_options_win_over_the_older_fields() -> None:
    options = {"configOptions": [select("m", "mode", "ask", "ask", "auto")]}
    call = offering(MODES, options).set_mode(S, "auto")
    assert call == Call(
        "session/set_config_option", {"sessionId": S, "configId": "m", "value": "auto"}
    )


def test_a_model_that_only_the_older_field_lists_is_set_there() -> None:
    options = {"configOptions": [select("model", "model", "big", "big", "small")]}
    choices = offering(MODELS, options)
    call = choices.set_model(S, "big[high]")
    assert call == Call("session/set_model", {"sessionId": S, "modelId": "big[high]"})
    assert choices.set_model(S, "big[low]") is None
    with pytest.raises(Invalid, match="it has small, big"):
        choices.set_model(S, "smal")


def test_what_no_agent_offered_is_tried_and_marked_as_such() -> None:
    choices = SessionChoices()
    call = choices.set_model(S, "any")
    assert call is not None
    assert (call.method, call.listed) == ("session/set_model", False)
    call = choices.set_mode(S, "any")
    assert call is not None
    assert (call.method, call.listed) == ("session/set_mode", False)
    with pytest.raises(Invalid, match="nor any other"):
        choices.set_option(S, "any", "x")


def test_values_in_groups_count() -> None:
    grouped = select("model", None, "a/1")
    grouped["options"] = [
        {"group": "a", "name": "A", "options": [{"value": "a/1"}, {"value": "a/2"}]},
        {"group": "b", "name": "B", "options": [{"value": "b/1"}]},
    ]
    choices = offering({"configOptions": [grouped]})
    assert choices.set_model(S, "b/1") is not None
    with pytest.raises(Invalid, match="b/1"):
        choices.set_model(S, "b/2")


def test_what_the_agent_says_it_changed_is_in_force() -> None:
    choices = offering(MODES, {"configOptions": [select("mode", "mode", "ask", "ask", "auto")]})
    choices.absorb_update({"sessionUpdate": "current_mode_update", "currentModeId": "auto"})
    assert choices.set_mode(S, "auto") is None
    options = [select("mode", "mode", "ask", "ask", "auto")]
    choices.absorb_update({"sessionUpdate": "config_option_update", "configOptions": options})
    call = choices.set_mode(S, "auto")
    assert call is not None
    choices.chosen(call)
    assert choices.set_mode(S, "auto") is None
    assert options[0]["currentValue"] == "ask"


def test_a_call_that_was_accepted_is_in_force() -> None:
    choices = offering(MODES, MODELS)
    for first, again in (
        (choices.set_mode(S, "auto"), lambda: choices.set_mode(S, "auto")),
        (choices.set_model(S, "big[high]"), lambda: choices.set_model(S, "big[high]")),
    ):
        assert first is not None
        choices.chosen(first)
        assert again() is None


def test_an_option_may_be_named_by_its_category() -> None:
    effort = select("reasoning", "thought_level", "low", "low", "high")
    call = offering({"configOptions": [effort]}).set_option(S, "thought_level", "high")
    assert call is not None
    assert call.params["configId"] == "reasoning"


def test_the_agents_own_command_compacts() -> None:
    choices = SessionChoices()
    assert choices.compact_command() is None
    commands = [{"name": "help"}, {"name": "compress"}]
    update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    choices.absorb_update(update)
    assert choices.compact_command() == "compress"


def test_long_lists_are_cut() -> None:
    assert listed([str(n) for n in range(14)]).endswith("10, 11 and 2 more")
    assert quoted("x" * 400).endswith("…")


def _launch(**entry: Any) -> Launch:
    def redact(words: str) -> str:
        return words.replace("hunter2", "[redacted]")

    argv = ("agent", "--key", "hunter2")
    return Launch(Entry("a", **entry), argv, {}, "/", "c", redact=redact)


def test_no_message_shows_a_secret_or_grows_beyond_a_status() -> None:
    assert command_line(_launch()) == "agent --key [redacted]"
    tail = tuple("é" * 200 for _ in range(50))
    error = death_error(_launch(), Death(1, None, tail, known=True), "before it said so", "1")
    assert len(error.message.encode()) <= 1024
    assert sum(map(len, error.metadata.values())) < 4096
    login = auth_required(_launch(env_passthrough=("A_API_KEY",)), [], "x" * 999)
    assert len(login.message.encode()) <= 1024
    assert "set A_API_KEY" in login.message


@pytest.mark.parametrize(
    ("death", "words"),
    [
        (Death(signal=9, known=True), "was killed by signal 9"),
        (Death(code=0, known=True), "exited with code 0"),
        (Death(known=True), "ended"),
        (Death(), "closed its output"),
    ],
)
def test_a_death_is_worded_by_what_is_known(death: Death, words: str) -> None:
    assert death.how == words
    assert "said nothing on stderr" in death_error(_launch(), death, "here").message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"details": "no disk"}, "Internal error: no disk"),
        ([{"path": ["mcpServers"]}], 'Internal error: [{"path":["mcpServers"]}]'),
        (None, "Internal error"),
        ({"message": "Internal error"}, "Internal error"),
    ],
)
def test_the_reason_that_an_agent_hides_in_data_is_shown(data: object, words: str) -> None:
    assert words_of(RpcError(-32603, "Internal error", data)) == words
