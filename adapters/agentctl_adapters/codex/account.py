"""Owns who pays: whether somebody is logged in, and the ways to do it.

The app-server takes no key from its environment. One that is there is handed over when nobody has logged
in, to be held in memory only: it reaches no file.
"""

from typing import Any

from agentctl.core.adapter import Launch
from agentctl.core.errors import Invalid, Refused, Unsupported
from agentctl.core.parts import Choice
from agentctl_adapters.codex.calls import Calls
from agentctl_adapters.codex.native import KEYS
from agentctl_adapters.common.shapes import Json, as_object, as_text

IN_MEMORY = ("-c", 'cli_auth_credentials_store="ephemeral"')
"""Arguments with which a login is kept in memory."""
API_KEY, BROWSER = "api-key", "chatgpt"


class Account:
    """The login of one process."""

    def __init__(self, launch: Launch, calls: Calls) -> None:
        self._launch = launch
        self._calls = calls
        self._kind = ""
        self.builtin = False
        """Whether the provider is the one that needs a login of OpenAI's."""

    @property
    def methods(self) -> tuple[Choice, ...]:
        if not self.builtin:
            return ()
        return (
            Choice(API_KEY, "API key", f"Uses {' or '.join(KEYS)} of the environment"),
            Choice(BROWSER, "ChatGPT", "Type `codex login` in a terminal"),
        )

    async def look(self) -> None:
        """Reads the account; logs in with a key of the environment when nobody is."""
        await self._read()
        if self.builtin and not self._kind and IN_MEMORY[1] in self._launch.argv:
            await self._log_in()

    async def need(self) -> None:
        """Raises: Refused: AUTH_REQUIRED, with the ways to log in."""
        if not self.builtin or self._kind:
            return
        await self._read()
        if self.builtin and not self._kind:
            entry = self._launch.entry.id
            raise Refused(
                f"{entry} is not logged in: type `codex login` in a terminal, or set"
                f" {' or '.join(KEYS)}",
                reason="AUTH_REQUIRED",
                metadata={"entry": entry, "methods": f"{API_KEY},{BROWSER}"},
            )

    async def authenticate(self, method: str) -> None:
        """Only ever on request."""
        match method:
            case "api-key":
                await self._log_in()
            case "chatgpt":
                raise Unsupported(
                    "this login happens in a terminal: type `codex login`, then start anew"
                )
            case _:
                known = f"{API_KEY}, {BROWSER}"
                raise Invalid(f"{self._launch.entry.id} has no login {method!r}; it has: {known}")

    def changed(self, told: Json) -> None:
        """account/updated: somebody logged in or out."""
        self._kind = as_text(told.get("authMode"))

    async def _read(self) -> None:
        result = await self._calls.call("account/read", {})
        self.builtin = result.get("requiresOpenaiAuth") is True
        self._kind = as_text(as_object(result.get("account")).get("type"))

    async def _log_in(self) -> None:
        env = self._launch.env
        key = next((env[name] for name in KEYS if env.get(name)), None)
        if key is None:
            raise Invalid(f"there is no key: set {' or '.join(KEYS)} and start anew")
        asked: dict[str, Any] = {"type": "apiKey", "apiKey": key}
        await self._calls.call("account/login/start", asked)
        await self._read()
