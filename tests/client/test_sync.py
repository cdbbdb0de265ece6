"""The client for programs without an event loop: the same calls, each of which waits."""

import ast
import importlib.util
import inspect
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from agentctl.client import NotFound, sync
from agentctl.rpc.catalogue import services
from agentctl.rpc.server import snake
from agentctl.testing.fake_daemon import (
    AskQuestion,
    FakeDaemon,
    Gate,
    Say,
    UseTool,
    Wait,
    WriteFile,
)

ROOT = Path(__file__).resolve().parents[2]
STUB = ast.parse((ROOT / "agentctl/client/sync.pyi").read_text(encoding="utf-8"))
PROGRAM_S = 30.0
SHELL = UseTool("exec", "execute", command="ls", ask=True)


@pytest.fixture(scope="module")
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("gen_sync", ROOT / "tools/gen_sync.py")
    assert spec and spec.loader
    tool: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    """A daemon whose event loop is in another thread."""
    with anyio.from_thread.start_blocking_portal() as portal:
        made = FakeDaemon("coder")
        with portal.wrap_async_context_manager(made):
            yield made


@pytest.fixture
def client(daemon: FakeDaemon) -> Iterator[sync.AgentCtl]:
    with sync.AgentCtl.connect(daemon.address) as made:
        yield made


def stub(name: str) -> dict[str, ast.FunctionDef]:
    (found,) = (n for n in STUB.body if isinstance(n, ast.ClassDef) and n.name == name)
    return {each.name: each for each in found.body if isinstance(each, ast.FunctionDef)}


@pytest.mark.proves("D1")
def test_its_types_are_made_from_the_asynchronous_client(generator: Any) -> None:
    assert not generator.stale(), "run tools/gen_sync.py"


@pytest.mark.proves("D1")
def test_every_class_that_a_call_can_give_has_a_mirror(generator: Any) -> None:
    written = {name for _, name in generator.CLASSES} - {"_Request"}
    assert written == {original.__name__ for original in sync.MIRRORS}


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("service", "method"),
    [(s.name, m.name) for s in services() for m in s.methods if s.name != "Events"],
)
def test_every_call_of_the_api_has_a_method_that_waits(service: str, method: str) -> None:
    original = next(each for each in sync.ORIGINALS if each.__name__ == service)
    found = stub(service)[snake(method)]
    assert not isinstance(found, ast.AsyncFunctionDef)
    asked = list(inspect.signature(getattr(original, snake(method))).parameters)
    told = [each.arg for each in (*found.args.args, *found.args.kwonlyargs)]
    assert told == asked


@pytest.mark.proves("D1")
def test_the_event_stream_has_methods_that_wait() -> None:
    for name in ("events", "batches", "subscribe"):
        assert "Iterator" in ast.unparse(stub("AgentCtl")[name]) or name == "subscribe"


def test_a_program_without_a_loop_prompts_reads_answers_and_downloads(
    daemon: FakeDaemon, client: sync.AgentCtl, tmp_path: Path
) -> None:
    coder = daemon.agent("coder").on(
        "",
        SHELL,
        AskQuestion("Which?", ["a", "b"]),
        WriteFile("made.txt", "0123456789"),
        Say(lambda values: f"took {values[0]}"),
    )
    run = client.agent("coder").run("x", workspace=daemon.workspace, keep_session=True)
    threads: list[str] = []

    def allow(request: sync.Approval) -> None:
        threads.append(threading.current_thread().name)
        request.approve_once(reason="fine")

    run.on_approval(allow)
    run.on_question(lambda question: question.answer("b"))
    families = [event.family for event in run.events()]
    assert families[0] == "run.created" and families[-1] == "run.completed"
    assert run.wait().text == "took b"
    assert coder.answers[0].reason == "fine" and threads != [threading.current_thread().name]
    (file,) = run.artifacts.list(kinds=["file"])
    assert isinstance(file, sync.Artifact)
    assert b"".join(file.stream(offset=5)) == b"56789" and file.read(length=2) == b"01"
    assert file.download(tmp_path / "copy").read_text() == "0123456789"
    session = run.session()
    assert isinstance(session, sync.Session)
    assert session.info().state == "idle" and "exec" in {tool.name for tool in run.tool_space()}
    assert sum(1 for _ in client.events(runs=[run.id])) == len(families)
    with pytest.raises(NotFound):
        client.run("run_none").wait()


def test_a_reader_may_leave_in_the_middle_and_go_on_later(
    daemon: FakeDaemon, client: sync.AgentCtl
) -> None:
    daemon.agent("coder").on("", Say("a b c", in_words=True))
    run = client.agent("coder").run("x", workspace=daemon.workspace)
    first = ""
    for event in run.events():
        first = event.id
        break
    rest = [event.id for event in run.events(after=first)]
    assert first not in rest and len(rest) == len(set(rest)) == 5


def test_what_a_callback_raises_is_raised_to_who_waits(
    daemon: FakeDaemon, client: sync.AgentCtl, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.agent("coder").on("", SHELL)
    run = client.agent("coder").run("x", workspace=daemon.workspace)

    def fail(request: sync.Approval) -> None:
        raise LookupError("no such policy")

    run.on_approval(fail)
    with pytest.raises(LookupError):
        run.wait()
    (request,) = run.approvals()
    request.deny()
    assert run.wait().status == "completed"

    async def wrong(request: sync.Approval) -> None: ...

    with pytest.raises(TypeError, match="drop the async"):
        run.on_approval(wrong)


def test_a_session_has_its_name_and_labels_here_too(
    daemon: FakeDaemon, client: sync.AgentCtl
) -> None:
    agent = client.agent("coder")
    told = agent.session(workspace=daemon.workspace, name="first", labels={"a": "b"}).info()
    assert (told.name, dict(told.labels)) == ("first", {"a": "b"})


def test_a_client_that_is_closed_says_so_and_leaves_no_thread(daemon: FakeDaemon) -> None:
    client = sync.AgentCtl.connect(daemon.address)
    names = [each.name for each in threading.enumerate()]
    assert "agentctl-client" in names
    client.close()
    client.close()
    assert "agentctl-client" not in [each.name for each in threading.enumerate()]
    with pytest.raises(RuntimeError, match="closed"):
        client.daemon.get_info()


@pytest.mark.parametrize("what", ["events", "run", "wait"])
def test_a_thread_that_reads_when_the_client_is_closed_is_told_so(
    daemon: FakeDaemon, what: str
) -> None:
    gate = Gate()
    daemon.agent("coder").on("", Say("hello"), Wait(gate))
    client = sync.AgentCtl.connect(daemon.address)
    run = client.agent("coder").run("x", workspace=daemon.workspace)
    reads, raised = threading.Event(), list[BaseException]()

    def read() -> None:
        source = client.events(follow=True) if what == "events" else run.events()
        try:
            if what == "wait":
                reads.set()
                run.wait()
            for event in source:
                if getattr(event, "run_id", ""):
                    reads.set()
        except BaseException as error:  # noqa: BLE001  what is tested
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert reads.wait(PROGRAM_S)
    client.close()
    thread.join(PROGRAM_S)
    assert not thread.is_alive()
    (error,) = raised
    assert isinstance(error, RuntimeError) and "this client is closed" in str(error)


@pytest.mark.anyio
async def test_it_works_in_the_thread_of_a_running_loop(tmp_path: Path) -> None:
    made = FakeDaemon("coder")
    made.agent("coder").on("", Say("hello"))

    def serve() -> None:
        anyio.run(_serve, made, ready, done)

    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(30)
        with sync.AgentCtl.connect(made.address) as client:
            run = client.agent("coder").run("x", workspace=made.workspace)
            assert run.wait().text == "hello"
    finally:
        done.set()
        thread.join(30)


async def _serve(made: FakeDaemon, ready: threading.Event, done: threading.Event) -> None:
    async with made:
        ready.set()
        await anyio.to_thread.run_sync(done.wait)


def test_a_wait_that_is_up_says_so_and_the_run_goes_on(
    daemon: FakeDaemon, client: sync.AgentCtl
) -> None:
    daemon.agent("coder").on("", Wait(Gate()))
    run = client.agent("coder").run("x", workspace=daemon.workspace)
    assert run.wait(timeout_ms=1).status == "accepted"
    run.cancel()
    assert run.wait().status == "cancelled"


PROGRAM = """
import sys
from agentctl.client.sync import AgentCtl

client = AgentCtl.connect(sys.argv[1])
run = client.agent("coder").run("x", workspace=sys.argv[2])
events = run.events()
print(next(events).family, flush=True)
"""


def program(daemon: FakeDaemon, more: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-X", "dev", "-c", PROGRAM + more, daemon.address]
    return subprocess.Popen(
        [*argv, str(daemon.workspace)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_ctrl_c_ends_a_wait(daemon: FakeDaemon) -> None:
    gate = Gate()
    daemon.agent("coder").on("", Wait(gate))
    waiting = """
try:
    print("waiting", flush=True)
    run.wait()
except KeyboardInterrupt:
    print("interrupted")
"""
    with program(daemon, waiting) as running:
        assert running.stdout and running.stdout.readline() == "run.created\n"
        assert running.stdout.readline() == "waiting\n" and gate.wait_reached(PROGRAM_S)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=PROGRAM_S)
    assert out == "interrupted\n" and running.returncode == 0


def test_a_program_that_closes_nothing_ends_all_the_same(daemon: FakeDaemon) -> None:
    daemon.agent("coder").on("", Wait(Gate()))
    with program(daemon, "run.on_approval(print)") as running:
        out, err = running.communicate(timeout=PROGRAM_S)
    assert (out, running.returncode) == ("run.created\n", 0)
    assert "Traceback" not in err and "never" not in err, err
