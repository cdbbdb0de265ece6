"""Owns the local half of registry edits: reading JSON, values, the editor; it calls no daemon."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from agentctl.cli.errors import usage


def read_json(file: Path) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.expanduser().read_bytes()
    except OSError as error:
        usage(f"{file}: {error.strerror}.")


def parse_value(text: str) -> Any:
    """JSON, else the text itself: `true`, `["a"]`, `gemini-2.5-flash`."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def edited(entry: str, before: bytes) -> bytes:
    """What a person makes of an entry in their editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="agentctl-") as folder:
        file = Path(folder) / f"{entry}.json"
        file.write_text(json.dumps(json.loads(before), indent=2, ensure_ascii=False) + "\n")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except OSError as error:
            usage(f"The editor {editor} does not start ({error.strerror}): set EDITOR.")
        if done.returncode != 0:
            usage(f"The editor {editor} ended with {done.returncode}. Nothing was changed.")
        return file.read_bytes()


def fields_changed(entry: str, before: bytes, after: bytes) -> bytes:
    """The entry with only the fields that differ; empty when none does."""
    old = json.loads(before)
    try:
        new: Any = json.loads(after)
    except ValueError as error:
        usage(f"{entry}.json: {error}. Nothing was changed.")
    if not isinstance(new, dict):
        usage(f"{entry}.json: expected an object. Nothing was changed.")
    fields = cast(dict[str, Any], new)
    gone = [name for name in old if name not in fields]
    if gone:
        usage(f"{entry}.json: set {gone[0]} to an empty value instead. Nothing was changed.")
    if fields.get("id") != entry:
        usage(f"{entry}.json: an entry's id cannot be changed. Nothing was changed.")
    change = {name: value for name, value in fields.items() if old.get(name) != value}
    return json.dumps({"id": entry, **change}).encode() if change else b""
