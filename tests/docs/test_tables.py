"""The tables of the documents say what the program has: nothing is missing, nothing is made up."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from agentctl.cli.app import app
from agentctl.config import Settings
from agentctl.core.words import ArtifactKind, EventType
from agentctl.rpc.catalogue import services
from agentctl.rpc.status import CODES
from agentctl.v1 import payloads_pb2
from agentctl_registry.models import EntryModel
from tests.docs.blocks import ROOT, blocks

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def table(document: str, head: str) -> list[list[str]]:
    """The rows of the table whose head begins with a word; code marks are taken off."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found is not None, f"{document} has no table {head}"
    return [
        [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
        for line in found[1].splitlines()
    ]


def test_every_event_type_has_its_line_in_the_readme() -> None:
    assert [row[0] for row in table("README.md", "type")] == list(EventType)


@pytest.mark.parametrize("kind", list(EventType))
def test_every_field_of_an_event_is_documented(kind: EventType) -> None:
    text = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    part = text.split(f"\n### {kind}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    name = "".join(word.capitalize() for word in kind.split("_"))
    fields: Any = payloads_pb2.DESCRIPTOR.message_types_by_name[name].fields
    assert told == [each.name.removesuffix("_json") for each in fields]


def test_every_reason_stands_with_its_status_in_both_tables() -> None:
    known = {reason: code.name for reason, (code, _) in CODES.items()}
    known["PERMISSION_DENIED"] = "UNAUTHENTICATED, PERMISSION_DENIED"
    assert {row[0]: row[1] for row in table("docs/errors.md", "reason")} == known
    short = table("README.md", "gRPC status")
    assert {reason: row[0] for row in short for reason in row[1].split(", ")} == known


def test_every_kind_of_artifact_is_documented() -> None:
    assert sorted(row[0] for row in table("docs/artifacts.md", "kind")) == sorted(ArtifactKind)


def test_every_setting_stands_with_its_default_and_meaning() -> None:
    rows = {row[0]: row[1:] for row in table("docs/settings.md", "setting")}
    assert list(rows) == list(Settings.model_fields)
    for name, field in Settings.model_fields.items():
        default, meaning = rows[name]
        assert meaning == field.description, name
        if name not in ("data_dir", "user_registry"):
            assert default == plain(field.get_default(call_default_factory=True)), name


def plain(value: object) -> str:
    match value:
        case None:
            return "none"
        case "" | []:
            return "empty"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def test_every_field_of_an_entry_is_documented() -> None:
    known = [field.alias or name for name, field in EntryModel.model_fields.items()]
    assert [row[0] for row in table("docs/registry.md", "field")] == known


def test_every_packaged_agent_has_its_row() -> None:
    packaged: list[Any] = json.loads((ROOT / "agents.json").read_text())["agents"]
    rows = {row[0]: row[2:4] for row in table("docs/agents.md", "entry")}
    for entry in packaged:
        protocol, install = rows[entry["id"]]
        assert protocol == entry["protocol"]
        assert install.strip("`") == (entry["install"] or "comes with agentctl")


def test_every_service_is_named() -> None:
    named = {name for row in table("docs/grpc.md", "service") for name in row[0].split(", ")}
    assert named == {service.name for service in services()}


def commands(document: Path) -> list[list[str]]:
    """The words behind each `agentctl` that stands in code."""
    text = document.read_text(encoding="utf-8")
    code = [block.text for block in blocks(document)] + re.findall(r"`([^`\n]+)`", text)
    pieces = [each for text in code for each in re.split(r"[\n|;]|&&", text)]
    found = [re.search(r"(?:^|\$ )agentctl ([a-z].*)", piece.strip()) for piece in pieces]
    return [each[1].split() for each in found if each is not None]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_that_is_named_exists(document: Path) -> None:
    for words in commands(document):
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while rest and hasattr(command, "commands"):
            name = rest.pop(0)
            if not re.fullmatch(r"[a-z-]+", name) or name in ("listening", "loads"):
                break
            assert name in command.commands, f"{document.name}: agentctl {' '.join(words)}"
            command = command.commands[name]
        options = {opt for param in command.params for opt in param.opts} | {"--help", "--address"}
        for word in rest:
            if re.fullmatch(r"--[a-z-]+", word) and not hasattr(command, "commands"):
                assert word in options, f"{document.name}: agentctl {' '.join(words)}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name}: {target}"
