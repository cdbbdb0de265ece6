"""The promises and their tests are joined both ways."""

import ast
from pathlib import Path

from tests.behaviours import BEHAVIOURS

TESTS = Path(__file__).parent


def marks_of(path: Path) -> set[str]:
    """The ids in every `proves(...)` of a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "proves":
            found |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return found


def all_marks() -> dict[str, list[str]]:
    marks: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "node_modules" in path.parts:
            continue
        for id_ in marks_of(path):
            marks.setdefault(id_, []).append(path.name)
    return marks


def test_every_promise_has_a_test() -> None:
    missing = sorted(set(BEHAVIOURS) - set(all_marks()))
    assert not missing, f"rows without a test: {missing}"


def test_every_mark_names_a_promise() -> None:
    unknown = {id_: files for id_, files in all_marks().items() if id_ not in BEHAVIOURS}
    assert not unknown, f"marks without a row: {unknown}"
