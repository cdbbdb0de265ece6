"""What of the daemon's environment an agent may see, and how secrets stay out of what is shown.

Owns the allow-list, secret references and redaction; knows no registry entry and starts nothing.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agentctl.process.errors import SecretUnavailable

ALLOWED_NAMES = frozenset(
    {"PATH", "HOME", "USER", "SHELL", "LANG", "TERM", "TMPDIR", "NO_PROXY", "SSL_CERT_FILE"}
    | {"SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE"}
)
ALLOWED_PREFIXES = ("LC_", "XDG_")
ALLOWED_SUFFIXES = ("_proxy", "_PROXY")
NEVER_NAMES = frozenset({"CLAUDECODE"})
NEVER_PREFIXES = ("npm_", "AGENTCTL_")
# What one agent sets for the programs it runs, also for a daemon: a pattern does not let it through,
# an entry that names the variable does.
NAMED_ONLY_PREFIXES = ("CLAUDE_CODE_",)

REDACTED = "[redacted]"
# Shorter values are words: replacing them would eat innocent text.
SHORTEST_SECRET = 8
KEY_PATTERNS = (
    r"(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}",
    r"(?<=bearer )[A-Za-z0-9._~+/=-]{8,}",
    r"\bsk-[A-Za-z0-9_-]{8,}",
    r"\bAIza[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{16,}",
    r"\bgithub_pat_[A-Za-z0-9_]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{8,}",
    r"\bAKIA[A-Z0-9]{16}\b",
)

# One of these stands in whatever a pattern above finds: to look for it takes a hundredth of the time.
KEY_HINTS = (
    *("Bearer ", "bearer ", "sk-", "AIza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "AKIA"),
)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def _may_pass(name: str, passthrough: Sequence[str]) -> bool:
    if name in NEVER_NAMES or name.startswith(NEVER_PREFIXES):
        return False
    if name.startswith(NAMED_ONLY_PREFIXES):
        return name in passthrough
    return (
        name in ALLOWED_NAMES
        or name.startswith(ALLOWED_PREFIXES)
        or name.endswith(ALLOWED_SUFFIXES)
        or _matches(name, passthrough)
    )


def scrub(
    base: Mapping[str, str],
    *,
    entry_env: Mapping[str, str],
    passthrough: Sequence[str],
    strip: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Build an agent's environment.

    Args:
        base: the environment to choose from (the daemon's or the caller's).
        entry_env: variables the entry sets; they win over base.
        passthrough: further names of base that may pass; a trailing `*` stands for any ending, but
            not for that of CLAUDE_CODE_*.
        strip: names (or `NAME*`) of base that must not pass after all.
        extra: variables of this one start; they win over everything.
    """
    kept = {
        name: value
        for name, value in base.items()
        if _may_pass(name, passthrough) and not _matches(name, strip)
    }
    return {**kept, **entry_env, **(extra or {})}


def resolve_secret(value: str, env: Mapping[str, str] | None = None) -> str:
    """Follow `env:NAME` and `file:PATH` (one trailing line end removed); else give the value back.

    Raises:
        SecretUnavailable: the variable is unset or the file cannot be read.
    """
    kind, colon, where = value.partition(":")
    if not colon or kind not in ("env", "file"):
        return value
    if kind == "env":
        found = (os.environ if env is None else env).get(where)
        if found is None:
            raise SecretUnavailable(f"{value}: the environment variable {where} is not set")
        return found
    try:
        return Path(where).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SecretUnavailable(f"{value}: cannot read the file: {reason}") from error


def redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces these secrets, and what looks like a key, by `[redacted]`."""
    known = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
    exact = [re.escape(secret) for secret in sorted(known, key=len, reverse=True)]
    pattern = re.compile("|".join([*exact, *KEY_PATTERNS]))
    hints = (*KEY_HINTS, *known)

    def redact(text: str) -> str:
        return pattern.sub(REDACTED, text) if any(hint in text for hint in hints) else text

    return redact


def which(name: str, env: Mapping[str, str], extra_dirs: Iterable[str | Path] = ()) -> str | None:
    """Find a program on the PATH of env, then in extra_dirs; a path must be an executable file."""
    dirs = [env.get("PATH", os.defpath), *(str(Path(each).expanduser()) for each in extra_dirs)]
    return shutil.which(name, path=os.pathsep.join(each for each in dirs if each))
