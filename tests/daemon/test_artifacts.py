"""Artifacts as a client gets them, from a real daemon with an agent that works in a real repository."""

import os
import resource
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import orjson
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError, NotFound, Unsupported
from agentctl.rpc.enums import words
from tests.daemon.harness import Daemon, daemon, wait_until_gone
from tests.workspace.repos import Repo

pytestmark = pytest.mark.anyio

# A run with git takes a tenth of a second; whoever waits longer has found a hang.
TEST_S = 120


def kind(artifact: v1.ArtifactSummary) -> str:
    return words(v1.ArtifactKind.DESCRIPTOR)[artifact.kind]


def of_kind(artifacts: Sequence[v1.ArtifactSummary], name: str) -> list[v1.ArtifactSummary]:
    return [each for each in artifacts if kind(each) == name]


def repository(root: Path) -> Repo:
    path = root / "work"
    path.mkdir()
    repo = Repo(path, root)
    repo.git("init", "-q")
    repo.write("text.txt", "".join(f"line {number}\n" for number in range(50)))
    repo.write("bytes.bin", bytes(range(256)) * 8)
    repo.write("old-name.txt", "moves\n" * 20)
    repo.write("goes.txt", "goes\n")
    repo.write("tool.sh", "#!/bin/sh\n")
    repo.write(".gitignore", "ignored.txt\n")
    repo.commit("first")
    return repo


def files(repo: Repo) -> dict[str, tuple[int, bytes]]:
    """What git would see of a work tree: modes and contents."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(repo.path.rglob("*")):
        name = str(path.relative_to(repo.path))
        if name.startswith(".git/") or name == "ignored.txt":
            continue
        if path.is_symlink():
            found[name] = (0, str(path.readlink()).encode())
        elif path.is_file():
            found[name] = (path.stat().st_mode & 0o111, path.read_bytes())
    return found


async def run(client: AgentCtl, session: str, prompt: str) -> v1.Run:
    made = await client.runs.create(session, prompt)
    waited = await client.runs.wait(made.run.run_id)
    return waited.run


async def download(client: AgentCtl, artifact_id: str) -> bytes:
    return b"".join([chunk.data async for chunk in client.artifacts.download(artifact_id)])


async def apply(repo: Repo, patch: bytes) -> None:
    await anyio.to_thread.run_sync(partial(repo.git, "apply", "--index", feed=patch))


async def started(client: AgentCtl, workspace: Path) -> str:
    session = await client.sessions.create("demo", str(workspace), policy="allow", wait_ready=True)
    return session.session_id


CHANGES = {
    "a text": "run! sed -i 's/line 7$/seven/' text.txt",
    "a new file": "write deep/new.txt something new",
    "bytes": r"run! printf '\000\001\377changed' | dd of=bytes.bin conv=notrunc status=none",
    "a new file of bytes": "run! head -c 3000 /dev/urandom > fresh.bin",
    "a rename": "run! mv old-name.txt new-name.txt",
    "a delete": "run! rm goes.txt",
    "a mode": "run! chmod +x tool.sh",
    "a link": "run! ln -s text.txt link",
    "an empty file and a name with spaces": "run! touch 'with spaces é' && : > empty",
    "no line end": "run! printf 'no end' > text.txt",
}


@pytest.mark.proves("AR17", "W1")
async def test_the_patch_of_a_run_applied_to_a_clean_checkout_gives_the_workspace(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            for number, (what, prompt) in enumerate(CHANGES.items()):
                repo.git("reset", "-q", "--hard")
                repo.git("clean", "-qfd")
                clean = repo.clone(tmp_path / f"clean-{number}")
                session = await started(client, repo.path)
                ended = await run(client, session, f"run! touch ignored.txt || {prompt}")
                (patch,) = of_kind(ended.artifacts, "patch")
                assert patch.commit == repo.git("rev-parse", "HEAD"), what
                assert (patch.mime_type, patch.redacted, patch.deleted) == (
                    "text/x-diff",
                    False,
                    False,
                )
                data = await download(client, patch.artifact_id)
                assert len(data) == patch.size
                await apply(clean, data)
                assert files(clean) == files(repo), what
                await client.sessions.close(session)


@pytest.mark.proves("AR17")
async def test_the_patches_of_queued_runs_apply_in_their_order(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    clean = repo.clone(tmp_path / "clean")
    prompts = [
        "run! sed -i 's/line 1$/one/' text.txt || write a.txt first",
        "write a.txt second || run! mv a.txt b.txt",
        "run! sed -i 's/one/ONE/' text.txt || run! rm b.txt || write c.txt third",
    ]
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await started(client, repo.path)
            made = [(await client.runs.create(session, each)).run.run_id for each in prompts]
            patches: list[v1.ArtifactSummary] = []
            for run_id in made:
                ended = (await client.runs.wait(run_id)).run
                patches += of_kind(ended.artifacts, "patch")
                events = [each async for each in client.events(runs=[run_id], follow=False)]
                told = [words(v1.EventType.DESCRIPTOR)[each.type] for each in events]
                assert told[-1] == "complete" and "artifact" in told
                assert all(each.run_id == run_id for each in events)
            assert [each.run_id for each in patches] == made
            # Only the first began with a clean checkout.
            assert [each.HasField("commit") for each in patches] == [True, False, False]
            for patch in patches:
                await apply(clean, await download(client, patch.artifact_id))
            assert files(clean) == files(repo)
            assert repo.git("diff", "--cached", "--stat") == "", "the user's index is as it was"


async def test_what_a_run_made_can_be_listed_read_in_ranges_and_deleted(tmp_path: Path) -> None:
    workspace = tmp_path / "plain"
    workspace.mkdir()
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            info = await client.daemon.get_info()
            assert {"artifacts.list", "artifacts.get", "artifacts.download"} <= set(
                info.capabilities
            )
            session = await started(client, workspace)
            ended = await run(
                client,
                session,
                "write a.md text || picture || picture Take a screenshot || run! seq 100000",
            )
            assert sorted(kind(each) for each in ended.artifacts) == [
                "file",
                "log",
                "media",
                "screenshot",
                "trajectory",
            ]
            listed = await client.artifacts.list(session_id=session, kinds=["file", "log"])
            assert [kind(each) for each in listed.artifacts] == ["file", "log"]
            (log,) = of_kind(ended.artifacts, "log")
            whole = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
            assert await download(client, log.artifact_id) == whole
            part = client.artifacts.download(log.artifact_id, offset=500_000, length=10)
            assert b"".join([chunk.data async for chunk in part]) == whole[500_000:500_010]
            (told,) = of_kind(ended.artifacts, "trajectory")
            lines = (await download(client, told.artifact_id)).splitlines()
            types = [orjson.loads(line)["type"] for line in lines]
            assert types[0] == "run_status" and types[-2:] == ["artifact", "complete"]
            assert not told.HasField("size")
            got = await client.runs.get(ended.run_id)
            assert [each.artifact_id for each in got.artifacts] == [
                each.artifact_id for each in ended.artifacts
            ]
            await client.sessions.delete(session)
            for each in ended.artifacts:
                with pytest.raises(NotFound) as gone:
                    await client.artifacts.get(each.artifact_id)
                assert gone.value.reason == "ARTIFACT_NOT_FOUND"
            assert [each for each in (served.data_dir / "blobs").rglob("*") if each.is_file()] == []


async def test_a_screenshot_is_known_by_the_tool_that_shows_it(tmp_path: Path) -> None:
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await started(client, tmp_path)
            ended = await run(client, session, "picture Take a screenshot of the page")
            (shot,) = of_kind(ended.artifacts, "screenshot")
            assert (await download(client, shot.artifact_id)).startswith(b"\x89PNG")
            assert shot.title == "Take a screenshot of the page"


def hanging_git(root: Path) -> tuple[Path, str]:
    """A git that waits in `write-tree` for as long as a file is there; and the PATH to find it."""
    folder, flag, git = root / "bin", root / "hold", shutil.which("git")
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *write-tree*) while [ -e {flag} ]; do touch {flag}.hit; sleep 0.02; done;;'
        f' esac\nexec {git} "$@"\n'
    )
    program.chmod(0o755)
    return flag, f"{folder}:{os.environ['PATH']}"


async def appears(path: Path) -> None:
    while not await anyio.Path(path).exists():  # noqa: ASYNC110  # no event tells
        await anyio.sleep(0.01)


def kept_files(served: Daemon) -> list[Path]:
    return [path for path in (served.data_dir / "blobs").rglob("*") if path.is_file()]


@pytest.mark.proves("AR6")
async def test_a_daemon_killed_while_it_collects_ends_the_run_and_leaves_nothing_half(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path)
    flag, path = hanging_git(tmp_path)
    python = str(Path(sys.executable).parent)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path, PATH=f"{python}:{path}") as served:
            async with served.client() as client:
                session = await started(client, repo.path)
                made = await client.runs.create(session, "write a.txt one || run! sleep 0.2")
                async for event in client.events(runs=[made.run.run_id]):
                    if event.HasField("file_change"):
                        flag.touch()
                        break
                await appears(flag.with_suffix(".hit"))
            served.kill()
            (served.data_dir / "blobs" / "ab").mkdir(parents=True, exist_ok=True)
            (served.data_dir / "blobs" / "ab" / ("c" * 62)).write_bytes(b"nobody's")
            (served.data_dir / "blobs" / ".new-1").write_bytes(b"half")
            flag.unlink()
            await wait_until_gone(tmp_path)
            await served.start()
            async with served.client() as client:
                run_record = await client.runs.get(made.run.run_id)
                assert run_record.error.code == "DAEMON_RESTARTED"
                assert of_kind(run_record.artifacts, "patch") == []
                ended = await run(client, session, "write b.txt two")
                (patch,) = of_kind(ended.artifacts, "patch")
                assert b"b.txt" in await download(client, patch.artifact_id)
                hashes = {each.sha256 for each in ended.artifacts if each.sha256}
                hashes |= {each.sha256 for each in run_record.artifacts if each.sha256}
                while {path.parent.name + path.name for path in kept_files(served)} != hashes:  # noqa: ASYNC110  # no event tells
                    await anyio.sleep(0.02)


async def test_secrets_that_an_agent_was_given_are_in_none_of_its_artifacts(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    secret = "correct-horse-battery-staple"
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create(
                "demo", str(repo.path), policy="allow", env={"TOKEN_X": secret}, wait_ready=True
            )
            prompt = f"write a.txt {secret} || run! yes {secret} | head -n 20000"
            ended = await run(client, session.session_id, prompt)
            made = [each for each in ended.artifacts if kind(each) != "trajectory"]
            assert sorted(kind(each) for each in made) == ["file", "log", "patch"]
            for each in made:
                assert each.redacted
                data = await download(client, each.artifact_id)
                assert secret.encode() not in data and b"[redacted]" in data
            (told,) = of_kind(ended.artifacts, "trajectory")
            assert secret.encode() not in await download(client, told.artifact_id)
            (patch,) = of_kind(made, "patch")
            assert "does not apply" in patch.title


async def test_an_unknown_artifact_is_told_and_so_is_one_of_another_run(tmp_path: Path) -> None:
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await started(client, tmp_path)
            first = await run(client, session, "write a.txt one")
            second = await run(client, session, "say nothing")
            (file,) = of_kind(first.artifacts, "file")
            with pytest.raises(NotFound, match="is not of run"):
                await client.artifacts.get(file.artifact_id, run_id=second.run_id)
            with pytest.raises(NotFound, match="there is no artifact"):
                await download(client, "art_none")
            with pytest.raises((AgentctlError, Unsupported)):
                await client.artifacts.list(run_id="run_none")


@pytest.mark.proves("AR12")
async def test_a_shorter_time_in_the_settings_holds_for_what_is_kept_already(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served:
            async with served.client() as client:
                session = await started(client, repo.path)
                ended = await run(client, session, "write a.txt one")
                (patch,) = of_kind(ended.artifacts, "patch")
                assert patch.expires_at - patch.created_at == 90 * 86_400_000
            await served.stop()
            (tmp_path / "agentctl.toml").write_text("artifact_days = 0.000001\n")
            await served.start()
            async with served.client() as client:
                while kept_files(served):  # noqa: ASYNC110  # no event tells
                    await anyio.sleep(0.02)
                gone = await client.artifacts.get(patch.artifact_id)
                assert gone.deleted and gone.sha256 == patch.sha256
                with pytest.raises(NotFound, match="are gone: it was kept until") as told:
                    await download(client, patch.artifact_id)
                assert told.value.reason == "ARTIFACT_NOT_FOUND"
                kinds = [kind(each) for each in (await client.runs.get(ended.run_id)).artifacts]
                assert sorted(kinds) == ["file", "patch", "trajectory"]


@pytest.mark.proves("AR5")
async def test_a_disk_without_room_for_an_artifact_costs_that_one_alone(tmp_path: Path) -> None:
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await started(client, tmp_path)
            await run(client, session, "say hello")
            assert served.process is not None
            # No file of the daemon may grow beyond this: its journal does not, the artifact would.
            limit = 900_000
            resource.prlimit(
                served.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)
            )
            ended = await run(client, session, "run! seq 200000")
            assert ended.state == v1.RunState.RUN_STATE_COMPLETED
            assert of_kind(ended.artifacts, "log") == []
            events = [each async for each in client.events(runs=[ended.run_id], follow=False)]
            (error,) = [each.error for each in events if each.HasField("error")]
            assert (error.code, error.recoverable) == ("DISK_FULL", True)
            assert "was not kept" in error.message
            assert events[-1].HasField("complete")
            assert kept_files(served) == []
            resource.prlimit(
                served.process.pid,
                resource.RLIMIT_FSIZE,
                (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            )
            after = await run(client, session, "run! seq 200000")
            assert len(of_kind(after.artifacts, "log")) == 1
