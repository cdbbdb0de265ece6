"""The OpenCode server protocol: REST calls and one stream of server-sent events.

Owns the entry point `opencode`. Imports its halves only when they are used, so that listing protocols is
cheap.
"""

from contextlib import AbstractAsyncContextManager

from agentctl.core.adapter import Connection, Launch, Progress, ProtocolAdapter, Sink, Translator


class _OpenCode:
    name = "opencode"
    keeps_history = True
    """Its conversations can be asked for, also those of a session at rest."""

    def translator(self, *, live: bool = False) -> Translator:
        from agentctl_adapters.opencode.translate import OpenCodeTranslator

        return OpenCodeTranslator()

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[Connection]:
        from agentctl_adapters.opencode.adapter import connect
        from agentctl_adapters.opencode.translate import OpenCodeTranslator

        return connect(launch, OpenCodeTranslator(), sink, progress)


PROTOCOL: ProtocolAdapter = _OpenCode()
