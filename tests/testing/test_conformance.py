"""The conformance kit on the demo agent: it passes, and what is not met is told."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from agentctl.testing.conformance import Line, Result, Scenario, Verdict, load, run
from agentctl.testing.conformance.__main__ import main, row
from agentctl.testing.conformance.demo import SCRIPT, DemoScript
from tests.daemon.harness import daemon, wait_until_gone

pytestmark = pytest.mark.anyio

LIMIT_S = 90
DEMO = "agentctl.testing.conformance.demo:SCRIPT"


async def played(root: Path, script: DemoScript, *scenarios: Scenario) -> list[Result]:
    """Plays on the demo agent; nothing of it is left then."""
    work = root / "work"
    work.mkdir()
    with anyio.fail_after(LIMIT_S):
        async with daemon(root) as served, served.client() as client:
            results = await run(client, "demo", work, script, scenarios or None)
    await wait_until_gone(root)
    return results


def named(*names: str) -> list[Scenario]:
    return [each for each in load() if each.name in names]


@pytest.mark.proves("E8")
async def test_the_demo_agent_passes_every_scenario(tmp_path: Path) -> None:
    results = await played(tmp_path, SCRIPT)
    assert [row(each) for each in results if each.why] == []
    assert {each.verdict for each in results} == {Verdict.OK}
    assert len(results) == len(load())


class Wayward(DemoScript):
    """An agent that asks nobody, says something else and has no questions."""

    def say(self, text: str) -> Line:
        return Line(f"say not {text}")

    def run(self, command: str) -> Line:
        return Line(f"run! {command}")

    def ask(self, question: str, options: Sequence[str]) -> None:
        return None

    def recall(self, earlier: int) -> Line:
        return Line("say I know nothing", tells=f"{earlier + 1} user turns")


@pytest.mark.proves("E8")
async def test_what_an_agent_does_otherwise_fails_and_what_it_cannot_do_is_called_so(
    tmp_path: Path,
) -> None:
    names = ("prompt", "approve", "question", "resume")
    prompt, approve, question, resume = await played(tmp_path, Wayward(), *named(*names))
    assert prompt.verdict is Verdict.FAILED
    assert "the agent said 'not two words,  and a tail '" in prompt.why
    assert approve.verdict is Verdict.FAILED
    assert approve.why.startswith(
        "at `until permission_request`: the run ended without permission_request"
    )
    assert question.verdict is Verdict.UNSUPPORTED
    assert question.why == "its script cannot `ask`"
    assert resume.verdict is Verdict.FAILED and "I know nothing" in resume.why
    assert row(question).startswith("unsupported  question      A question reaches the user")
    assert "seen session_status:created run_status:created" in row(approve)


async def test_a_sequence_that_differs_is_shown_beside_the_one_that_is_expected(
    tmp_path: Path,
) -> None:
    text = '[[scenario]]\nname="x"\ntitle="y"\nsteps=["say a", "end"]\nexpect=["$SESSION"]'
    (result,) = await played(tmp_path, SCRIPT, *load(text))
    assert (result.verdict, result.why) == (Verdict.FAILED, "expected session_status:created")
    assert result.words[-1] == "session_status:closed"


async def test_the_suite_is_played_from_the_command_line(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with daemon(tmp_path) as served:
        argv = [sys.executable, "-m", "agentctl.testing.conformance", "--address", served.address]
        argv += ["--entry", "demo", "--workspace", str(work), "--script"]
        with anyio.fail_after(LIMIT_S):
            done = await anyio.run_process([*argv, DEMO, "--scenario", "prompt"], check=False)
            unknown = await anyio.run_process([*argv, "demo"], check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"ok           prompt        A prompt is answered")
    assert (unknown.returncode, unknown.stderr) == (2, b"--script 'demo': write MODULE:OBJECT\n")


def test_without_a_daemon_nothing_is_played_and_it_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--address", f"unix:{tmp_path}/none", "--entry", "demo", "--workspace", str(tmp_path)]
    assert main([*argv, "--script", DEMO]) == 2
    assert "none" in capsys.readouterr().err
    assert main([*argv, "--script", DEMO, "--scenario", "dance"]) == 2
    assert "there is no scenario 'dance'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[[scenario]]\nname="x"\ntitle="y"\nexpect=[]\nsteps=["dance"]', "no step 'dance'"),
        ('[[scenario]]\nname="x"\ntitle="y"\nexpect=[]', "no 'steps'"),
        ('[[scenario]]\nname="x"\ntitle="y"\nsteps=[]\nexpect=[]\n' * 2, "two scenarios"),
    ],
)
def test_a_bad_scenario_is_refused_with_its_place(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        load(text)


def test_the_kit_needs_no_test_framework() -> None:
    code = "import sys, agentctl.testing.conformance; assert 'pytest' not in sys.modules"
    env = {**os.environ, "PYTHONWARNINGS": "error"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
