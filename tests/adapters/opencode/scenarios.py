"""What a user sees of an OpenCode server: sentences that hold on the real one and on the fake alike.

Each takes a live connection whose model is scripted by the prompt (tests/fakes/models/script.py). Owns
no server; whoever imports it brings one.
"""

from tests.adapters.opencode import scenarios_life, scenarios_work
from tests.adapters.opencode.scenario_groups import GROUPS, ODD, Scenario

ALL: dict[str, Scenario] = {
    name: check for group in GROUPS.values() for name, check in group.items()
}
PARTS = (scenarios_work, scenarios_life)

__all__ = ["ALL", "GROUPS", "ODD", "PARTS"]
