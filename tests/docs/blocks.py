"""Owns how a document's examples are read and run: console blocks in one shell session on a terminal.

A line `$ …` is typed; what stands below it is what it must show. Ids, times, sizes and cursors may
differ; `…` stands for anything in a line, and alone for any number of lines. A line that asks
(`allow …`) ends with the key that is typed there. Blocks with a further info word are not run.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.terminal import Terminal

ROOT = Path(__file__).parents[2]
PLACE = "/home/you"
"""What documents write for the user's home."""

_ID = re.compile(r"\b(?:ses|run|apr|agt|qst|rul|art)_(?:[0-9a-z]{26}|[0-9a-z]{3}…[0-9a-z]{4})\b")
_ASKS = re.compile(r"^  allow \[y\]")
_VOLATILE = (
    (re.compile(r"^ +\d+ \d\d:\d\d:\d\d\.\d+ \w{4} ", re.MULTILINE), "EVENT "),
    (re.compile(r"^ +\d+ (?=[a-z]+_)", re.MULTILINE), "EVENT "),
    (re.compile(r"^ +\d+ (?=complete )", re.MULTILINE), "EVENT "),
    (re.compile(r"\b[0-9a-f]{12}:\d+"), "CURSOR"),
    (re.compile(r"\bdemo-[0-9a-f]{16,}"), "NATIVE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "WHEN"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s)\b"), "TIME"),
    (re.compile(r"\b\d+[smhd]\b"), "AGE"),
    (re.compile(r"\b\d+(?:\.\d+)? [kM]?B\b"), "SIZE"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r" \d+ +\d+% +SIZE"), " N N% SIZE"),
    (re.compile(r"\b\d+ events"), "N events"),
    (re.compile(r'"(?:ts|started_at|ended_at)":\d+'), '"ts":N'),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its info words, its text, and its first line's number in the file."""

    info: tuple[str, ...]
    text: str
    line: int

    def steps(self) -> Iterator[tuple[str, str]]:
        """(what is typed, what is shown) of a console block."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def blocks(document: Path) -> list[Block]:
    found: list[Block] = []
    fence: list[str] | None = None
    info, start = "", 0
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None and line.startswith("```"):
            info, start, fence = line.removeprefix("```"), number + 1, []
        elif fence is not None and line == "```":
            found.append(Block(tuple(info.split()), "\n".join(fence) + "\n", start))
            fence = None
        elif fence is not None:
            fence.append(line)
    assert fence is None, f"{document}: a block is not closed"
    return found


def calm(text: str) -> str:
    """The text without what differs from run to run."""
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text.strip("\n")


@dataclass
class Shell:
    """One session at a terminal: the directory and the variables stay from command to command."""

    home: Path
    env: dict[str, str]
    known: dict[str, str] = field(default_factory=dict[str, str])
    """Ids in the document, and those that stand for them here."""

    @classmethod
    def fresh(cls, home: Path) -> "Shell":
        """A home of its own, in a copy of the checkout's face: .venv, agents.json, examples."""
        checkout = home / "agentctl"
        checkout.mkdir()
        for name, target in ((".venv", Path(sys.prefix)), *((n, ROOT / n) for n in _SHOWN)):
            (checkout / name).symlink_to(target)
        foreign = ("AGENTCTL_", "XDG_", "DEMO_AGENT")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        shell = cls(home, {**kept, "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"})
        (home / "state").write_text(f"cd {checkout}\n")
        return shell

    def run(self, command: str, expected: str = "") -> str:
        """Types a command, answers what it asks, and returns what it showed."""
        state = self.home / "state"
        script = f'. "{state}"; {self.here(command)}\n{{ export -p; echo "cd $PWD"; }} > "{state}"'
        with Terminal(["bash", "-c", script], self.env, cwd=str(self.home), columns=90) as terminal:
            for line in expected.splitlines():
                if _ASKS.match(line):
                    before, _, typed = line.rstrip().rpartition(" ")
                    terminal.expect(before.strip()[-7:])
                    terminal.send(typed)
            terminal.end()
            return terminal.text.replace(str(self.home), PLACE)

    def here(self, command: str) -> str:
        """The command with the ids of this session in place of the document's."""

        def ours(word: re.Match[str]) -> str:
            for written, real in self.known.items():
                if written.endswith(word[0]):
                    return real[-len(word[0]) :]
            return word[0]

        return re.sub(r"\b(?:[a-z]{3}_[0-9a-z]{26}|[0-9a-z]{4,8})\b", ours, command)

    def check(self, expected: str, shown: str) -> str:
        """What differs, or nothing; learns the ids on the way."""
        names = _ID.findall(expected)
        written = {**self.known, **dict.fromkeys(names, "")}
        pattern = _pattern(calm(_ID.sub("\0", expected)), written)
        found = re.fullmatch(pattern, calm(shown))
        if found is None:
            return f"--- expected\n{calm(expected)}\n--- shown\n{shown}"
        self.known.update(zip(names, found.groups(), strict=True))
        return ""


_SHOWN = ("agents.json", "examples", "proto")


def _pattern(text: str, written: Mapping[str, str]) -> str:
    def one(line: str) -> str:
        words = re.split(r"(\0|…|\b[0-9a-z]{4}(?:[0-9a-z]{2})?\b)", line)
        return "".join(map(word, words)) + "\n"

    def word(part: str) -> str:
        match part:
            case "\0":
                return f"({_ID.pattern})"
            case "…":
                return ".*"
            case _ if len(part) in (4, 6) and any(each.endswith(part) for each in written):
                return f"[0-9a-z]{{{len(part)}}}"
            case _:
                return re.escape(part)

    lines = text.split("\n")
    whole = "".join(r"(?:.*\n)*" if each.strip() == "…" else one(each) for each in lines)
    return whole.removesuffix("\n") if not whole.endswith(r"(?:.*\n)*") else whole + "(?:.*)"
