"""What a user of the Codex adapter sees of starts, ends, logins, settings and conversations."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature, PermissionAnswer
from agentctl.core.errors import AgentFailed, Invalid, NotFound, Refused, Unsupported
from agentctl.core.events import Log, SessionOptions
from agentctl.core.ids import NativeRequestId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import McpServer, PromptSpec
from agentctl.core.words import ContentType, Decision, Outcome, Policy
from agentctl_adapters.codex import adapter as adapter_rules
from agentctl_adapters.codex import native
from tests.adapters.codex.harness import (
    Seen,
    alive,
    fake,
    launch,
    one_turn,
    running,
    spec,
    text,
)

pytestmark = pytest.mark.anyio


async def test_the_handshake_tells_version_and_features() -> None:
    async with running(fake()) as (codex, seen):
        assert (codex.info.name, codex.info.version) == ("codex", "0.169.0")
        assert {Feature.MANY_SESSIONS, Feature.LIVE_RESUME, Feature.STEER} <= codex.info.features
        assert codex.info.auth_methods == ()
        assert seen.sent("initialize")[0]["capabilities"]["experimentalApi"] is True


@pytest.mark.proves("P6")
async def test_an_agent_that_never_answers_is_killed_at_the_deadline() -> None:
    with pytest.raises(AgentFailed, match=r"did not answer initialize within 0.3 s"):
        async with running(fake("silent-start"), config={"handshake_timeout_ms": 300}):
            pass


@pytest.mark.proves("P6")
async def test_an_agent_that_dies_at_its_start_says_its_last_words() -> None:
    with pytest.raises(AgentFailed, match=r"exited with code 3.*no longer supported"):
        async with running(fake("dies-at-start")):
            pass


async def test_a_program_that_is_not_there_is_not_installed() -> None:
    with pytest.raises(Refused) as refused:
        async with running(("/no/such/codex", "app-server"), install="npm i -g @openai/codex"):
            pass
    assert refused.value.reason == "AGENT_NOT_INSTALLED"
    assert "npm i -g @openai/codex" in refused.value.message


@pytest.mark.proves("T5")
@pytest.mark.parametrize("asks", ["", "asks"])
async def test_a_death_in_mid_turn_ends_the_run_with_code_and_last_words(asks: str) -> None:
    async with running(fake("dies-in-turn", asks)) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "SAY 1")
        assert end.error is not None
        assert (end.error.code, end.error.exit_code) == ("AGENT_EXITED", 7)
        assert end.error.stderr_tail == ["thread main panicked"]
        assert seen.said() == "last words "
        with pytest.raises(AgentFailed):
            await codex.prompt(session, text("SAY 1"))


@pytest.mark.proves("P1", "P3")
async def test_leaving_ends_an_agent_that_ignores_the_end_of_its_stdin() -> None:
    seen = Seen()
    asked = launch(fake("ignores-eof"), seen)
    with anyio.fail_after(20):
        async with adapter_rules.connect(asked, seen.sink, seen.progress.append) as codex:
            session = await codex.new_session(spec())
            await codex.prompt(session, text("HANG"))
            assert alive(asked.cookie)
    assert alive(asked.cookie) == []
    assert seen.outcomes() == [Outcome.FAILED]


@pytest.mark.proves("P8", "M1")
async def test_an_answer_of_five_megabytes_comes_once() -> None:
    async with running(fake("big-line")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SAY 1")
        assert len(seen.said()) == 5_000_000


@pytest.mark.proves("P9", "M8")
async def test_noise_between_the_messages_changes_nothing() -> None:
    async with running(fake("noise")) as (codex, seen):
        session = await codex.new_session(spec())
        assert (await one_turn(codex, seen, session, "SAY 2")).outcome is Outcome.COMPLETED
        assert seen.said(session) == "w0 w1 "
        logged = " ".join(str(getattr(d, "payload", "")) for d in seen.drafts)
        assert "panic: not JSON" in logged
        assert "some/news" in logged
        assert "hologram" in logged


async def test_without_a_login_no_session_starts_and_the_ways_are_named(tmp_path: Path) -> None:
    async with running(fake("not-logged-in"), env={"HOME": str(tmp_path)}) as (codex, _):
        assert [each.id for each in codex.info.auth_methods] == ["api-key", "chatgpt"]
        with pytest.raises(Refused, match="codex login") as refused:
            await codex.new_session(spec())
        assert refused.value.reason == "AUTH_REQUIRED"
        with pytest.raises(Invalid, match="set CODEX_API_KEY or OPENAI_API_KEY"):
            await codex.authenticate("api-key")
        with pytest.raises(Unsupported, match="terminal"):
            await codex.authenticate("chatgpt")


async def test_a_key_of_the_environment_is_handed_over_and_kept_in_memory(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "OPENAI_API_KEY": "sk-test"}
    async with running(fake("not-logged-in"), env=env) as (_, seen):
        assert seen.sent("account/login/start") == [{"type": "apiKey", "apiKey": "sk-test"}]


def test_a_key_is_used_only_where_nobody_has_logged_in(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "OPENAI_API_KEY": "sk-test"}
    prepared = adapter_rules.prepared(launch(("codex", "app-server"), Seen(), env=env))
    assert prepared.argv[-1] == 'cli_auth_credentials_store="ephemeral"'
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/auth.json").write_text("{}")
    prepared = adapter_rules.prepared(launch(("codex", "app-server"), Seen(), env=env))
    assert prepared.argv == ("codex", "app-server")


async def test_a_broken_config_is_told_and_named() -> None:
    async with running(fake("bad-config")) as (codex, seen):
        with pytest.raises(AgentFailed, match="repair the file"):
            await codex.new_session(spec())
        await seen.until(seen.errors)
        assert "config.toml:1:17" in seen.errors()[0].message


@pytest.mark.proves("S8")
async def test_settings_that_are_not_granted_are_warned_of() -> None:
    async with running(fake("other-settings")) as (codex, seen):
        session = await codex.new_session(spec(mode="auto", model="gpt-asked"))
        words = [error.message for error in seen.errors()]
        assert words == [
            "sandbox is read-only, although workspace-write was asked for",
            "model is gpt-other, although gpt-asked was asked for",
        ]
        options = seen.of(SessionOptions, session)[0]
        assert (options.model, options.mode) == ("gpt-other", "read-only")


async def test_a_home_in_a_temporary_directory_is_warned_of(tmp_path: Path) -> None:
    env = {"CODEX_HOME": str(tmp_path), "TMPDIR": str(tmp_path.parent)}
    async with running(fake(), env=env) as (_, seen):
        await seen.until(seen.errors)
        assert "sandbox refuses" in seen.errors()[0].message


async def test_modes_set_policy_and_sandbox_and_full_access_needs_an_environment() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec(mode="untrusted"))
        start = seen.sent("thread/start")[0]
        assert (start["approvalPolicy"], start["sandbox"]) == ("untrusted", "workspace-write")
        await codex.set_mode(session, "read-only")
        await codex.set_mode(session, "plan")
        await codex.set_mode(session, "auto")
        read_only, plan, auto = seen.sent("thread/settings/update")
        assert read_only["sandboxPolicy"]["type"] == "readOnly"
        assert plan["collaborationMode"]["mode"] == "plan"
        assert auto["collaborationMode"]["mode"] == "default"
        with pytest.raises(Invalid, match="lifts the sandbox"):
            await codex.set_mode(session, "full-access")
        with pytest.raises(Invalid, match="has no mode 'fast'"):
            await codex.new_session(spec(mode="fast"))
        contained = await codex.new_session(spec(environment="container", mode="untrusted"))
        policy = seen.sent("thread/settings/update")[-1]["sandboxPolicy"]
        assert policy["type"] == "externalSandbox"
        await seen.until(lambda: seen.of(SessionOptions, contained)[-1].mode == "untrusted")
        await codex.set_mode(contained, "full-access")
        policy = seen.sent("thread/settings/update")[-1]["sandboxPolicy"]
        assert policy["type"] == "dangerFullAccess"


@pytest.mark.parametrize(("chosen", "sandbox"), [("", "workspace-write"), ("read-only", None)])
async def test_the_entrys_mode_counts_where_the_user_has_chosen_no_sandbox(
    chosen: str, sandbox: str | None
) -> None:
    async with running(fake("plain", chosen), config={"default_mode": "auto"}) as (codex, seen):
        await codex.new_session(spec())
        await codex.new_session(spec(trust_workspace=False))
        started = seen.sent("thread/start")
        assert [params.get("sandbox") for params in started] == [sandbox, None]


async def test_a_mode_leaves_the_network_as_its_user_has_it() -> None:
    async with running(fake("plain", "workspace-write")) as (codex, seen):
        session = await codex.new_session(spec(additional_directories=("/more",)))
        for mode in ("auto", "read-only"):
            await codex.set_mode(session, mode)
        auto, read_only = [each["sandboxPolicy"] for each in seen.sent("thread/settings/update")]
        assert (auto["networkAccess"], auto["writableRoots"]) == (True, ["/more"])
        assert read_only["networkAccess"] is False


async def test_tools_that_must_ask_make_codex_ask_always() -> None:
    must = ("exec_command",)
    async with running(fake(), tools_requiring_permission=must) as (codex, seen):
        await codex.new_session(spec())
        await codex.new_session(spec(policy=Policy.ALLOW))
        asking, free = seen.sent("thread/start")
        assert asking["approvalPolicy"] == "untrusted"
        assert "approvalPolicy" not in free


async def test_a_session_is_opened_with_its_servers_directories_and_effort() -> None:
    servers = (
        McpServer("files", command="mcp", args=("-v",), env={"A": "1"}),
        McpServer("far", transport="http", url="http://x", headers={"K": "v"}),
    )
    async with running(fake(), config={"reasoning_summary": "auto"}) as (codex, seen):
        asked = spec("/code", mcp_servers=servers, additional_directories=("/more",))
        await codex.new_session(asked)
        config = seen.sent("thread/start")[0]["config"]
        files = {"command": "mcp", "args": ["-v"], "env": {"A": "1"}}
        far = {"url": "http://x", "http_headers": {"K": "v"}}
        assert config["mcp_servers"] == {"files": files, "far": far}
        assert config["sandbox_workspace_write"] == {"writable_roots": ["/more"]}
        assert config["model_reasoning_summary"] == "auto"
        await codex.new_session(spec(options={"reasoning_effort": "high"}, trust_workspace=False))
        config = seen.sent("thread/start")[1]["config"]
        assert config["model_reasoning_effort"] == "high"
        assert config["projects"] == {"/": {"trust_level": "untrusted"}}
        with pytest.raises(Unsupported, match="sse"):
            sse = McpServer("s", transport="sse", url="http://x")
            await codex.new_session(spec(mcp_servers=(sse,)))


async def test_a_prompt_carries_images_files_model_and_effort() -> None:
    blocks = (
        ContentBlock(ContentType.TEXT, text="SAY 1"),
        ContentBlock(ContentType.IMAGE, data=b"png", mime_type="image/png"),
        ContentBlock(ContentType.FILE, path="/code/a.txt"),
    )
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        prompt = PromptSpec(
            blocks, model="m", effort="low", output_schema_json=b'{"type":"object"}'
        )
        await one_turn(codex, seen, session, prompt)
        told = seen.sent("turn/start")[0]
        assert [each["type"] for each in told["input"]] == ["text", "image", "mention"]
        assert (told["model"], told["effort"]) == ("m", "low")
        assert told["outputSchema"] == {"type": "object"}
        sound = ContentBlock(ContentType.AUDIO, data=b"x")
        with pytest.raises(Unsupported, match="audio"):
            await codex.prompt(session, PromptSpec((sound,)))


@pytest.mark.proves("S4")
async def test_an_unknown_conversation_is_an_error_and_never_a_new_one() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        with pytest.raises(NotFound):
            await codex.resume_session(type(session)("gone"), spec())
        old = type(session)("old-1")
        assert await codex.resume_session(old, spec()) == old
        assert (await one_turn(codex, seen, old, "SAY 1")).outcome is Outcome.COMPLETED
    async with running(fake("other-thread")) as (codex, seen):
        with pytest.raises(AgentFailed, match="another conversation"):
            await codex.resume_session(old, spec())


async def test_conversations_are_forked_listed_closed_and_deleted() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        fork = await codex.fork_session(session, spec())
        assert fork != session
        rows = await codex.list_sessions("/")
        assert [row.native_session_id for row in rows] == [session, fork]
        assert (rows[0].title, rows[0].updated_at) == ("p", 5000)
        await codex.close_session(fork)
        await codex.delete_session(session)
        assert seen.sent("thread/delete") == [{"threadId": session}]


async def test_settings_that_codex_does_not_have_are_refused() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.set_model(session, "fake-2")
        await codex.set_option(session, "thought_level", "high")
        assert seen.sent("thread/settings/update")[-1]["effort"] == "high"
        with pytest.raises(Invalid, match="reasoning_effort"):
            await codex.set_option(session, "color", "red")
        with pytest.raises(Invalid):
            await codex.set_mode(session, "fast")


async def test_an_answer_to_nothing_is_ignored() -> None:
    async with running(fake()) as (codex, seen):
        yes = PermissionAnswer(Decision.APPROVED, "accept")
        session = await codex.new_session(spec())
        await codex.answer_permission(NativeRequestId("9"), yes)
        assert (await one_turn(codex, seen, session, "SAY 1")).outcome is Outcome.COMPLETED
        assert seen.of(Log) == []


def test_the_program_is_started_and_not_its_script(tmp_path: Path) -> None:
    package = tmp_path / "node_modules/@openai/codex"
    vendor = package.parent / "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin"
    for folder in (package / "bin", vendor, tmp_path / "bin"):
        folder.mkdir(parents=True)
    script, program = package / "bin/codex.js", vendor / "codex"
    for file in (script, program):
        file.write_text("#!/usr/bin/env node\n" if file is script else "\x7fELF")
        file.chmod(0o755)
    (tmp_path / "bin/codex").symlink_to(script)
    env = {"PATH": str(tmp_path / "bin")}
    assert native.native_argv(("codex", "app-server"), env) == (str(program), "app-server")
    program.unlink()
    assert native.native_argv(("codex", "app-server"), env) == ("codex", "app-server")
    assert native.native_argv(("no-such", "x"), env) == ("no-such", "x")
