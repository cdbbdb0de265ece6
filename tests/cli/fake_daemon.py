"""A daemon that plays a script: a real gRPC server on a Unix socket with answers made by a test."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from agentctl import v1
from agentctl.core.errors import AgentctlError, Unsupported
from agentctl.rpc.enums import numbers, prefix
from agentctl.rpc.status import DETAILS_KEY, to_status
from agentctl.v1 import (
    agents_pb2,
    approvals_pb2,
    artifacts_pb2,
    daemon_pb2,
    models_pb2,
    questions_pb2,
    registry_pb2,
    runs_pb2,
    sessions_pb2,
    stats_pb2,
    tools_pb2,
)

SESSION = "ses_01m8pk21c5rr4gt2gzrv9k31s8"
RUN = "run_01m8pk21c8b9mk0qfa736d5jxn"
AGENT = "agt_01m8pk21c6xzev4qb139x8hem3"
APPROVAL = "apr_01m8pk21d0aaaaaaaaaaaa9c4f"

Answer = Callable[[Any], Message]
Script = Callable[["FakeDaemon"], None]

# A scripted client answers at once; a test that waits longer has failed.
LIMIT_S = 30.0

MODULES = (
    agents_pb2,
    approvals_pb2,
    artifacts_pb2,
    daemon_pb2,
    models_pb2,
    questions_pb2,
    registry_pb2,
    runs_pb2,
    sessions_pb2,
    stats_pb2,
    tools_pb2,
)
REQUESTS: Mapping[str, type[Message]] = {
    f"{service.name}/{method.name}": GetMessageClass(method.input_type)
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def word(enum: Any, text: str) -> Any:
    """The number of an enum's word."""
    return numbers(enum.DESCRIPTOR)[text]


class FakeDaemon(grpc.GenericRpcHandler):
    """Serves `answers` by `Service/Method`; what is not there is UNSUPPORTED. Keeps all `calls`."""

    def __init__(self, socket: Path) -> None:
        self.address = f"unix:{socket}"
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, Any]] = []
        self.events: list[v1.AgentEvent] = []
        self.sign = threading.Event()
        """Set by a test, waited for by its script."""
        self.gap: v1.Gap | None = None
        """Told at the start of each subscription."""
        self._news = threading.Condition()
        self._gate = threading.RLock()
        self._stopped = False
        self._sent = 0
        self._pool = futures.ThreadPoolExecutor(max_workers=16)
        self._server = grpc.server(self._pool, handlers=[self])
        self._server.add_insecure_port(self.address)
        self._server.start()
        self._script = threading.Thread()
        self._seed()

    def stop(self) -> None:
        self._stopped = True
        with self._news:
            self._news.notify_all()
        self._server.stop(grace=None).wait(LIMIT_S)
        self._pool.shutdown(wait=True)
        if self._script.ident is not None:
            self._script.join(LIMIT_S)

    def play(self, script: Script) -> None:
        """Plays a script when the next run is created."""

        def create(request: v1.CreateRunRequest) -> Message:
            self._script = threading.Thread(target=script, args=(self,))
            self._script.start()
            run = v1.Run(run_id=RUN, session_id=request.session_id)
            return v1.CreateRunResponse(run=run)

        self.answers["Runs/Create"] = create

    def called(self, method: str) -> list[Any]:
        with self._news:
            return [request for name, request in self.calls if name == method]

    def wait_for(self, method: str, count: int = 1) -> Any:
        """Waits until a method was called so often; returns that request."""
        with self._news:
            done = self._news.wait_for(
                lambda: self._stopped or len([1 for n, _ in self.calls if n == method]) >= count,
                LIMIT_S,
            )
            assert done and not self._stopped, f"{method} was not called"
            return [request for name, request in self.calls if name == method][count - 1]

    def wait_until_sent(self) -> None:
        """Waits until all events have travelled, so that the next one comes in another batch."""
        with self._news:
            assert self._news.wait_for(
                lambda: self._stopped or self._sent >= len(self.events), LIMIT_S
            )

    def emit(self, kind: str, payload: Message, *, run: bool = True, **ids: Any) -> None:
        """Appends an event and wakes the subscribers."""
        with self._news, self._gate:
            seq = len(self.events) + 1
            about: dict[str, Any] = {"session_id": SESSION, **({"run_id": RUN} if run else {})}
            event = v1.AgentEvent(
                type=word(v1.EventType, kind),
                version=1,
                seq=seq,
                cursor=f"j:{seq}",
                ts=1_764_500_000_000 + seq * 1000,
                **(about | ids),
            )
            getattr(event, kind).CopyFrom(payload)
            self.events.append(event)
            self._news.notify_all()

    @contextmanager
    def together(self) -> Generator[None]:
        """What is emitted inside travels in one batch."""
        with self._gate:
            yield

    def begin(self) -> None:
        started = v1.RunStatus(status=v1.RunChange.RUN_CHANGE_STARTED)
        self.emit("run_status", started)

    def say(self, text: str, message_id: str = "m1") -> None:
        role = v1.Role.ROLE_ASSISTANT
        self.emit("message_chunk", v1.MessageChunk(message_id=message_id, role=role, text=text))

    def end(self, outcome: str = "completed", **fields: Any) -> None:
        complete = v1.Complete(outcome=word(v1.Outcome, outcome), **fields)
        self.emit("complete", complete)
        closed = v1.SessionStatus(status=v1.SessionChange.SESSION_CHANGE_CLOSED)
        self.emit("session_status", closed, run=False)

    def ask(self, **fields: Any) -> None:
        request = v1.PermissionRequest(
            approval_id=APPROVAL,
            kind=v1.PermissionKind.PERMISSION_KIND_TOOL,
            options=[
                option("once", "Allow", "allow_once"),
                option("ever", "Always allow", "allow_always"),
                option("no", "Reject", "reject_once"),
            ],
            **fields,
        )
        self.emit("permission_request", request)

    def resolve(self, decision: str, by: str = "client") -> None:
        resolved = v1.PermissionResolved(
            approval_id=APPROVAL,
            decision=word(v1.Decision, decision),
            by=word(v1.DecidedBy, by),
        )
        self.emit("permission_resolved", resolved)

    def _seed(self) -> None:
        session = v1.Session(
            session_id=SESSION,
            entry_id="demo",
            agent_id=AGENT,
            workspace="/srv/api",
            model="demo-fast",
            policy=v1.Policy.POLICY_ASK,
            state=v1.SessionState.SESSION_STATE_IDLE,
        )
        entry = v1.Entry(entry_id="demo", enabled=True, protocol="acp", entry_json=b'{"id":"demo"}')
        approval = v1.Approval(approval_id=APPROVAL, session_id=SESSION)
        self.answers |= {
            "Daemon/GetInfo": lambda request: v1.GetInfoResponse(
                version="0.1.0",
                head_cursor=f"j:{len(self.events)}",
                pid=7,
                addresses=[self.address],
            ),
            "Sessions/Create": lambda request: session,
            "Sessions/Get": lambda request: session,
            "Sessions/Close": lambda request: session,
            "Sessions/List": lambda request: v1.ListSessionsResponse(sessions=[session]),
            "Runs/Cancel": lambda request: v1.CancelRunResponse(),
            "Agents/Get": lambda request: v1.Agent(agent_id=AGENT, entry_id="demo", version="1.0"),
            "Approvals/Respond": lambda request: approval,
            "Registry/Get": lambda request: entry,
            "Registry/List": lambda request: v1.ListEntriesResponse(entries=[entry]),
        }

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.removeprefix("/agentctl.v1.")
        if method == "Events/Subscribe":
            return grpc.unary_stream_rpc_method_handler(
                self._subscribe,
                request_deserializer=v1.SubscribeRequest.FromString,
                response_serializer=_serialize,
            )
        kind = REQUESTS.get(method)

        def answer(request: Any, context: Any) -> Any:
            return self._answer(method, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=kind.FromString if kind else bytes,
            response_serializer=_serialize,
        )

    def _answer(self, method: str, request: Any, context: Any) -> Any:
        with self._news:
            self.calls.append((method, request))
            self._news.notify_all()
        try:
            if method not in self.answers:
                raise Unsupported(f"{method} is not served.")
            return self.answers[method](request)
        except AgentctlError as error:
            status = to_status(error)
            context.set_trailing_metadata(((DETAILS_KEY, status.details),))
            context.abort(status.code, status.message)

    def _subscribe(self, request: v1.SubscribeRequest, context: Any) -> Iterator[v1.EventBatch]:
        with self._news:
            self.calls.append(("Events/Subscribe", request))
        at = len(self.events) if request.after == "now" else _place(request.after)
        while not self._stopped and context.is_active():
            with self._gate:
                found, at = self.events[at:], len(self.events)
            wanted = [event for event in found if _wanted(event, request)]
            yield v1.EventBatch(events=wanted, cursor=f"j:{at}", caught_up=True, gap=self.gap)
            with self._news:
                self._sent = max(self._sent, at)
                self._news.notify_all()
            if not request.follow:
                return
            with self._news:
                self._news.wait_for(lambda: self._stopped or len(self.events) > at, 1)  # noqa: B023  called before the next turn


def option(option_id: str, name: str, kind: str) -> v1.PermissionOption:
    return v1.PermissionOption(option_id=option_id, name=name, kind=word(v1.OptionKind, kind))


def tool_call(tool_call_id: str, kind: str, status: str = "running", **fields: Any) -> v1.ToolCall:
    assert prefix("ToolKind") == "TOOL_KIND_"
    return v1.ToolCall(
        tool_call_id=tool_call_id,
        kind=word(v1.ToolKind, kind),
        status=word(v1.ToolStatus, status),
        **fields,
    )


def tool_end(tool_call_id: str, status: str = "completed", **fields: Any) -> v1.ToolUpdate:
    return v1.ToolUpdate(tool_call_id=tool_call_id, status=word(v1.ToolStatus, status), **fields)


def _wanted(event: v1.AgentEvent, request: v1.SubscribeRequest) -> bool:
    return (not request.sessions or event.session_id in request.sessions) and (
        not request.types or event.type in request.types
    )


def _place(cursor: str) -> int:
    return int(cursor.partition(":")[2] or 0)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
