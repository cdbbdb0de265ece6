"""Faults around the start, the session and the process itself; the turn is faultless.

Each class docstring says what goes wrong, and what its turn says for a test to see.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from base import ALLOW_ALWAYS, ALLOW_ONCE, LIFETIME_S, REJECT_ALWAYS, Fake, Json, log


class NeverAnswersInitialize(Fake):
    """Reads everything and says nothing."""

    fault = "never-answers-initialize"

    def initialize(self, request_id: Any) -> None:
        log("still loading")


class DiesAtStart(Fake):
    """Exit code 3 with two lines on standard error."""

    fault = "dies-at-start"

    def begin(self) -> None:
        log("Error: cannot find module './cli.js'")
        log("fake agent: cannot start")
        raise SystemExit(3)


class SlowStart(Fake):
    """Waits argv[2] ms (500) before it answers initialize, with progress on standard error."""

    fault = "slow-start"

    def initialize(self, request_id: Any) -> None:
        delay_s = int(self.argument or "500") / 1000
        for part in range(4):
            log(f"downloading {25 * (part + 1)} %")
            time.sleep(delay_s / 4)
        super().initialize(request_id)


class Version2(Fake):
    """Answers initialize in the shape of protocol version 2."""

    fault = "version-2"

    def initialize(self, request_id: Any) -> None:
        self.answer(
            request_id,
            {"protocolVersion": 2, "info": self.info, "capabilities": {"session": {}}},
        )


class SessionNewNeedsAuth(Fake):
    """session/new is refused with -32000 until authenticate was called."""

    fault = "session-new-needs-auth"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._known = False

    def authenticate(self, request_id: Any) -> None:
        self._known = True
        super().authenticate(request_id)

    def new_session(self, request_id: Any) -> None:
        if self._known:
            super().new_session(request_id)
        else:
            self.refuse(request_id, -32000, "Authentication required")


class UpdatesBeforeSessionNewResult(Fake):
    """Commands and an unknown notification come before the session's id is known."""

    fault = "updates-before-session-new-result"

    def answer(self, request_id: Any, result: Json) -> None:
        if "sessionId" in result:
            self.notify("_auth/status_update", {"authStatus": {"kind": "gateway"}})
            commands = [{"name": "early", "description": "Known before the session"}]
            self.update("available_commands_update", availableCommands=commands)
        super().answer(request_id, result)


class LoadReplaysAfterResult(Fake):
    """The first old chunk comes before the result of session/load, the rest after it."""

    fault = "load-replays-after-result"

    def load_session(self, request_id: Any) -> None:
        text = "<session_context>old context</session_context>"
        self.update("user_message_chunk", content={"type": "text", "text": text})
        self.answer(request_id, {"modes": self.modes("default")})
        self.replay()


class LoadFails(Fake):
    """session/load answers -32603; a prompt to that session then -32602."""

    fault = "load-fails"

    def load_session(self, request_id: Any) -> None:
        details = "No previous sessions found for this project."
        self.refuse(request_id, -32603, "Internal error", details=details)

    def turn(self, text: str) -> None:
        if self.session_id.startswith(f"fake-{os.getpid()}-"):
            super().turn(text)
        else:
            self.refuse(self.prompt_id, -32602, "Session not found")


class ResumeUnsupported(Fake):
    """Claims session/resume and answers -32601; session/load is not claimed and works."""

    fault = "resume-unsupported"
    capabilities = {  # noqa: RUF012 - the base declares it ClassVar
        "loadSession": False,
        "sessionCapabilities": {"resume": {}},
    }

    def resume_session(self, request_id: Any) -> None:
        self.refuse(request_id, -32601, '"Method not found": session/resume')


class PermissionOutsideTurn(Fake):
    """Asks to index the workspace right after session/new; a turn says the answer so far."""

    fault = "permission-outside-turn"
    _asked = -1

    def new_session(self, request_id: Any) -> None:
        super().new_session(request_id)
        options = [ALLOW_ALWAYS, REJECT_ALWAYS, ALLOW_ONCE]
        title = "Index this workspace?"
        self._choice = "unanswered"
        self._asked = self.permission(
            "workspace-indexing-permission", options, title=title, kind="other"
        )

    def dispatch(self, message: Json) -> None:
        if "method" not in message and message.get("id") == self._asked:
            outcome = message.get("result", {}).get("outcome", {"outcome": "error"})
            self._choice = outcome.get("optionId", outcome["outcome"])
        super().dispatch(message)

    def turn(self, text: str) -> None:
        self.say(f"indexing: {self._choice}")
        self.end()


class IgnoresEofAndTerm(Fake):
    """Ends neither at the end of its input nor at SIGTERM, SIGINT or SIGHUP."""

    fault = "ignores-eof-and-term"

    def begin(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def end_of_input(self) -> None:
        time.sleep(LIFETIME_S)
        raise SystemExit(0)


class StdoutNoiseWrapper(Fake):
    """Prints what a launcher script prints, with colours, before the first message."""

    fault = "stdout-noise-wrapper"

    def begin(self) -> None:
        self.raw(b"\n> fake-agent@1.0.0 start\n> node cli.js --acp\n\n")
        self.raw(b"\x1b[33mnpm\x1b[0m warn deprecated\r\nNow using node v20\n")


class Wrapper(Fake):
    """A parent that only waits for its child; mid-turn the child kills it and streams on, deaf.

    The child inherits the pipes and is this class again, with the argument "worker".
    """

    fault = "wrapper"

    def begin(self) -> None:
        if self.argument == "worker":
            return
        program = str(Path(__file__).with_name("faulty.py"))
        child = subprocess.Popen([sys.executable, program, self.fault, "worker"])
        raise SystemExit(child.wait())

    def turn(self, text: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.say(f"worker pid {os.getpid()}\n")
        os.kill(os.getppid(), signal.SIGKILL)
        until = time.monotonic() + LIFETIME_S
        while time.monotonic() < until:
            try:
                self.say("tick ")
            except SystemExit:
                time.sleep(LIFETIME_S)
            time.sleep(0.02)
