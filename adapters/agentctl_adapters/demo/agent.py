"""The demo agent itself: command line, ACP methods, sessions and the thread of each turn.

Owns which sessions are open and which turn runs. Knows nothing of directives or of framing.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, cast

from agentctl_adapters.demo import store as files
from agentctl_adapters.demo.actions import LATE_S, MODES, Actions
from agentctl_adapters.demo.script import parse
from agentctl_adapters.demo.shell import Shells
from agentctl_adapters.demo.store import Saved, Store
from agentctl_adapters.demo.turn import Live, Turn, TurnCancelled, note
from agentctl_adapters.demo.wire import (
    BAD_PARAMS,
    INTERNAL,
    INVALID_REQUEST,
    NO_METHOD,
    NOT_FOUND,
    Json,
    RpcError,
    Wire,
    obj,
)

VERSION = "1.0.0"
USAGE = "usage: agentctl-demo [--model MODEL] [--yolo] [--version]\n"
PAGE = 50
# What a turn may still say once its session is closed or our input has ended.
CLOSE_GRACE_S = 1.0

_MODELS = {"demo-fast": "Answers at once", "demo-smart": "Answers at once, with confidence"}
_EFFORTS = ("low", "medium", "high")
_COMMANDS: list[Json] = [
    {"name": "help", "description": "List the directives a prompt may hold"},
    {"name": "history", "description": "Say how many turns this session has seen"},
]
_CAPABILITIES: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}},
}
_LOGIN = {"id": "demo-login", "name": "Pretend to log in", "description": "Needs no account"}


class Agent:
    """Serves one client over one pair of pipes."""

    def __init__(self, wire: Wire, store: Store, model: str, *, yolo: bool) -> None:
        self._wire, self._store, self._shells = wire, store, Shells()
        self._models = {model: _MODELS.get(model, "Chosen on the command line"), **_MODELS}
        self._model, self._mode = model, "auto" if yolo else "ask"
        self._live: dict[str, Live] = {}
        self._prompts: dict[Any, Live] = {}
        self._client: Json | None = None
        self._after: list[Json] = []
        self._methods: dict[str, Callable[[Json], Json]] = {
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/set_model": self._set_model,
        }

    def serve(self) -> None:
        """Answer messages until the client closes our input; then end all work."""
        for message in self._wire.messages():
            params = obj(message.get("params"))
            if not isinstance(message.get("id"), int | str | None):
                self._wire.refuse(None, RpcError(INVALID_REQUEST, "id must be a number or text"))
            elif "id" in message:
                self._request(message["id"], str(message["method"]), params)
            else:
                self._notification(str(message["method"]), params)

    def shut_down(self) -> None:
        """Cancel the turns and end every command; bounded."""
        busy = [live for live in self._live.values() if live.turn is not None]
        for live in busy:
            if live.turn is not None:
                live.turn.cancel()
        deadline = time.monotonic() + CLOSE_GRACE_S
        for live in busy:
            if live.thread is not None:
                live.thread.join(max(0.0, deadline - time.monotonic()))
        self._shells.kill_all()

    def _request(self, request_id: Any, method: str, params: Json) -> None:
        self._after = []
        try:
            if method == "initialize":
                self._wire.answer(request_id, self._initialize(params))
                return
            if self._client is None:
                raise RpcError(INVALID_REQUEST, "The first request must be initialize")
            if method == "session/prompt":
                self._prompt(request_id, params)
                return
            handler = self._methods.get(method)
            if handler is None:
                raise RpcError(NO_METHOD, f"Method not found: {method}", {"method": method})
            self._wire.answer(request_id, handler(params))
        except RpcError as error:
            self._wire.refuse(request_id, error)
        for after in self._after:
            self._wire.notify("session/update", after)

    def _notification(self, method: str, params: Json) -> None:
        live = None
        if method == "session/cancel":
            live = self._live.get(str(params.get("sessionId")))
        elif method == "$/cancel_request":
            live = self._prompts.get(params.get("requestId"))
        if live is not None and live.turn is not None:
            live.turn.cancel()

    def _initialize(self, params: Json) -> Json:
        self._client = obj(params.get("clientCapabilities"))
        return {
            "protocolVersion": 1,
            "agentCapabilities": _CAPABILITIES,
            "authMethods": [_LOGIN],
            "agentInfo": {"name": "demo", "title": "Demo agent", "version": VERSION},
        }

    def _authenticate(self, params: Json) -> Json:
        if params.get("methodId") != _LOGIN["id"]:
            raise RpcError(BAD_PARAMS, f"Unknown methodId {params.get('methodId')!r}")
        return {}

    def _new(self, params: Json) -> Json:
        saved = Saved(files.new_session_id(), _cwd(params), self._mode, self._model, "medium")
        return {"sessionId": saved.session_id, **self._open(saved, _servers(params, needed=True))}

    def _load(self, params: Json) -> Json:
        saved = self._find(params)
        opened = self._open(saved, _servers(params, needed=True))
        for update in list(saved.updates):
            self._wire.notify("session/update", {"sessionId": saved.session_id, "update": update})
        return opened

    def _resume(self, params: Json) -> Json:
        return self._open(self._find(params), _servers(params, needed=False))

    def _fork(self, params: Json) -> Json:
        origin = self._find(params)
        fields = {name: getattr(origin, name) for name in Saved.__slots__}
        fields.update(session_id=files.new_session_id(), updates=list(origin.updates))
        fields.update(cwd=_cwd(params) if "cwd" in params else origin.cwd)
        saved = Saved(**fields)
        return {"sessionId": saved.session_id, **self._open(saved, _servers(params, needed=False))}

    def _open(self, saved: Saved, servers: list[Json]) -> Json:
        """Make it a session of this process; what the client must know comes back."""
        known = self._live.get(saved.session_id)
        if known is not None:
            known.mcp_servers = servers
        else:
            self._live[saved.session_id] = Live(saved, servers)
        self._keep(saved)
        commands = {
            "sessionUpdate": "available_commands_update",
            "availableCommands": _COMMANDS,
        }
        self._after.append({"sessionId": saved.session_id, "update": commands})
        modes = [{"id": i, "name": i.capitalize(), "description": d} for i, d in MODES.items()]
        models = [{"modelId": m, "name": m, "description": d} for m, d in self._models.items()]
        return {
            "modes": {"currentModeId": saved.mode, "availableModes": modes},
            "models": {"currentModelId": saved.model, "availableModels": models},
            "configOptions": self._options(saved),
        }

    def _options(self, saved: Saved) -> list[Json]:
        def select(option: str, name: str, category: str, current: str, values: list[str]) -> Json:
            return {
                "type": "select",
                "id": option,
                "name": name,
                "category": category,
                "currentValue": current,
                "options": [{"value": value, "name": value} for value in values],
            }

        return [
            select("model", "Model", "model", saved.model, list(self._models)),
            select("effort", "Effort", "thought_level", saved.effort, list(_EFFORTS)),
        ]

    def _list(self, params: Json) -> Json:
        cursor = str(params.get("cursor") or "0")
        if not cursor.isdigit():
            raise RpcError(BAD_PARAMS, f"Unknown cursor {cursor!r}")
        known = [s for s in self._store.all() if params.get("cwd") in (None, s.cwd)]
        start = int(cursor)
        sessions: list[Json] = [
            {"sessionId": s.session_id, "cwd": s.cwd, "title": s.title, "updatedAt": s.updated_at}
            for s in known[start : start + PAGE]
        ]
        more = {"nextCursor": str(start + PAGE)} if len(known) > start + PAGE else {}
        return {"sessions": sessions, **more}

    def _close(self, params: Json) -> Json:
        live = self._opened(params)
        self._stop_turn(live)
        self._live.pop(live.saved.session_id, None)
        return {}

    def _delete(self, params: Json) -> Json:
        live = self._live.pop(str(params.get("sessionId")), None)
        if live is not None:
            self._stop_turn(live)
        self._store.delete(str(params.get("sessionId")))
        return {}

    def _set_mode(self, params: Json) -> Json:
        live, mode = self._opened(params), params.get("modeId")
        if mode not in MODES:
            raise RpcError(BAD_PARAMS, f"Unknown mode {mode!r}; known: {', '.join(MODES)}")
        if mode != live.saved.mode:
            live.saved.mode = str(mode)
            self._tell(live, {"sessionUpdate": "current_mode_update", "currentModeId": mode})
        return {}

    def _set_model(self, params: Json) -> Json:
        live = self._opened(params)
        self._choose(live, "model", params.get("modelId"))
        options = self._options(live.saved)
        self._tell(live, {"sessionUpdate": "config_option_update", "configOptions": options})
        return {}

    def _set_option(self, params: Json) -> Json:
        live = self._opened(params)
        self._choose(live, str(params.get("configId")), params.get("value"))
        self._keep(live.saved)
        return {"configOptions": self._options(live.saved)}

    def _choose(self, live: Live, option: str, value: Any) -> None:
        known = {"model": list(self._models), "effort": list(_EFFORTS)}.get(option)
        if known is None:
            raise RpcError(BAD_PARAMS, f"Unknown option {option!r}")
        if value not in known:
            raise RpcError(BAD_PARAMS, f"Unknown {option} {value!r}; known: {', '.join(known)}")
        setattr(live.saved, option, value)

    def _tell(self, live: Live, update: Json) -> None:
        self._keep(live.saved)
        params = {"sessionId": live.saved.session_id, "update": update}
        self._wire.notify("session/update", params)

    def _prompt(self, request_id: Any, params: Json) -> None:
        live, blocks = self._opened(params), params.get("prompt")
        if not isinstance(blocks, list) or not blocks or {} in map(obj, cast("list[Any]", blocks)):
            raise RpcError(BAD_PARAMS, "prompt must be a non-empty list of content blocks")
        if live.turn is not None:
            raise RpcError(INVALID_REQUEST, "A turn is running in this session; cancel it first")
        turn = Turn(self._wire, self._store, live, self._client or {})
        live.turn = turn
        self._prompts[request_id] = live
        prompt = cast("list[Json]", blocks)
        live.thread = threading.Thread(
            target=self._take_turn, args=(turn, request_id, prompt), daemon=True
        )
        live.thread.start()

    def _take_turn(self, turn: Turn, request_id: Any, prompt: list[Json]) -> None:
        actions = Actions(turn, self._shells)
        try:
            steps = parse(turn.hear(prompt))
            # Before the first word: a crash in this turn must not lose the prompt.
            turn.keep()
            for step in steps:
                actions.perform(step)
            if not steps:
                actions.tour()
            turn.end(request_id, "end_turn")
        except TurnCancelled:
            turn.end(request_id, "cancelled")
        except RpcError as error:
            turn.fail(request_id, error)
        except Exception as error:  # noqa: BLE001 - a turn without an answer hangs its client
            note(f"turn failed: {error!r}")
            turn.fail(request_id, RpcError(INTERNAL, f"Internal error: {error!r}"))
        finally:
            self._prompts.pop(request_id, None)
        for late in turn.afterwards:
            threading.Event().wait(LATE_S)
            late()

    def _stop_turn(self, live: Live) -> None:
        if live.turn is not None:
            live.turn.cancel()
            if live.thread is not None:
                live.thread.join(CLOSE_GRACE_S)

    def _opened(self, params: Json) -> Live:
        live = self._live.get(str(params.get("sessionId")))
        if live is None:
            raise RpcError(NOT_FOUND, f"Session not found: {params.get('sessionId')}")
        return live

    def _find(self, params: Json) -> Saved:
        session_id = str(params.get("sessionId"))
        live = self._live.get(session_id)
        saved = live.saved if live is not None else self._store.load(session_id)
        if saved is None:
            raise RpcError(NOT_FOUND, f"Session not found: {session_id}")
        return saved

    def _keep(self, saved: Saved) -> None:
        try:
            self._store.save(saved)
        except OSError as error:
            note(f"cannot keep the session: {error}")


def _cwd(params: Json) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not Path(cwd).is_absolute() or not Path(cwd).is_dir():
        raise RpcError(BAD_PARAMS, f"cwd must be an absolute path of a directory, not {cwd!r}")
    return cwd


def _servers(params: Json, *, needed: bool) -> list[Json]:
    servers = params.get("mcpServers", None if needed else [])
    if not isinstance(servers, list):
        raise RpcError(BAD_PARAMS, "mcpServers must be a list")
    return cast("list[Json]", servers)


def _options(arguments: list[str]) -> tuple[str, bool]:
    """The model and whether to ask nothing; leaves the program on --version and on a mistake."""
    model, yolo = next(iter(_MODELS)), False
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--version":
            sys.stdout.write(f"agentctl-demo {VERSION}\n")
            raise SystemExit(0)
        if word == "--yolo":
            yolo = True
        elif word.startswith("--model="):
            model = word.removeprefix("--model=")
        elif word == "--model" and rest:
            model = rest.pop(0)
        else:
            sys.stderr.write(USAGE)
            raise SystemExit(0 if word in ("-h", "--help") else 2)
    return model, yolo


def main() -> None:
    """Serve ACP on standard input and output until the input ends."""
    model, yolo = _options(sys.argv[1:])
    if sys.stdin.isatty():
        sys.stderr.write("This is an ACP agent. Try: agentctl run demo hello\n")

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, leave)
    agent = Agent(Wire(), Store(files.home()), model, yolo=yolo)
    try:
        agent.serve()
    except (SystemExit, KeyboardInterrupt):
        note("told to stop")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    agent.shut_down()
    # Not by returning: a thread that waits for ever must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
