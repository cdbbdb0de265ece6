"""Owns the answer that policy and rules give to a permission request; pure, and knows no agent.

Rules come first, in their order, then the session's policy. Only an option of kind allow_once or
reject_once is ever picked: an *_always option of the agent is sent only when a client picks exactly
it. A request outside any run is never allowed by policy or rule.
"""

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from agentctl.core.errors import Invalid
from agentctl.core.events import PermissionRequest
from agentctl.core.parts import PermissionOption
from agentctl.core.spec import Rule
from agentctl.core.words import DecidedBy, Decision, OptionKind, Policy, Risk, ToolKind

# A denial without words still tells the model what happened, in these (design section 6).
DENIED = "User denied this tool use request"

_HIGH_RISK = frozenset({"rm", "sudo", "dd", "mkfs", "chmod", "chown", "kill", "shutdown", "reboot"})
_READING = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK, ToolKind.TODO})


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


def _matches(rule: Rule, request: PermissionRequest) -> bool:
    command, path = subject(request)
    if rule.kind is not None and rule.kind is not request.tool_kind:
        return False
    if rule.command and rule.command != command:
        return False
    return not (rule.path and rule.path != path)


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
    request: PermissionRequest, policy: Policy, rules: list[Rule], *, in_run: bool
) -> Verdict | None:
    """The automatic answer, or None: a person must be asked."""
    for rule in rules:
        if _matches(rule, request):
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
