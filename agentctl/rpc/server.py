"""Owns the gRPC server: addresses, health, reflection, and which call goes to which service.

One grpc server stands for each address, so that a socket needs no token and TCP always does. Every
method of the API exists; one without an implementation answers UNSUPPORTED.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from agentctl.core.errors import DaemonFailed, Invalid
from agentctl.rpc import catalogue
from agentctl.rpc.auth import TokenGate, read_token
from agentctl.rpc.calls import Calls, Handler, unary, unsupported
from agentctl.rpc.mirror import message_class
from agentctl.rpc.ports import CatalogApi, DaemonFacts, Discover, HubApi, JournalFacts
from agentctl.rpc.services.agents import AgentsService
from agentctl.rpc.services.approvals import ApprovalsService, QuestionsService
from agentctl.rpc.services.artifacts import ArtifactsService
from agentctl.rpc.services.daemon import DaemonService
from agentctl.rpc.services.environments import EnvironmentsService
from agentctl.rpc.services.events import EventsService
from agentctl.rpc.services.models import ModelsService
from agentctl.rpc.services.registry import RegistryService
from agentctl.rpc.services.runs import RunsService
from agentctl.rpc.services.sessions import SessionsService
from agentctl.rpc.services.stats import StatsService
from agentctl.rpc.services.tools import ToolsService
from agentctl.rpc.sockets import only_owner, owned_path
from agentctl.session.api import ManagerApi

# Clients may ping this often, with or without calls; grpc's default of 5 minutes drops them.
MIN_PING_INTERVAL_MS = 5_000

# Clients in every language refuse more than 4 MiB unless told otherwise.
MAX_SEND_BYTES = 4 << 20

# A prompt may carry images; the largest that agents take are far below this.
MAX_RECEIVE_BYTES = 64 << 20

# Unary calls that are answered already reach their callers; streams have ended before.
GRACE_S = 1.0

OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    # Clients also ping by themselves to measure the line; on a loaded machine these come together,
    # and nobody may lose the calls of a connection for that.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_send_message_length", MAX_SEND_BYTES),
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
)


class Server:
    """Serves the API on each address while its context is open.

    Raises on entering:
        DaemonFailed: an address is taken or cannot be bound.
        Invalid: an address is malformed, or is TCP and no token is set.
    """

    def __init__(
        self,
        manager: ManagerApi,
        hub: HubApi,
        catalog: CatalogApi,
        journal: JournalFacts,
        facts: DaemonFacts,
        *,
        addresses: Sequence[str],
        discover: Discover | None = None,
    ) -> None:
        self._asked = tuple(addresses)
        self._token_file = facts.settings.token_file
        self._calls = Calls()
        self._stack = ExitStack()
        self._servers: list[grpc.aio.Server] = []
        self._health: Any = health.aio.HealthServicer()  # pyright: ignore  its stubs lack aio
        self.addresses: list[str] = []
        """Where it serves; a port 0 is replaced by the one that was given."""
        self._services: dict[str, object] = {
            "Agents": AgentsService(manager, self._calls),
            "Sessions": SessionsService(manager, hub, self._calls),
            "Runs": RunsService(manager, hub, self._calls),
            "Events": EventsService(hub, self._calls),
            "Approvals": ApprovalsService(manager, self._calls),
            "Questions": QuestionsService(manager, self._calls),
            "Artifacts": ArtifactsService(manager, hub, self._calls),
            "Registry": RegistryService(catalog, discover, self._calls),
            "Models": ModelsService(manager, hub, catalog, discover),
            "Tools": ToolsService(manager, hub),
            "Environments": EnvironmentsService(manager),
            "Stats": StatsService(manager, catalog, facts.settings.data_dir),
        }
        self._services["Daemon"] = DaemonService(
            manager,
            journal,
            facts,
            addresses=lambda: self.addresses,
            capabilities=["daemon.get_info", *self._served()],
        )

    def _served(self) -> Iterator[str]:
        for service in catalogue.services():
            for method in service.methods:
                if self._implementation(service, method) is not None:
                    yield f"{snake(service.name)}.{snake(method.name)}"

    def _implementation(self, service: ServiceDescriptor, method: MethodDescriptor) -> Any:
        return getattr(self._services.get(service.name), snake(method.name), None)

    async def __aenter__(self) -> Self:
        try:
            for address in self._asked:
                await self._listen(address)
            for name in ("", *(service.full_name for service in catalogue.services())):
                await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        with self._stack, anyio.CancelScope(shield=True):
            await self._health.enter_graceful_shutdown()
            await self._calls.stop()
            for server in self._servers:
                await server.stop(GRACE_S)

    async def _listen(self, address: str) -> None:
        if address.startswith("unix:"):
            path = Path(address.removeprefix("unix:"))
            self._stack.enter_context(owned_path(path))
            server = self._server(())
            with only_owner():
                _bind(server, f"unix:{path}", address)
            self.addresses.append(f"unix:{path}")
        else:
            host, port = tcp_address(address)
            if self._token_file is None:
                raise Invalid(
                    f"{address} is a TCP address and no token is set: write a token into a file "
                    "and name it in the setting token_file, or serve on a Unix socket.",
                    metadata={"field": "token_file"},
                )
            token = await anyio.to_thread.run_sync(read_token, self._token_file)
            server = self._server((TokenGate(token),))
            got = _bind(server, f"{host}:{port}", address)
            self.addresses.append(f"{host}:{got}")
        self._servers.append(server)
        await server.start()

    def _server(self, gates: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
        server = grpc.aio.server(interceptors=gates, options=OPTIONS)
        names: list[str] = []
        for service in catalogue.services():
            names.append(service.full_name)
            handlers = {method.name: self._handler(service, method) for method in service.methods}
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service.full_name, handlers),)
            )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)  # pyright: ignore[reportUnknownMemberType]  its stubs are partial
        names += [health_pb2.DESCRIPTOR.services_by_name["Health"].full_name]
        reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
        return server

    def _handler(self, service: ServiceDescriptor, method: MethodDescriptor) -> "Handler":
        found = self._implementation(service, method)
        name = f"{service.name}.{method.name}"
        call = unsupported(name) if found is None else unary(found)
        read = message_class(method.input_type).FromString
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(call, read, to_bytes)
        return grpc.unary_unary_rpc_method_handler(call, read, to_bytes)


def to_bytes(answer: Any) -> bytes:
    """Bytes go out as they are: the event stream is encoded already."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def snake(name: str) -> str:
    """GetInfo -> get_info."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def tcp_address(address: str) -> tuple[str, int]:
    """Splits HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        Invalid: it is none.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and int(port) < 65536:
        return host, int(port)
    raise Invalid(
        f"{address!r} is no address to serve on: write unix:PATH or HOST:PORT.",
        metadata={"field": "listen"},
    )


def _bind(server: grpc.aio.Server, target: str, address: str) -> int:
    try:
        port = server.add_insecure_port(target)
    except RuntimeError as error:
        raise _taken(address, str(error)) from None
    if not port:
        raise _taken(address, "it could not be bound")
    return port


def _taken(address: str, why: str) -> DaemonFailed:
    return DaemonFailed(
        f"cannot serve on {address} ({why}): stop what serves there, or choose another address "
        "with --listen.",
        metadata={"address": address},
    )
