"""Owns a client of `agentctl acp` for tests: raw lines over its pipes, each answer checked by ACP's schema.

Shares no code with the product. A message conforms when the schema reads it and gives it back unchanged.
"""

import os
import sys
from pathlib import Path
from typing import Any

from acp import schema

from tests.demo.driver import Driver, Json

_RESULTS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
_CALLS: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}
_ELICITATIONS: dict[str, Any] = {
    "form": schema.CreateFormSessionElicitationRequest,
    "url": schema.CreateUrlSessionElicitationRequest,
}
# They left the specification, and clients that knew them still look for them.
_OLD_FIELDS = ("models",)


def conforms(model: Any, told: Json) -> None:
    """Valid, and nothing in it that the schema does not know or had to repair."""
    read = model.model_validate(told)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == told


def model_of(message: Json) -> Any:
    """What the schema has for a request or notification of the agent."""
    method = message["method"]
    if method == "elicitation/create":
        return _ELICITATIONS[message["params"]["mode"]]
    return _CALLS[method]


class Client(Driver):
    """An editor, as far as `agentctl acp` can tell."""

    def __init__(self, *options: str, **env: str) -> None:
        command = [sys.executable, "-m", "agentctl", "acp", *options]
        super().__init__(command, check=True, **env)

    def _validate(self, message: Json) -> None:
        if "method" in message:
            conforms(model_of(message), message["params"])
        elif "result" in message and (model := _RESULTS.get(self._methods[message["id"]])):
            told = {k: v for k, v in message["result"].items() if k not in _OLD_FIELDS}
            conforms(model, told)
        else:
            error = message.get("error")
            assert error is None or (error["code"] and error["message"]), message

    def pick(self, request: Json, option: str) -> None:
        self.answer(request, {"outcome": {"outcome": "selected", "optionId": option}})

    def refused(self) -> int:
        """The code of the next error that answers no request of ours."""
        while (message := self.next()) is not None:
            if "error" in message and message["id"] is None:
                return message["error"]["code"]
        raise AssertionError("output ended without a refusal")

    def responses(self, *requests: int) -> list[Json]:
        """The responses to several requests, in whichever order they come."""
        found: dict[int, Json] = {}
        while found.keys() < set(requests):
            message = self.next()
            assert message is not None, f"output ended without answers to {requests}"
            if "method" not in message and message["id"] in requests:
                found[message["id"]] = message
        return [found[each] for each in requests]

    def load(self, session_id: str, workspace: Path, **more: Any) -> Json:
        self.session_id = session_id
        return self.result(
            "session/load", sessionId=session_id, cwd=str(workspace), mcpServers=[], **more
        )


def clean_env(home: Path) -> dict[str, str]:
    """A user's environment without anything of the one who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', '')}",
        "HOME": str(home),
        "AGENTCTL_DATA_DIR": str(home / "data"),
        "AGENTCTL_CONFIG": str(home / "agentctl.toml"),
        "DEMO_AGENT_HOME": str(home / "demo"),
    }
