"""Owns playing the scenarios: one session each, through a running daemon, and the judgement of it.

It knows the daemon as any client does, and the agent only by its script.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import cast

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError
from agentctl.core.events import Complete, Event, PermissionRequest, QuestionRequest
from agentctl.rpc.convert import from_message
from agentctl.testing.conformance.scenarios import PROMPTS, Scenario, Step, load
from agentctl.testing.conformance.script import Line, Script
from agentctl.testing.conformance.sequence import normalised, spoken
from agentctl.testing.promises import broken

# A cold start may download nothing here, but may load a large program on a busy machine.
START_S = 90.0
# A scripted turn takes milliseconds; agents try a failed request again after some seconds.
STEP_S = 60.0


class Verdict(StrEnum):
    OK = "ok"
    FAILED = "FAILED"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Result:
    """How one scenario went; `words` is the sequence that was seen, `why` what is wrong with it."""

    scenario: Scenario
    verdict: Verdict
    why: str = ""
    words: Sequence[str] = ()


class _Unsupported(Exception):
    """The agent cannot do what the scenario needs."""


class _Failed(Exception):
    """Something else was seen than the scenario says."""


async def run(
    client: AgentCtl,
    entry: str,
    workspace: Path,
    script: Script,
    scenarios: Sequence[Scenario] | None = None,
) -> list[Result]:
    """Plays the scenarios one after the other; each has a fresh folder in the workspace.

    Args:
        client: A client of a running daemon.
        entry: An entry of the daemon's registry.
        workspace: A folder in which the agent may work.
        script: How this agent is made to do things.
        scenarios: Those to play; absent: all of the kit.

    Raises:
        AgentctlError: the daemon cannot be reached or has no such entry.
    """
    await client.registry.get(entry)
    chosen = await anyio.to_thread.run_sync(load) if scenarios is None else scenarios
    return [await play(client, entry, workspace, script, each) for each in chosen]


async def play(
    client: AgentCtl, entry: str, workspace: Path, script: Script, scenario: Scenario
) -> Result:
    """Plays one scenario. It never raises for what the agent or the daemon does."""
    make = partial(tempfile.mkdtemp, prefix=f"{scenario.name}-", dir=workspace)
    folder = Path(await anyio.to_thread.run_sync(make))
    lines = [_line(script, scenario, step) for step in scenario.steps]
    for step, line in zip(scenario.steps, lines, strict=True):
        if step.verb in PROMPTS and line is None:
            return Result(scenario, Verdict.UNSUPPORTED, f"its script cannot `{step.verb}`")
    story = _Story(client, entry, folder, script)
    verdict, why = Verdict.OK, ""
    try:
        await story.begin()
        async with anyio.create_task_group() as group:
            group.start_soon(story.collect)
            for step, line in zip(scenario.steps, lines, strict=True):
                why = f"at `{f'{step.verb} {step.rest}'.rstrip()}`"
                with anyio.fail_after(STEP_S):
                    await story.take(step, line)
            group.cancel_scope.cancel()
    except* _Unsupported as errors:
        verdict, why = Verdict.UNSUPPORTED, _first(errors)
    except* (_Failed, AgentctlError, TimeoutError) as errors:
        verdict, why = Verdict.FAILED, f"{why}: {_first(errors)}".removeprefix(": ")
    wrong = [why] if verdict is Verdict.FAILED else []
    words: list[str] = []
    try:
        words, promises = await story.judge()
        wrong += promises
    except (AgentctlError, TimeoutError) as error:
        wrong.append(f"the session does not close: {_first(error)}")
    if verdict is Verdict.UNSUPPORTED and not wrong:
        return Result(scenario, verdict, why, words)
    if words != list(scenario.expect):
        wrong.append(f"expected {' '.join(scenario.expect)}")
    return Result(scenario, Verdict.FAILED if wrong else Verdict.OK, "; ".join(wrong), words)


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return str(error) or type(error).__name__


def _line(script: Script, scenario: Scenario, step: Step) -> Line | None:
    match step.verb:
        case "say":
            return script.say(step.rest)
        case "usage":
            return script.usage()
        case "run":
            return script.run(step.rest)
        case "ask":
            question, *options = (part.strip() for part in step.rest.split("|"))
            return script.ask(question, options)
        case "stream":
            return script.stream()
        case "recall":
            earlier = [each for each in scenario.steps if each.verb in PROMPTS - {"recall"}]
            return script.recall(len(earlier))
        case _:
            return None


@dataclass
class _Story:
    """One scenario on its way."""

    client: AgentCtl
    entry: str
    folder: Path
    script: Script
    session: v1.Session = field(default_factory=v1.Session)
    events: list[Event] = field(default_factory=list[Event])
    runs: list[str] = field(default_factory=list[str])
    ended: int = 0
    tells: dict[str, str] = field(default_factory=dict[str, str])
    _answered: set[str] = field(default_factory=set[str])
    _seen: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def begin(self) -> None:
        with anyio.fail_after(START_S):
            self.session = await self.client.sessions.create(
                self.entry, str(self.folder), wait_ready=True, **self.script.create()
            )

    async def collect(self) -> None:
        async for message in self.client.events(sessions=[self.session.session_id]):
            if message.session_id == self.session.session_id:
                self.events.append(from_message(message))
                self._news.set()
                self._news = anyio.Event()

    async def take(self, step: Step, line: Line | None) -> None:
        """Does one step, or waits for it."""
        if line is not None:
            made = await self.client.runs.create(self.session.session_id, line.prompt)
            self.runs.append(made.run.run_id)
            self.tells[made.run.run_id] = line.tells
        else:
            await getattr(self, f"_do_{step.verb}")(step.rest)

    async def judge(self) -> tuple[list[str], list[str]]:
        """Closes the session; returns its whole stream in words, and the promises that it breaks."""
        own = self.session.session_id
        if not own:
            return [], []
        with anyio.fail_after(STEP_S):
            await self.client.sessions.close(own)
            stream = self.client.events(sessions=[own], follow=False)
            whole = [from_message(each) async for each in stream if each.session_id == own]
        return normalised(whole), broken(whole)

    async def _until(self, found: Callable[[], bool]) -> None:
        while not found():
            await self._news.wait()

    @property
    def _run(self) -> str:
        """The run that a check means: the last that was waited for, else the oldest."""
        return self.runs[max(0, self.ended - 1)]

    def _open(self, kind: type[PermissionRequest | QuestionRequest]) -> str:
        for event in self.events:
            match event.payload:
                case PermissionRequest(approval_id=own) | QuestionRequest(question_id=own):
                    if isinstance(event.payload, kind) and own not in self._answered:
                        self._answered.add(own)
                        return own
                case _:
                    pass
        raise _Failed("the agent asks for nothing")

    async def _do_until(self, word: str) -> None:
        """Waits for a word which came after the last one that was waited for."""
        while word not in normalised(self.events)[self._seen :]:
            if any(isinstance(e.payload, Complete) for e in self.events[self._mark :]):
                raise _Failed(f"the run ended without {word}")
            await self._news.wait()
        self._seen = normalised(self.events).index(word, self._seen) + 1

    @property
    def _mark(self) -> int:
        """Where the events of the run begin that is waited for."""
        run = self.runs[self.ended]
        return next((n for n, e in enumerate(self.events) if e.run_id == run), len(self.events))

    async def _do_end(self, outcome: str) -> None:
        run = self.runs[self.ended]
        self.ended += 1
        await self._until(lambda: self._complete(run) is not None)
        end = self._complete(run)
        wanted = outcome or "completed"
        if end is None or end.outcome != wanted:
            raise _Failed(f"the run ended {end.outcome if end else ''}: {end.error if end else ''}")
        self._seen = len(normalised(self.events))

    def _complete(self, run: str) -> Complete | None:
        ends = (e.payload for e in self.events if e.run_id == run)
        return next((each for each in ends if isinstance(each, Complete)), None)

    async def _do_approve(self, _: str) -> None:
        await self.client.approvals.respond(self._open(PermissionRequest), "approve")

    async def _do_deny(self, reason: str) -> None:
        own = self._open(PermissionRequest)
        await self.client.approvals.respond(own, "deny", reason=reason or None)

    async def _do_answer(self, label: str) -> None:
        own = self._open(QuestionRequest)
        payloads = (e.payload for e in self.events)
        asked = next(p for p in payloads if isinstance(p, QuestionRequest) and p.question_id == own)
        if not asked.questions:
            await self.client.questions.answer(own, content_json=_filled(asked, label))
            return
        ids = {choice.name or choice.id: choice.id for choice in asked.questions[0].options}
        await self.client.questions.answer(own, [[ids.get(label, label)]])

    async def _do_cancel(self, _: str) -> None:
        await self.client.runs.cancel(self.runs[self.ended])

    async def _do_close(self, _: str) -> None:
        await self.client.sessions.close(self.session.session_id)

    async def _do_resume(self, _: str) -> None:
        await self.script.rest(self.folder)
        try:
            with anyio.fail_after(START_S):
                await self.client.sessions.resume(self.session.session_id, wait_ready=True)
        except AgentctlError as error:
            if error.reason == "UNSUPPORTED":
                raise _Unsupported(str(error)) from error
            raise

    async def _do_text(self, text: str) -> None:
        said = spoken(self.events, self._run)
        if said != text:
            raise _Failed(f"the agent said {said!r}")

    async def _do_tells(self, text: str) -> None:
        said = spoken(self.events, self._run)
        if text not in said:
            raise _Failed(f"the agent said {said!r}")

    async def _do_recalls(self, _: str) -> None:
        await self._do_tells(self.tells[self._run])

    async def _do_told(self, _: str) -> None:
        end = self._complete(self._run)
        usage = end.usage if end is not None else None
        if usage is None or not usage.input or not usage.output:
            raise _Failed(f"the end of the run tells {usage}")

    async def _do_exists(self, name: str) -> None:
        if not await anyio.Path(self.folder / name).exists():
            raise _Failed("there is no such file")

    async def _do_missing(self, name: str) -> None:
        if await anyio.Path(self.folder / name).exists():
            raise _Failed("there is such a file")


def _filled(asked: QuestionRequest, label: str) -> bytes:
    """The first text field of a form, filled in."""
    schema = json.loads(asked.schema_json or b"{}")
    name = next(iter(schema.get("properties", {"answer": {}})))
    return json.dumps({name: label}).encode()
