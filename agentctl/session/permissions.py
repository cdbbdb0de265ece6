"""Owns the answer that policy and rules give to a permission request; pure, and knows no agent.

Rules come first, in their order, then the session's policy; the first that fits decides. Only an option of kind allow_once or
reject_once is ever picked: an *_always option of the agent is sent only when a client picks exactly
it. A request outside any run is never allowed by policy or rule.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from agentctl.core.errors import Invalid
from agentctl.core.events import PermissionRequest
from agentctl.core.parts import PermissionOption
from agentctl.core.spec import Rule
from agentctl.core.words import DecidedBy, Decision, OptionKind, Policy, Risk, ToolKind
from agentctl.session.patterns import BadPattern, absolute, fits_command, fits_path, inside

# A denial without words still tells the model what happened, in these (design section 6).
DENIED = "User denied this tool use request"

_HIGH_RISK = frozenset({"rm", "sudo", "dd", "mkfs", "chmod", "chown", "kill", "shutdown", "reboot"})
_READING = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK, ToolKind.TODO})


@dataclass(frozen=True, slots=True)
class Place:
    """What a rule can name beside the request itself; `paths` are those that its tool has told.

    `source` is the directory that the session's environment was made from, "" without one.
    """

    entry_id: str
    workspace: str
    now: int
    paths: frozenset[str] = frozenset()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`option_id` None means: answer the agent with the outcome "cancelled"."""

    decision: Decision
    option_id: str | None
    by: DecidedBy
    reason: str | None = None
    rule_id: str | None = None
    updated_input_json: bytes | None = None


def option_of(request: PermissionRequest, kind: OptionKind) -> PermissionOption | None:
    """The first offered option of `kind`."""
    return next((option for option in request.options if option.kind is kind), None)


def subject(request: PermissionRequest) -> tuple[str, str]:
    """(command, path) that a rule can name; "" where the request tells none."""
    details = request.details
    return (details.command or "", details.file or "") if details else ("", "")


def rule_for(request: PermissionRequest, rule_id: str) -> Rule:
    """The one rule that "always" makes: same kind, exactly this command or path.

    Raises:
        Invalid: the request names neither, so that a rule would allow more than was asked.
    """
    command, path = subject(request)
    if not command and not path:
        raise Invalid(
            f"approval {request.approval_id} names no command and no file, so that no rule can be "
            "made of it. Approve it without --always, or pick an option with --option."
        )
    return Rule(rule_id, request.tool_kind, command, "" if command else path, Policy.ALLOW)


def paths_of(request: PermissionRequest, place: Place) -> set[str]:
    """Every path that a request is for, absolute: its file, its tool's, and those of its diff."""
    diff = (request.details.diff or "") if request.details else ""
    told = [*place.paths, subject(request)[1]]
    lines = diff.split("\n")
    for before, after in pairwise(lines):
        if before.startswith("--- ") and after.startswith("+++ "):
            told += [before[4:].removeprefix("a/"), after[4:].removeprefix("b/")]
    named = {path.partition("\t")[0].strip() for path in told} - {"", "/dev/null"}
    return {absolute(path, place.workspace) for path in named}


def applies(rule: Rule, place: Place) -> bool:
    """Whether a rule is in force there and then, whatever is asked."""
    if rule.expires_at is not None and rule.expires_at <= place.now:
        return False
    if rule.entry_id and rule.entry_id != place.entry_id:
        return False
    here = (place.workspace, place.source) if place.source else (place.workspace,)
    return not rule.workspace or any(inside(path, rule.workspace) for path in here)


def _fits_command(rule: Rule, command: str) -> bool:
    if rule.command and rule.command != command and rule.command.strip() != command.strip():
        return False
    if not rule.command_pattern:
        return True
    guarded = rule.decision is Policy.ALLOW
    command = command.strip()
    return bool(command) and fits_command(rule.command_pattern, command, guarded=guarded)


def _fits_paths(rule: Rule, request: PermissionRequest, place: Place) -> bool:
    if not rule.path and not rule.path_pattern:
        return True
    wanted = absolute(rule.path, place.workspace) if rule.path else ""
    found = [
        (not wanted or wanted == path)
        and (not rule.path_pattern or fits_path(rule.path_pattern, path))
        for path in paths_of(request, place)
    ]
    # Leave for one file of a patch is no leave for the rest; a refusal of one refuses it all.
    return bool(found) and (all(found) if rule.decision is Policy.ALLOW else any(found))


def matches(rule: Rule, request: PermissionRequest, place: Place) -> bool:
    """Whether a rule fits a request; one whose pattern does not compile fits nothing."""
    if not applies(rule, place):
        return False
    if rule.kind is not None and rule.kind is not request.tool_kind:
        return False
    try:
        return _fits_command(rule, subject(request)[0]) and _fits_paths(rule, request, place)
    except BadPattern:
        return False


_FIELDS = ("kind", "command", "path", "command_pattern", "path_pattern", "entry_id", "workspace")


def check_rule(rule: Rule, now: int, *, where: str = "rule") -> None:
    """Refuses a rule that can never fit.

    Raises:
        Invalid: with the field that is wrong in `metadata`.
    """

    def no(field: str, message: str) -> Invalid:
        return Invalid(message, metadata={"field": f"{where}.{field}" if field else where})

    if not any(getattr(rule, field) for field in _FIELDS):
        raise no("", f"the rule names nothing that it is for: set one of {', '.join(_FIELDS)}.")
    for exact, pattern in (("command", "command_pattern"), ("path", "path_pattern")):
        if getattr(rule, exact) and getattr(rule, pattern):
            raise no(pattern, f"a rule has {exact} or {pattern}, not both: leave one out.")
    for field in ("command", "command_pattern"):
        if getattr(rule, field) and not getattr(rule, field).strip():
            raise no(field, f"{field} is blank: no command is. Leave it out to mean any.")
    for field in ("path", "path_pattern", "workspace"):
        value: str = getattr(rule, field)
        if value and not value.startswith("/"):
            raise no(field, f'{field} "{value}" is relative: begin it with /, as in "/**/{value}".')
    if rule.expires_at is not None and rule.expires_at <= now:
        raise no("expires_at", "expires_at is in the past: name a time to come, in Unix ms.")
    field = "command_pattern"
    try:
        fits_command(rule.command_pattern, "", guarded=False)
        field = "path_pattern"
        fits_path(rule.path_pattern, "/")
    except BadPattern as error:
        text = getattr(rule, field)
        raise no(field, f'{field} "{text}" does not compile: {error}.') from error


def _allow(request: PermissionRequest, by: DecidedBy, rule_id: str | None) -> Verdict | None:
    once = option_of(request, OptionKind.ALLOW_ONCE)
    return Verdict(Decision.APPROVED, once.option_id, by, None, rule_id) if once else None


def deny(
    request: PermissionRequest, by: DecidedBy, reason: str | None = None, rule_id: str | None = None
) -> Verdict:
    """reject_once where it is offered, else the outcome "cancelled"."""
    once = option_of(request, OptionKind.REJECT_ONCE)
    return Verdict(Decision.DENIED, once.option_id if once else None, by, reason or DENIED, rule_id)


def decide(
    request: PermissionRequest,
    policy: Policy,
    rules: Iterable[Rule],
    place: Place,
    *,
    in_run: bool,
) -> Verdict | None:
    """The automatic answer, or None: a person must be asked."""
    for rule in rules:
        if matches(rule, request, place):
            if rule.decision is Policy.DENY:
                return deny(request, DecidedBy.RULE, rule_id=rule.rule_id)
            if rule.decision is Policy.ALLOW and in_run:
                return _allow(request, DecidedBy.RULE, rule.rule_id)
            return None
    if policy is Policy.DENY:
        return deny(request, DecidedBy.POLICY, "the policy of this session is deny")
    if policy is Policy.ALLOW and in_run:
        return _allow(request, DecidedBy.POLICY, None)
    return None


def _outside(path: str, workspace: str) -> bool:
    if not path.startswith("/"):
        return ".." in PurePosixPath(path).parts
    return not PurePosixPath(path).is_relative_to(workspace)


def _risky_command(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return True
    return any(PurePosixPath(word).name in _HIGH_RISK for word in words)


def assess(request: PermissionRequest, workspace: str) -> None:
    """Fills in `risk` and `reusable`, where the agent's translator left them open."""
    command, path = subject(request)
    if request.reusable is None:
        request.reusable = bool(command or path)
    if request.risk is not None:
        return
    if (path and _outside(path, workspace)) or (command and _risky_command(command)):
        request.risk = Risk.HIGH
    elif request.tool_kind in _READING or (request.tool_kind is ToolKind.EDIT and path):
        request.risk = Risk.LOW
    else:
        request.risk = Risk.MEDIUM
