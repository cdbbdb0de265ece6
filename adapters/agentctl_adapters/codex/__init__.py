"""The Codex app-server protocol: one process, many threads, JSON-RPC lines over stdin and stdout.

Owns the entry point `codex`. Imports its halves only when they are used, so that listing protocols is
cheap.
"""

from contextlib import AbstractAsyncContextManager

from agentctl.core.adapter import Connection, Launch, Progress, ProtocolAdapter, Sink, Translator


class _Codex:
    name = "codex"

    def translator(self, *, live: bool = False) -> Translator:
        from agentctl_adapters.codex.translate import CodexTranslator

        return CodexTranslator(live=live)

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[Connection]:
        from agentctl_adapters.codex.adapter import connect

        return connect(launch, sink, progress)


PROTOCOL: ProtocolAdapter = _Codex()
