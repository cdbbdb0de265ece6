"""How an entry is started: argv, environment and directory, with every template filled.

Owns what the fields of an entry do at a start. It starts nothing and never uses a shell.
"""

import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agentctl.core.errors import Invalid, Refused
from agentctl.core.spec import Entry
from agentctl.core.words import Policy
from agentctl.process.env import resolve_secret, scrub, which
from agentctl.process.errors import SecretUnavailable

# Protocols that reach a server by its url; nothing is started for these.
ATTACHABLE = frozenset({"opencode"})
_TEMPLATE = re.compile(r"\{(workspace|home|model|python|session|tool)\}")
# Values of variables named like this are redacted wherever an agent prints them.
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|_AUTH$")


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What to start; argv is empty for a server that already runs at `url`. `model` is the one in force ("" leaves it to the agent); `secrets` are values
    that must not appear in what is shown."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    model: str
    secrets: tuple[str, ...] = ()


def build_launch(
    entry: Entry,
    *,
    workspace: str,
    home: str,
    base: Mapping[str, str],
    model: str | None = None,
    policy: Policy = Policy.ASK,
    rules_in_force: bool = False,
    caller_env: Mapping[str, str] | None = None,
    overlay_env: Mapping[str, str] | None = None,
    resume: str | None = None,
    python: str = sys.executable,
) -> LaunchPlan:
    """Fill an entry in for one start.

    Args:
        workspace: absolute; the session's directory.
        home: the user's home directory.
        base: the daemon's environment; only what is allowed passes.
        model: asked for; None takes the entry's default_model.
        rules_in_force: rules of ours narrow the policy, so the agent must not approve by itself.
        caller_env: variables of this start, values or references; they win over all others.
        overlay_env: what `prepare_home` returned.
        resume: native session id, for entries that resume by a flag.

    Raises:
        Refused: AGENT_NOT_INSTALLED, with how to install it.
        Invalid: a required variable or a reference is missing, or the directory is not absolute.
    """
    model = model or entry.default_model
    values = {"workspace": workspace, "home": home, "model": model, "python": python}
    env, secrets = _environment(entry, base, caller_env or {}, overlay_env or {})
    argv: list[str] = []
    if not (entry.url and entry.protocol in ATTACHABLE):
        argv = [
            *_command(entry, values),
            *fill_flag(entry.model_flag, "model", values),
            *fill_flag(entry.workspace_flag, "workspace", values),
            *fill_flag(entry.resume_flag, "session", {**values, "session": resume or ""}),
            *_permission_flags(entry, policy, rules_in_force, values),
        ]
        argv[0] = resolve_command(entry, argv[0], env, python)
    return LaunchPlan(
        argv=tuple(argv), env=env, cwd=_directory(entry, values), model=model, secrets=secrets
    )


def caller_values(names: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables of env that an entry's required_env and env_passthrough name (`NAME*` for any
    ending): what the command line sends along, so that keys exported later arrive."""
    patterns = list(names)
    return {
        name: value
        for name, value in env.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def fill_flag(flag: str, name: str, values: Mapping[str, str]) -> list[str]:
    """Split a flag as a shell would and fill it; nothing when it or its value is empty.

    A flag that does not say where its value goes gets it as the next argument.
    """
    if not flag or not values.get(name):
        return []
    items = [fill(each, values) for each in shlex.split(flag)]
    return items if f"{{{name}}}" in flag else [*items, values[name]]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the templates in text once: what a value holds is not filled again."""
    return _TEMPLATE.sub(lambda match: values.get(match[1], match[0]), text)


def split_model(model: str) -> tuple[str, str]:
    """`provider/model` at its first slash; ("", model) when it has none."""
    provider, slash, name = model.partition("/")
    return (provider, name) if slash else ("", model)


def resolve_command(entry: Entry, command: str, env: Mapping[str, str], python: str) -> str:
    """The absolute path of a command: on the agent's PATH, else beside our own Python.

    Raises:
        Refused: AGENT_NOT_INSTALLED.
    """
    found = which(command, env, [Path(python).parent])
    if found is not None:
        return str(Path(found).absolute())
    where = "is no executable file" if "/" in command else "is not on PATH"
    hint = f"Install it with: {entry.install}" if entry.install else "Install it, or set its cmd"
    raise Refused(
        f"{entry.id} is not installed: {command} {where}. {hint} (agentctl doctor)",
        reason="AGENT_NOT_INSTALLED",
        metadata={"entry": entry.id, "command": command, "install": entry.install},
    )


def _command(entry: Entry, values: Mapping[str, str]) -> list[str]:
    if not entry.cmd:
        raise Invalid(
            f"{entry.id} has no cmd: it is reached by its url and cannot be started",
            metadata={"entry": entry.id},
        )
    empty = {f"{{{name}}}" for name, value in values.items() if not value}
    return [fill(each, values) for each in entry.cmd if each not in empty]


def _permission_flags(
    entry: Entry, policy: Policy, rules_in_force: bool, values: Mapping[str, str]
) -> list[str]:
    if policy is not Policy.ALLOW:
        flag, tools = entry.permission_flag, entry.tools_requiring_permission
        rounds: Sequence[str] = tools if "{tool}" in flag else [""] if flag else []
        return [
            fill(item, {**values, "tool": tool}) for tool in rounds for item in shlex.split(flag)
        ]
    auto = entry.auto_approve
    if rules_in_force or not auto.supported or auto.apply_method != "cli_flag":
        return []
    return [fill(item, values) for item in shlex.split(auto.cli_flag)]


def _environment(
    entry: Entry,
    base: Mapping[str, str],
    caller: Mapping[str, str],
    overlay: Mapping[str, str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    own = _resolved(entry, "env", entry.env, base)
    asked = _resolved(entry, "the session's env", caller, base)
    env = scrub(
        base,
        entry_env=own,
        passthrough=[*entry.env_passthrough, *entry.required_env],
        strip=entry.strip_env,
        extra={**overlay, **asked},
    )
    missing = [name for name in entry.required_env if not env.get(name)]
    if missing:
        raise Invalid(
            f"{entry.id} needs {' and '.join(missing)}: set it in the environment, in the "
            f"session's env, or in the entry (agentctl registry set {entry.id} env.{missing[0]} …)",
            metadata={"entry": entry.id, "field": "required_env", "missing": ",".join(missing)},
        )
    return env, tuple(_secrets(env, [(entry.env, own), (caller, asked)]))


def _resolved(
    entry: Entry, what: str, table: Mapping[str, str], base: Mapping[str, str]
) -> dict[str, str]:
    resolved: dict[str, str] = {}
    for name, value in table.items():
        try:
            resolved[name] = resolve_secret(value, base)
        except SecretUnavailable as error:
            raise Invalid(
                f"{entry.id}: {name} in {what}: {error}",
                metadata={"entry": entry.id, "field": f"env.{name}"},
            ) from error
    return resolved


def _secrets(
    env: Mapping[str, str], tables: Iterable[tuple[Mapping[str, str], Mapping[str, str]]]
) -> list[str]:
    referred = {
        name for given, resolved in tables for name in given if given[name] != resolved[name]
    }
    return [
        value
        for name, value in env.items()
        if value and (name in referred or _SECRET_NAME.search(name))
    ]


def _directory(entry: Entry, values: Mapping[str, str]) -> str:
    directory = Path(values["workspace"], fill(entry.working_dir, values))
    if not directory.is_absolute():
        raise Invalid(
            f"{entry.id}: the working directory {directory} is not absolute; give an absolute "
            "workspace",
            metadata={"entry": entry.id, "field": "working_dir"},
        )
    return str(directory)
