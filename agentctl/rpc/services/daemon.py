"""Owns the Daemon service."""

from collections.abc import Callable, Sequence
from typing import Any

from agentctl import v1
from agentctl.rpc.calls import Context
from agentctl.rpc.ports import DaemonFacts, JournalFacts
from agentctl.rpc.records import counts_message
from agentctl.session.api import AgentsApi


class DaemonService:
    """What the daemon is and holds."""

    def __init__(
        self,
        manager: AgentsApi,
        journal: JournalFacts,
        facts: DaemonFacts,
        *,
        addresses: Callable[[], Sequence[str]],
        capabilities: Sequence[str],
    ) -> None:
        self._manager = manager
        self._journal = journal
        self._facts = facts
        self._addresses = addresses
        self._capabilities = capabilities

    async def get_info(self, request: v1.GetInfoRequest, context: Context) -> v1.GetInfoResponse:
        head = self._journal.head
        facts = self._facts
        return v1.GetInfoResponse(
            version=facts.version,
            journal_id=self._journal.id,
            head_seq=head,
            head_cursor=f"{self._journal.id}:{head}",
            counts=counts_message(self._manager.counts()),
            data_dir=str(facts.settings.data_dir),
            addresses=self._addresses(),
            started_at=facts.started_at,
            pid=facts.pid,
            settings={
                name: _text(value)
                for name, value in facts.settings.model_dump(mode="json").items()
                if value is not None
            },
            capabilities=self._capabilities,
            disk_full=self._journal.full,
        )


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return " ".join(str(each) for each in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  lists of strings
        case _:
            return str(value)
