"""Private files and homes for the registry's tests."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Write = Callable[..., Path]


@pytest.fixture
def packaged(tmp_path: Path) -> Path:
    """A packaged layer with two agents."""
    path = tmp_path / "packaged.json"
    agents = [
        {"id": "alpha", "cmd": ["alpha", "--acp"], "env": {"A": "1"}, "install": "get alpha"},
        {"id": "beta", "cmd": ["beta"], "model_flag": "-m {model}"},
    ]
    path.write_text(json.dumps({"version": 1, "agents": agents}))
    return path


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "config" / "agents.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project" / "agents.json"


@pytest.fixture
def write() -> Write:
    """Write a registry file of these entries."""

    def write_agents(path: Path, *agents: Mapping[str, Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"agents": agents}, indent=2))
        return path

    return write_agents


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Put a shell script of this name and body into tmp_path/bin."""

    def make(name: str, body: str = "exit 0") -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make
