"""Real git repositories for tests; knows nothing of what is tested."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


def environment(home: Path) -> dict[str, str]:
    """What git gets: no settings of whoever runs the tests."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.com",
    }


@dataclass
class Repo:
    """A work tree and its home directory."""

    path: Path
    home: Path

    def git(self, *args: str, feed: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=environment(self.home),
            input=feed,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def write(self, name: str, content: str | bytes = "x\n") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, message: str = "more") -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")

    def clone(self, to: Path, commit: str = "HEAD") -> "Repo":
        """A clean checkout of `commit` elsewhere, with the same settings of line ends."""
        crlf = self.git("config", "--default", "false", "--get", "core.autocrlf")
        at = self.git("rev-parse", commit)
        self.git("clone", "-q", "-c", f"core.autocrlf={crlf}", str(self.path), str(to))
        other = Repo(to, self.home)
        other.git("checkout", "-q", at)
        return other


def make(root: Path, name: str = "repo", **settings: str) -> Repo:
    """An empty repository; settings are `core_autocrlf="true"` and the like."""
    home = root / "home"
    home.mkdir(exist_ok=True)
    repo = Repo(root / name, home)
    repo.path.mkdir()
    repo.git("init", "-q", "-b", "main")
    for key, value in settings.items():
        repo.git("config", key.replace("_", ".", 1), value)
    return repo


def files(root: Path) -> dict[str, tuple[str, str]]:
    """Every file under `root`, .git left out: what it is, and its content."""
    found: dict[str, tuple[str, str]] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [each for each in folders if each != ".git"]
        for name in names + [each for each in folders if Path(folder, each).is_symlink()]:
            path = Path(folder, name)
            if name == ".git":
                continue
            key = os.fsencode(path.relative_to(root)).decode(errors="backslashreplace")
            if path.is_symlink():
                found[key] = ("link", str(path.readlink()))
            else:
                kind = "program" if os.access(path, os.X_OK) else "file"
                found[key] = (kind, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def git_state(repo: Repo) -> dict[str, str]:
    """Every file of the git directory by its content: what nobody but the user may change."""
    root = repo.path / ".git"
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
