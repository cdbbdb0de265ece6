"""Owns the modes of a Codex session: named pairs of an approval policy and a sandbox. Pure.

Codex has no such list of its own; people know these names from its interface. `plan` is a way to work and
leaves both as they are. Modes that lift the sandbox are offered only where the environment says that
something else contains the agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentctl.core.parts import Choice
from agentctl_adapters.common.shapes import Json, as_object, as_text

READ_ONLY, WORKSPACE, FULL = "read-only", "workspace-write", "danger-full-access"
EXTERNAL = "external-sandbox"
ASKING = "untrusted"
PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Mode:
    id: str
    name: str
    description: str
    approval: str
    sandbox: str
    unconfined: bool = False


MODES: tuple[Mode, ...] = (
    Mode(
        "read-only", "Read only", "Reads; asks before it changes anything", "on-request", READ_ONLY
    ),
    Mode("auto", "Auto", "Works in the workspace; asks to go beyond it", "on-request", WORKSPACE),
    Mode("untrusted", "Ask always", "Asks before every command and patch", "untrusted", WORKSPACE),
    Mode("never-ask", "Never ask", "Works in the workspace; never asks", "never", WORKSPACE),
    Mode("full-access", "Full access", "No sandbox and no questions", "never", FULL, True),
    Mode("ask-all", "Ask always, no sandbox", "Asks; nothing is confined", "untrusted", FULL, True),
)
_BY_ID = {mode.id: mode for mode in MODES}
_SANDBOXES = {
    "readOnly": READ_ONLY,
    "workspaceWrite": WORKSPACE,
    "dangerFullAccess": FULL,
    "externalSandbox": EXTERNAL,
}


def find(mode: str) -> Mode | None:
    return _BY_ID.get(mode)


def choices(*, unconfined: bool) -> list[Choice]:
    """What may be chosen as a mode."""
    known = [mode for mode in MODES if unconfined or not mode.unconfined]
    offered = [Choice(mode.id, mode.name, mode.description) for mode in known]
    return [*offered, Choice(PLAN, "Plan", "Makes a plan and asks; changes nothing")]


def sandbox_of(policy: object) -> str:
    """The sandbox that a response or a notification tells, in the words of a request."""
    word = as_text(as_object(policy).get("type")) or as_text(policy)
    return _SANDBOXES.get(word, word)


def mode_of(approval: object, sandbox: str, collaboration: object = None) -> str | None:
    """The mode in force, None when no name fits."""
    if as_object(collaboration).get("mode") == PLAN:
        return PLAN
    # What confines the agent from outside stands in the place of its own sandbox.
    meant = WORKSPACE if sandbox == EXTERNAL else sandbox
    for mode in MODES:
        if (mode.approval, mode.sandbox) == (approval, meant):
            return mode.id
    return None


def policy_of(sandbox: str, roots: Sequence[str] = (), *, network: bool = False) -> Json:
    """The object of turn/start for a sandbox. `roots` are writable beside the workspace."""
    match sandbox:
        case "read-only":
            return {"type": "readOnly", "networkAccess": network}
        case "workspace-write":
            return {
                "type": "workspaceWrite",
                "writableRoots": list(roots),
                "networkAccess": network,
                "excludeTmpdirEnvVar": False,
                "excludeSlashTmp": False,
            }
        case "external-sandbox":
            return {"type": "externalSandbox", "networkAccess": "enabled"}
        case _:
            return {"type": "dangerFullAccess"}
