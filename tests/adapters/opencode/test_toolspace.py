"""The tools that an OpenCode server lists."""

from agentctl_adapters.opencode.toolspace import names_of, offers_of


def test_with_a_model_tools_come_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    rows = [{"id": "bash", "description": "Runs", "parameters": schema}, {"id": "invalid"}, {}]
    bash, invalid = offers_of(rows)
    assert (bash.name, bash.kind, bash.description) == ("bash", "execute", "Runs")
    assert bash.input_schema == schema and not bash.hidden and invalid.hidden


def test_without_one_there_are_their_names() -> None:
    assert [offer.name for offer in names_of(["read", 3, "", "odd"])] == ["read", "odd"]
    assert names_of({"message": "no such route"}) == []
