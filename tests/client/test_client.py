"""The typed client: a method for each call, errors with a reason, and where it finds the daemon."""

import inspect
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import agentctl.client
from agentctl.client import AgentCtl, Unreachable
from agentctl.client.channel import parse_address
from agentctl.core.errors import Invalid, TimedOut, Unsupported
from agentctl.rpc.catalogue import services
from agentctl.rpc.server import snake
from tests.rpc.fakes import house

pytestmark = pytest.mark.anyio

METHODS = [(service.name, method.name) for service in services() for method in service.methods]


@pytest.mark.proves("D1")
@pytest.mark.parametrize(("service", "method"), METHODS)
async def test_every_call_of_the_api_has_a_client_method(service: str, method: str) -> None:
    async with AgentCtl.connect("unix:/nowhere") as client:
        if (service, method) == ("Events", "Subscribe"):
            assert inspect.isasyncgenfunction(client.events)
            assert inspect.isasyncgenfunction(client.batches)
            return
        found: Any = getattr(getattr(client, snake(service)), snake(method))
        fields = {
            field.name.removesuffix("_json")
            for each in services()
            if each.name == service
            for field in each.methods_by_name[method].input_type.fields
        }
        taken = {name.removesuffix("_json") for name in inspect.signature(found).parameters}
        assert fields - {"all"} <= taken


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("localhost:7000", "dns:///localhost:7000"),
        ("[::1]:7000", "dns:///[::1]:7000"),
    ],
)
async def test_an_address_is_a_socket_or_host_and_port(address: str, target: str) -> None:
    assert parse_address(address) == target
    async with AgentCtl.connect(address) as client:
        assert client.address == address


@pytest.mark.parametrize("address", ["", "unix:", "host", "host:", ":7000", "host:x", "h:99999"])
async def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(Invalid, match="unix:PATH or HOST:PORT"):
        AgentCtl.connect(address)


async def test_without_an_address_it_is_the_environments_or_the_default(
    monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTCTL_ADDRESS", "host:7000")
    async with AgentCtl.connect() as client:
        assert client.address == "host:7000"
    monkeypatch.delenv("AGENTCTL_ADDRESS")
    monkeypatch.setenv("AGENTCTL_DATA_DIR", str(tmp_path))
    async with AgentCtl.connect() as client:
        assert client.address == f"unix:{tmp_path}/run/agentctl.sock"


async def test_no_daemon_at_the_address_is_an_error_of_its_own(tmp_path: Path) -> None:
    async with AgentCtl.connect(f"unix:{tmp_path}/none.sock") as client:
        with pytest.raises(Unreachable, match="agentctl up") as caught:
            await client.daemon.get_info()
    assert caught.value.reason == "SERVER_ERROR"
    assert caught.value.metadata["address"].endswith("none.sock")


async def test_a_try_to_reach_a_daemon_that_hangs_can_be_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        async with AgentCtl.connect(f"unix:{path}") as client:
            with pytest.raises(TimedOut), anyio.fail_after(10):
                await client.daemon.get_info(timeout_s=0.05)


def test_importing_the_client_keeps_grpc_from_hooking_forks() -> None:
    code = (
        "import sys, agentctl.client, os;"
        "print(os.environ['GRPC_ENABLE_FORK_SUPPORT'], 'agentctl.config' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["0", "False"]


def test_the_objects_are_loaded_when_they_are_named() -> None:
    code = (
        "import sys, agentctl.client as c; print('agentctl.client.run' in sys.modules);"
        "c.Run; print('agentctl.client.run' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["False", "True"]


def test_each_name_that_is_offered_is_there() -> None:
    assert all(getattr(agentctl.client, name) for name in agentctl.client.__all__)
    with pytest.raises(AttributeError):
        _ = agentctl.client.Nothing  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


CALLS: dict[str, Callable[[AgentCtl], Awaitable[Any]]] = {
    "tools.invoke": lambda c: c.tools.invoke("ses_1", "bash", b"{}", idempotency_key="k"),
    "environments.create": lambda c: c.environments.create("local"),
    "environments.delete": lambda c: c.environments.delete("local"),
    "tasks.list": lambda c: c.tasks.list(),
    "tasks.get": lambda c: c.tasks.get("t"),
    "tasks.cancel": lambda c: c.tasks.cancel("t"),
    "tasks.events": lambda c: anext(aiter(c.tasks.events("t"))),
}


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_the_daemon_does_not_serve_raises_unsupported(name: str) -> None:
    async with house() as rooms:
        with pytest.raises(Unsupported) as caught:
            await CALLS[name](rooms.client)
        assert name not in (await rooms.client.daemon.get_info()).capabilities
    assert snake(caught.value.metadata["method"].replace(".", "")) == name.replace(".", "_")


async def test_a_call_that_is_too_large_says_so() -> None:
    async with house() as rooms:
        with pytest.raises(Invalid, match="too large: send less"):
            await rooms.client.runs.create("ses_1", "x" * (65 << 20))
        await rooms.client.daemon.get_info()
