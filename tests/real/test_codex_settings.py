"""The real Codex where its settings, its login or its sandbox are not as they should be, and its end."""

import pytest

from agentctl.core.errors import AgentFailed, Refused
from tests.adapters.codex.harness import one_turn, spec, text
from tests.real.codex import codex, running_in, until, without_namespaces
from tests.real.harness import Home, Model, processes_of

pytestmark = [pytest.mark.anyio, pytest.mark.real]


@pytest.mark.proves("S8")
async def test_an_invalid_config_is_told_and_starts_no_session(
    codex_home: Home, responses: Model
) -> None:
    (codex_home.home / ".codex/config.toml").write_text('model = "unfinished')
    async with codex(codex_home, responses) as real:
        with pytest.raises((AgentFailed, Refused)) as failure:
            await real.codex.new_session(spec(codex_home.workspace))
        await real.seen.until(real.seen.errors)
        assert "config.toml" in real.seen.errors()[0].message
        assert failure.value.reason in ("AGENT_FAILED", "AUTH_REQUIRED")


async def test_without_a_login_no_session_starts(codex_home: Home, responses: Model) -> None:
    (codex_home.home / ".codex/config.toml").write_text("")
    async with codex(codex_home, responses) as real:
        with pytest.raises(Refused) as refused:
            await real.codex.new_session(spec(codex_home.workspace))
        assert refused.value.reason == "AUTH_REQUIRED"


@pytest.mark.proves("P1", "P2")
async def test_leaving_in_mid_command_leaves_nothing(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace, environment="container"))
        await real.codex.prompt(session, text("TOOL setsid sleep 63 & sleep 64"))
        await until(lambda: running_in(codex_home, "sleep"))
    assert not processes_of(codex_home)


async def test_a_sandbox_that_cannot_work_is_told_to_the_session(
    codex_home: Home, responses: Model
) -> None:
    program = without_namespaces(codex_home)
    async with codex(codex_home, responses, program) as real:
        session = await real.codex.new_session(spec(codex_home.workspace, mode="auto"))
        await real.seen.until(real.seen.errors)
        assert real.seen.errors()[0].code == "SANDBOX_UNAVAILABLE"
        assert "amespace" in real.seen.errors()[0].message
        await one_turn(real.codex, real.seen, session, "TOOL echo hi")
        contained = await real.codex.new_session(
            spec(codex_home.workspace, environment="container")
        )
        await one_turn(real.codex, real.seen, contained, "TOOL echo hi")
        assert "hi" in real.seen.said(contained)
