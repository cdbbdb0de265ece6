"""Owns the gate on size: no file of ours is longer than 400 lines, and comments stay few."""

import sys
import tokenize
from pathlib import Path

MAX_LINES = 400
# Comments say why; more than this share of a package's lines means that they say what.
MAX_COMMENT_SHARE = 0.05
ROOTS = ("agentctl", "adapters", "registry", "tests", "bench", "tools", "proto")
GENERATED = ("agentctl/v1/", "node_modules/", "tests/transcripts/")


def sources() -> list[Path]:
    found: list[Path] = []
    for root in ROOTS:
        for pattern in ("*.py", "*.proto"):
            found += Path(root).rglob(pattern)
    return [path for path in sorted(found) if not any(part in str(path) for part in GENERATED)]


def comments(path: Path) -> int:
    with path.open("rb") as file:
        return sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(file.readline))


def main() -> int:
    bad: list[str] = []
    lines = commented = 0
    for path in sources():
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > MAX_LINES:
            bad.append(f"{path}: {count} lines, {MAX_LINES} are allowed")
        if path.suffix == ".py":
            lines += count
            commented += comments(path)
    if commented > lines * MAX_COMMENT_SHARE:
        bad.append(f"{commented} comments in {lines} lines: more than {MAX_COMMENT_SHARE:.0%}")
    sys.stderr.write("".join(f"{line}\n" for line in bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
