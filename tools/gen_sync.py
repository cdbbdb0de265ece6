"""Owns the types of the synchronous client: agentctl/client/sync.pyi, made from the asynchronous one.

The mirrors themselves follow from the originals when the program runs; only their types are written down.
`--check` says whether the file is current.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "agentctl/client"
TARGET = CLIENT / "sync.pyi"

CLASSES = (
    ("agent", "Agent"),
    ("session", "Session"),
    ("run", "Run"),
    ("asking", "_Request"),
    ("asking", "Approval"),
    ("asking", "Question"),
    ("artifact", "Artifact"),
    ("artifact", "ArtifactsOf"),
    ("environment", "Environment"),
    ("environment", "Task"),
    ("stream", "Subscription"),
    ("agents", "Daemon"),
    ("agents", "Agents"),
    ("agents", "Registry"),
    ("agents", "Models"),
    ("sessions", "Sessions"),
    ("runs", "Runs"),
    ("runs", "Approvals"),
    ("runs", "Questions"),
    ("others", "Artifacts"),
    ("others", "Tools"),
    ("others", "Environments"),
    ("others", "Stats"),
    ("others", "Tasks"),
    ("api", "AgentCtl"),
)
HEAD = '''# ruff: noqa: A002  the API's own words
"""Made by tools/gen_sync.py: the types of the synchronous client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

from agentctl import v1
from agentctl.client.asking import Option, QuestionItem
from agentctl.client.event import Event
from agentctl.client.params import Prompt, RunOptions, RunParams
from agentctl.client.results import (
    AgentInfo,
    ArtifactSummary,
    EnvironmentInfo,
    Message,
    RunResult,
    SessionInfo,
)
from agentctl.client.toolspace import ToolSpace

Json: TypeAlias = dict[str, Any]
ApprovalCallback: TypeAlias = Callable[[Approval], Any]
QuestionCallback: TypeAlias = Callable[[Question], Any]
DEFAULT_PATIENCE_S: float

class Mirror: ...

ORIGINALS: tuple[type[Any], ...]
MIRRORS: dict[type[Any], type[Mirror]]
'''
CONTEXT = """
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
"""
# What only serves the asynchronous client itself.
INTERNAL = frozenset({"background"})


def source() -> str:
    """The stub file, before it is formatted."""
    parts = [HEAD]
    for module, name in CLASSES:
        tree = ast.parse((CLIENT / f"{module}.py").read_text(encoding="utf-8"))
        (found,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
        parts.append("\n".join(_class(found)))
    return "\n\n".join(parts)


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = [ast.unparse(base) for base in node.bases]
    yield f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
    if doc := ast.get_docstring(node):
        yield f'    """{doc.splitlines()[0]}"""'
    yield from _attributes(node)
    empty = True
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and _public(item.name):
            empty = False
            yield from _method(item)
        elif isinstance(item, ast.Assign) and isinstance(item.value, ast.Name):
            # A second name of a method.
            (target,) = item.targets
            yield f"    {ast.unparse(target)} = {item.value.id}"
    if node.name == "AgentCtl":
        yield CONTEXT
    elif empty:
        yield "    ..."


def _public(name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    """What __init__ sets for all to see."""
    for init in node.body:
        if not (isinstance(init, ast.FunctionDef) and init.name == "__init__"):
            continue
        kinds = {arg.arg: ast.unparse(arg.annotation) for arg in _arguments(init) if arg.annotation}
        for each in ast.walk(init):
            match each:
                case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=kind) if _public(
                    name
                ):
                    yield f"    {name}: {ast.unparse(kind)}"
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _public(name):
                    yield f"    {name}: {_kind_of(value, kinds)}"
                case _:
                    pass


def _arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.args, *node.args.kwonlyargs]


def _kind_of(value: ast.expr, kinds: dict[str, str]) -> str:
    match value:
        case ast.Name(id=name):
            return kinds[name]
        case ast.Call(func=func):
            return ast.unparse(func)
        case _:
            raise SystemExit(f"gen_sync: annotate {ast.unparse(value)}")


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        yield f"    @{ast.unparse(decorator)}"
    returns = ast.unparse(node.returns) if node.returns else "None"
    returns = returns.strip("'\"")
    for stream in ("AsyncIterator[", "AsyncGenerator["):
        returns = returns.replace(stream, "Iterator[")
    yield f"    def {node.name}({ast.unparse(node.args)}) -> {returns}:"
    doc = ast.get_docstring(node, clean=False)
    yield f'        """{doc}"""' if doc else "        ..."


def formatted(text: str) -> str:
    """As ruff writes it, imports that nobody needs taken out."""
    ruff = Path(sys.executable).with_name("ruff")
    checked = [
        ruff,
        "check",
        "--quiet",
        "--fix",
        "--select",
        "F401,I",
        "--stdin-filename",
        TARGET,
        "-",
    ]
    made = [ruff, "format", "--quiet", "--stdin-filename", TARGET, "-"]
    for command in (checked, made):
        done = subprocess.run(
            [str(each) for each in command], input=text, capture_output=True, text=True, check=False
        )
        text = done.stdout or text
    return text


def stale() -> bool:
    """Whether the file differs from what would be made."""
    return not TARGET.exists() or TARGET.read_text(encoding="utf-8") != formatted(source())


def main() -> int:
    if "--check" in sys.argv:
        if stale():
            sys.stderr.write(f"{TARGET} is out of date: run tools/gen_sync.py\n")
        return int(stale())
    TARGET.write_text(formatted(source()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
