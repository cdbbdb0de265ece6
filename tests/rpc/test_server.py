"""Where the daemon serves, who may call, and what a plain gRPC tool finds there."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from agentctl.client import AgentCtl, Unreachable
from agentctl.core.errors import DaemonFailed, Invalid, Unauthenticated, Unsupported
from agentctl.rpc.catalogue import services
from agentctl.rpc.server import OPTIONS
from tests.rpc.fakes import FakeManager, house, make_server

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-some-length"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


def leave_a_stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def serve_elsewhere(path: Path) -> subprocess.Popen[bytes]:
    """A process of its own that serves on the path; it has printed `ready`."""
    code = f"""
import anyio
from tests.rpc.fakes import make_server
async def main():
    async with make_server(["unix:{path}"]):
        print("ready", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def kill(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.kill()
    child.wait()
    child.stdout.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_the_socket_is_for_its_owner_only() -> None:
    before = os.umask(0o002)
    try:
        async with house() as rooms:
            assert mode(rooms.path) == 0o600
            assert mode(rooms.path.parent) == 0o700
        assert not rooms.path.exists()
    finally:
        assert os.umask(before) == 0o002


async def test_a_second_server_on_the_same_socket_is_refused_with_the_firsts_pid() -> None:
    async with house() as rooms:
        with pytest.raises(DaemonFailed, match=f"pid {os.getpid()}"):
            async with make_server([f"unix:{rooms.path}"]):
                pass
        assert (await rooms.client.daemon.get_info()).version == "9.9"


async def test_a_socket_that_a_killed_daemon_left_is_taken_over(folder: Path) -> None:
    path = folder / "a.sock"
    leave_a_stale_socket(path)
    assert path.exists()
    async with make_server([f"unix:{path}"]), AgentCtl.connect(f"unix:{path}") as client:
        assert (await client.daemon.get_info()).version == "9.9"


async def test_a_file_that_is_no_socket_is_never_removed(folder: Path) -> None:
    path = folder / "precious"
    path.write_text("data")
    with pytest.raises(Invalid, match="no socket"):
        async with make_server([f"unix:{path}"]):
            pass
    assert path.read_text() == "data"


async def test_a_socket_path_that_is_too_long_is_refused_with_a_way_out(folder: Path) -> None:
    with pytest.raises(Invalid, match="shorter one, as --listen"):
        async with make_server([f"unix:{folder}/{'x' * 100}"]):
            pass


async def test_a_relative_socket_path_is_refused() -> None:
    with pytest.raises(Invalid, match="absolute"):
        async with make_server(["unix:a.sock"]):
            pass


async def test_a_directory_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(DaemonFailed, match="cannot be used"):
        async with make_server([f"unix:{folder}/file/a.sock"]):
            pass


async def test_tcp_is_refused_without_a_token() -> None:
    with pytest.raises(Invalid, match="no token is set") as caught:
        async with make_server(["127.0.0.1:0"]):
            pass
    assert caught.value.metadata == {"field": "token_file"}


@pytest.mark.parametrize("content", [None, "short", "\n", "é" * 20])
async def test_a_token_file_that_is_useless_is_refused(folder: Path, content: str | None) -> None:
    file = folder / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(Invalid, match="16"):
        async with make_server(["127.0.0.1:0"], token_file=file):
            pass


@pytest.mark.parametrize("address", ["here", "host:99999", ":1", "host:"])
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="unix:PATH or HOST:PORT"):
        async with make_server([address]):
            pass


async def test_over_tcp_only_the_token_opens(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("AGENTCTL_TOKEN", raising=False)
    file = folder / "token"
    file.write_text(f"{TOKEN}\n")
    async with make_server(["127.0.0.1:0"], token_file=file) as server:
        (address,) = server.addresses
        async with AgentCtl.connect(address, TOKEN) as client:
            assert list((await client.daemon.get_info()).addresses) == [address]
            with pytest.raises(Unsupported):
                await client.tasks.list()
        for token in (None, "a-token-of-some-lengtH", "é"):
            async with AgentCtl.connect(address, token and token.encode().hex()) as client:
                with pytest.raises(Unauthenticated, match="AGENTCTL_TOKEN"):
                    await client.daemon.get_info()
                with pytest.raises(Unauthenticated):
                    async for _ in client.events():
                        pass
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            assert (await stub.Check(health_pb2.HealthCheckRequest())).status == 1
            assert await reflected(channel) is None


async def test_a_taken_port_is_refused(folder: Path) -> None:
    file = folder / "token"
    file.write_text(TOKEN)
    async with make_server(["127.0.0.1:0"], token_file=file) as server:
        with pytest.raises(DaemonFailed, match="cannot serve on"):
            async with make_server(server.addresses, token_file=file):
                pass


async def test_one_daemon_serves_a_socket_and_a_port_at_once(folder: Path) -> None:
    file = folder / "token"
    file.write_text(TOKEN)
    asked = [f"unix:{folder}/a.sock", "127.0.0.1:0"]
    async with make_server(asked, token_file=file) as server:
        for address in server.addresses:
            async with AgentCtl.connect(address, TOKEN) as client:
                assert list((await client.daemon.get_info()).addresses) == server.addresses


async def test_health_says_that_each_service_serves() -> None:
    async with house() as rooms, grpc.aio.insecure_channel(f"unix:{rooms.path}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", *(service.full_name for service in services())):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def reflected(channel: grpc.aio.Channel) -> set[str] | None:
    open_channel: Any = channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(open_channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    try:
        async for answer in stub.ServerReflectionInfo(iter([request])):
            return {each.name for each in answer.list_services_response.service}
    except grpc.aio.AioRpcError as error:
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    return None


async def test_reflection_lists_every_service() -> None:
    async with house() as rooms, grpc.aio.insecure_channel(f"unix:{rooms.path}") as channel:
        names = await reflected(channel)
    assert names is not None
    assert names >= {service.full_name for service in services()}
    assert {"grpc.health.v1.Health", "agentctl.v1.Events"} <= names


async def test_a_client_may_ping_every_5_seconds_also_between_calls() -> None:
    options = dict(OPTIONS)
    assert options["grpc.http2.min_recv_ping_interval_without_data_ms"] == 5_000
    assert options["grpc.keepalive_permit_without_calls"] == 1


async def test_a_stopped_server_leaves_no_socket_and_tells_its_streams_why() -> None:
    async with house() as rooms:
        seen: list[Any] = []
        subscription = rooms.client.subscribe(patience_s=0)
        with anyio.fail_after(10):
            with pytest.raises(DaemonFailed) as caught:
                async for batch in subscription.batches():
                    seen.append(batch)
                    async with anyio.create_task_group() as group:
                        group.start_soon(rooms.server.__aexit__, None, None, None)
        assert caught.value.reason == "SERVER_ERROR"
        assert len(seen) == 1
        assert not rooms.path.exists()
        with pytest.raises(Unreachable, match="agentctl up"):
            await rooms.client.daemon.get_info()
        assert rooms.hub.closed == 1


async def test_a_daemon_killed_at_once_leaves_the_address_to_the_next(folder: Path) -> None:
    path = folder / "a.sock"
    child = await anyio.to_thread.run_sync(serve_elsewhere, path)
    try:
        with pytest.raises(DaemonFailed, match=f"pid {child.pid}"):
            async with make_server([f"unix:{path}"]):
                pass
    finally:
        kill(child)
    async with make_server([f"unix:{path}"]), AgentCtl.connect(f"unix:{path}") as client:
        assert (await client.daemon.get_info()).version == "9.9"


async def test_a_server_that_could_not_listen_everywhere_listens_nowhere(folder: Path) -> None:
    path = folder / "a.sock"
    with pytest.raises(Invalid):
        async with make_server([f"unix:{path}", "127.0.0.1:0"], manager=FakeManager()):
            pass
    assert not path.exists()
    async with make_server([f"unix:{path}"]):
        assert path.exists()
