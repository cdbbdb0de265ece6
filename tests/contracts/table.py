"""The table of the app contract: a name, and what is tried for it. Rows say which names they are for."""

from collections.abc import Awaitable, Callable

from agentctl.client import AgentCtl
from tests.contracts.lab import Lab

Check = Callable[[Lab, AgentCtl], Awaitable[None]]

ROWS: dict[str, Check] = {}


def row(*names: str) -> Callable[[Check], Check]:
    """The check stands for each of these names."""

    def add(check: Check) -> Check:
        for name in names:
            assert name not in ROWS, name
            ROWS[name] = check
        return check

    return add
