"""Claude Code's own protocol: stream-json over the stdin and stdout of `claude -p`.

Owns the entry point `claude-code`. Imports its halves only when they are used, so that listing
protocols is cheap.
"""

from contextlib import AbstractAsyncContextManager

from agentctl.core.adapter import Connection, Launch, Progress, ProtocolAdapter, Sink, Translator


class _ClaudeCode:
    name = "claude-code"

    def translator(self, *, live: bool = False) -> Translator:
        from agentctl_adapters.claude.translate import ClaudeTranslator

        return ClaudeTranslator()

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[Connection]:
        from agentctl_adapters.claude.adapter import connect
        from agentctl_adapters.claude.translate import ClaudeTranslator

        return connect(launch, ClaudeTranslator(), sink, progress)


PROTOCOL: ProtocolAdapter = _ClaudeCode()
