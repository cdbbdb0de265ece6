"""Publishes the JSON Schema of agents.json: `python -m agentctl_registry` writes it anew."""

from pathlib import Path

from agentctl_registry.jsonedit import dump
from agentctl_registry.models import json_schema

SCHEMA_FILE = Path(__file__).with_name("agents.schema.json")


def schema_text() -> str:
    """The schema as it stands in the package."""
    return dump(json_schema()) + "\n"


def write_schema() -> None:
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
