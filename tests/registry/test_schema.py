"""The published JSON Schema is the one that the models make, and says what the checks say."""

import json
from pathlib import Path
from typing import Any

from agentctl_registry.models import EntryModel, json_schema
from agentctl_registry.schema import SCHEMA_FILE, schema_text


def test_the_published_schema_is_current() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "run: make agents"


def test_every_field_that_editors_complete_is_a_field_of_an_entry() -> None:
    schema: dict[str, Any] = json_schema()
    fields = {each.alias or name for name, each in EntryModel.model_fields.items()}
    assert set(schema["$defs"]["EntryModel"]["properties"]) == fields
    assert {"id", "cmd", "model_config", "url", "auth", "home", "sharing"} <= fields


def test_the_seed_entries_use_only_fields_that_the_schema_knows() -> None:
    properties: dict[str, Any] = json_schema()["$defs"]["EntryModel"]["properties"]
    seed = json.loads(Path(__file__).with_name("seed-entries.json").read_text())
    for entry in seed["agents"]:
        assert set(entry) <= set(properties)
