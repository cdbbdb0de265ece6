"""The .proto files are the reference documentation, and the generated code is theirs."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import (  # pyright: ignore[reportMissingTypeStubs]  its package ships none
    protoc,
)

from agentctl import v1
from agentctl.core import words
from agentctl.rpc.enums import numbers

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"


@pytest.fixture(scope="module")
def files() -> Any:
    """The .proto files as compiled, with their comments."""
    sources = [str(path) for path in sorted(PROTO.rglob("*.proto"))]
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "all.binpb"
        arguments = [
            "protoc",
            f"-I{PROTO}",
            f"--descriptor_set_out={out}",
            "--include_source_info",
            *sources,
        ]
        compile_proto = cast("Callable[[list[str]], int]", protoc.main)  # pyright: ignore[reportUnknownMemberType]  no stubs
        assert compile_proto(arguments) == 0
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file


def test_generated_code_is_current() -> None:
    path = ROOT / "tools/gen_proto.py"
    spec = importlib.util.spec_from_file_location("gen_proto", path)
    assert spec is not None
    assert spec.loader is not None
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    with tempfile.TemporaryDirectory() as directory:
        assert tool.stale(tool.generate(Path(directory))) == []


def test_everything_in_the_proto_files_is_explained(files: Any) -> None:
    silent = [each for file in files for each in unexplained(file)]
    assert silent == []


def unexplained(file: Any) -> Iterator[str]:
    told = {
        tuple(location.path)
        for location in file.source_code_info.location
        if (location.leading_comments + location.trailing_comments).strip()
    }
    for index, message in enumerate(file.message_type):
        yield from _silent(told, (4, index), 2, message, message.field)
    for index, enum in enumerate(file.enum_type):
        yield from _silent(told, (5, index), 2, enum, enum.value)
    for index, service in enumerate(file.service):
        yield from _silent(told, (6, index), 2, service, service.method)


def _silent(
    told: set[tuple[int, ...]], path: tuple[int, ...], inner: int, owner: Any, parts: Any
) -> Iterator[str]:
    if path not in told:
        yield owner.name
    for index, each in enumerate(parts):
        if (*path, inner, index) not in told:
            yield f"{owner.name}.{each.name}"


@pytest.mark.parametrize(
    "enum",
    [each for each in vars(words).values() if isinstance(each, type) and each is not StrEnum],
    ids=lambda enum: enum.__name__,
)
def test_words_and_enum_constants_are_the_same_in_the_same_order(enum: type[StrEnum]) -> None:
    wire: Any = getattr(v1, enum.__name__)
    assert dict(numbers(wire.DESCRIPTOR)) == {
        str(word): index for index, word in enumerate(enum, start=1)
    }


def test_fields_that_cannot_be_told_from_their_zero_are_named_on_purpose(files: Any) -> None:
    bare = {
        f"{message.name}.{field.name}"
        for file in files
        for message in file.message_type
        for field in message.field
        if file.name.endswith(("payloads.proto", "parts.proto"))
        and field.type == field.TYPE_INT64
        and field.label != field.LABEL_REPEATED
        and not field.proto3_optional
    }
    assert bare == set()
