"""The Agent Client Protocol: any agent that speaks ACP version 1 over its stdin and stdout.

Owns the entry point `acp`. Imports its halves only when they are used, so that listing protocols is
cheap.
"""

from contextlib import AbstractAsyncContextManager

from agentctl.core.adapter import Connection, Launch, Progress, ProtocolAdapter, Sink, Translator


class _Acp:
    name = "acp"

    def translator(self, *, live: bool = False) -> Translator:
        from agentctl_adapters.acp.translate import AcpTranslator

        return AcpTranslator()

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[Connection]:
        from agentctl_adapters.acp.adapter import connect

        return connect(launch, self.translator(live=True), sink, progress)


PROTOCOL: ProtocolAdapter = _Acp()
