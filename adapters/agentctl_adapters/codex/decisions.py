"""Owns the answers to what Codex asks leave for: which options there are, and what each one says. Pure.

The wire has words ("accept", "decline") and objects for the rest; `accept` is always there, the safe
refusal is `decline` (the turn goes on), and `cancel` also interrupts the turn, so nothing picks it by
itself. A grant of permissions is not a decision but the permissions themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentctl.core.parts import PermissionOption
from agentctl.core.words import OptionKind
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, as_words

COMMAND_ASK = "item/commandExecution/requestApproval"
PATCH_ASK = "item/fileChange/requestApproval"
GRANT_ASK = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"
USER_INPUT = "item/tool/requestUserInput"
APPROVALS = frozenset({COMMAND_ASK, PATCH_ASK, GRANT_ASK})

ACCEPT, SESSION, DECLINE, CANCEL = "accept", "acceptForSession", "decline", "cancel"
ALWAYS = "always"
_AMEND, _NETWORK = "acceptWithExecpolicyAmendment", "applyNetworkPolicyAmendment"

_ONCE = PermissionOption(ACCEPT, "Allow", OptionKind.ALLOW_ONCE)
_NO = PermissionOption(DECLINE, "Deny", OptionKind.REJECT_ONCE)
_ABORT = PermissionOption(CANCEL, "Deny and stop the turn", OptionKind.OTHER)


@dataclass(slots=True)
class Offer:
    """The options of one request, and the result that each one is sent as."""

    options: list[PermissionOption] = field(default_factory=list[PermissionOption])
    results: dict[str, Json] = field(default_factory=dict[str, Json])
    cancelled: Json = field(default_factory=dict[str, Any])

    def add(self, option: PermissionOption, result: Json) -> None:
        if option.option_id not in self.results:
            self.options.append(option)
            self.results[option.option_id] = result


def is_approval(method: str, params: Json) -> bool:
    """Whether the request asks for leave; an elicitation does when it says so."""
    if method == ELICITATION:
        return bool(as_object(params.get("_meta")).get("codex_approval_kind"))
    return method in APPROVALS


def offer_of(method: str, params: Json) -> Offer:
    """What may be answered to a request for leave."""
    match method:
        case "item/commandExecution/requestApproval":
            return _command(params)
        case "item/fileChange/requestApproval":
            wording = "Allow these files until the session ends"
            return _words(PermissionOption(SESSION, wording, OptionKind.ALLOW_ALWAYS))
        case "item/permissions/requestApproval":
            return _grant(params)
        case _:
            return _mcp(params)


def _decision(word: Any) -> Json:
    return {"decision": word}


def _words(*between: PermissionOption) -> Offer:
    offer = Offer(cancelled=_decision(CANCEL))
    for option in (_ONCE, *between, _NO, _ABORT):
        offer.add(option, _decision(option.option_id))
    return offer


def _command(params: Json) -> Offer:
    offer = Offer(cancelled=_decision(CANCEL))
    offer.add(_ONCE, _decision(ACCEPT))
    wording = "Allow this command until the session ends"
    offer.add(PermissionOption(SESSION, wording, OptionKind.ALLOW_ALWAYS), _decision(SESSION))
    for each in as_objects(params.get("availableDecisions")):
        _amendment(offer, each)
    offer.add(_NO, _decision(DECLINE))
    offer.add(_ABORT, _decision(CANCEL))
    return offer


def _amendment(offer: Offer, decision: Json) -> None:
    if _AMEND in decision:
        rule = as_words(as_object(decision[_AMEND]).get("execpolicy_amendment"))
        wording = f"Always allow commands that begin with: {' '.join(rule)[:200]}"
        option = PermissionOption(_AMEND, wording, OptionKind.ALLOW_ALWAYS)
        offer.add(option, _decision(decision))
    elif _NETWORK in decision:
        rule = as_object(as_object(decision[_NETWORK]).get("network_policy_amendment"))
        host, action = as_text(rule.get("host")), as_text(rule.get("action"))
        kind = OptionKind.ALLOW_ALWAYS if action == "allow" else OptionKind.REJECT_ALWAYS
        option = PermissionOption(f"{_NETWORK}:{action}", f"Always {action} {host}", kind)
        offer.add(option, _decision(decision))


def _grant(params: Json) -> Offer:
    wanted = {k: v for k, v in as_object(params.get("permissions")).items() if v is not None}
    nothing: Json = {"permissions": {}, "scope": "turn"}
    offer = Offer(cancelled=nothing)
    turn, session = {"permissions": wanted, "scope": "turn"}, {**nothing, "permissions": wanted}
    session["scope"] = "session"
    offer.add(PermissionOption("turn", "Allow for this turn", OptionKind.ALLOW_ONCE), turn)
    wording = "Allow until the session ends"
    offer.add(PermissionOption("session", wording, OptionKind.ALLOW_ALWAYS), session)
    offer.add(_NO, nothing)
    return offer


def _mcp(params: Json) -> Offer:
    offer = Offer(cancelled={"action": "cancel", "content": None})
    offer.add(_ONCE, {"action": "accept", "content": {}})
    lasting: Mapping[str, tuple[str, str]] = {
        "session": (SESSION, "Allow this tool until the session ends"),
        "always": (ALWAYS, "Always allow this tool"),
    }
    for word in _persistence(as_object(params.get("_meta")).get("persist")):
        if (known := lasting.get(word)) is not None:
            option = PermissionOption(known[0], known[1], OptionKind.ALLOW_ALWAYS)
            result = {"action": "accept", "content": {}, "_meta": {"persist": word}}
            offer.add(option, result)
    offer.add(_NO, {"action": "decline", "content": None})
    offer.add(_ABORT, {"action": "cancel", "content": None})
    return offer


def _persistence(value: object) -> Sequence[str]:
    return [value] if isinstance(value, str) else as_words(value)
