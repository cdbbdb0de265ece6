"""Owns how the messages of a JSON-RPC process reach those who wait: answers, requests, notices.

The path itself is `link`. An answer resolves its call only once its draft is with the sink. Knows no
method.
"""

from collections.abc import Callable

from agentctl.core.adapter import Launch, Sink, Translator
from agentctl.transport.jsonrpc import Peer, PeerGone
from agentctl_adapters.common import link
from agentctl_adapters.common.shapes import Json

OnMessage = Callable[[Json], None]


class RpcLink(link.Link):
    """Made before the process is started, so that its first words find a listener."""

    def __init__(
        self, launch: Launch, translator: Translator, sink: Sink, on_request: OnMessage
    ) -> None:
        super().__init__(launch, translator, sink)
        self._on_request = on_request
        self._answers: list[Json] = []
        self.on_notification: OnMessage = _nobody
        self.peer = Peer(self.send, tap=self.before_write)

    def on_message(self, message: Json) -> None:
        if "method" not in message:
            self._answers.append(message)
        elif "id" in message:
            self._on_request(message)
        else:
            self.on_notification(message)

    def delivered(self) -> None:
        answers, self._answers = self._answers, []
        for answer in answers:
            self.peer.resolve(answer)

    def gone(self, reason: str) -> None:
        self.peer.fail_all(PeerGone(reason))


def _nobody(_message: Json) -> None:
    """Before the connection is there, the agent has nothing to notify it of."""
