# ruff: noqa: A002  the API's own words
"""Made by tools/gen_sync.py: the types of the synchronous client."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack

from agentctl import v1
from agentctl.client.asking import Option, QuestionItem
from agentctl.client.event import Event
from agentctl.client.params import Prompt, RunOptions, RunParams
from agentctl.client.results import (
    AgentInfo,
    ArtifactSummary,
    EnvironmentInfo,
    Message,
    RunResult,
    SessionInfo,
)
from agentctl.client.toolspace import ToolSpace

Json: TypeAlias = dict[str, Any]
ApprovalCallback: TypeAlias = Callable[[Approval], Any]
QuestionCallback: TypeAlias = Callable[[Question], Any]
DEFAULT_PATIENCE_S: float

class Mirror: ...

ORIGINALS: tuple[type[Any], ...]
MIRRORS: dict[type[Any], type[Mirror]]

class Agent:
    """An entry of the registry (or a running process of it, by `agt_` id)."""

    id: str
    def info(self) -> AgentInfo:
        """What the registry has of it; AGENT_NOT_FOUND when it knows none of that name."""
    def run(
        self, prompt: Prompt | RunParams | Mapping[str, Any] = "", **params: Unpack[RunOptions]
    ) -> Run:
        """Prompts it, in a session of its own or, with `session_key`, in that one.

        Args:
            prompt: the prompt, or all parameters: a RunParams, or a mapping with its names.
            params: fields of RunParams; they win over those in `prompt`.

        Raises:
            AgentctlError: AGENT_NOT_FOUND, AGENT_DISABLED, AGENT_NOT_INSTALLED, INVALID_PARAMETERS,
                SESSION_LIMIT, DISK_FULL. What goes wrong later is the run's end.
            TypeError: RunParams has no such field.
        """
    def session(
        self,
        params: RunParams | None = None,
        *,
        name: str | None = None,
        **more: Unpack[RunOptions],
    ) -> Session:
        """An open session for many prompts; with `session_key` the one of that key, if there is one.

        Args:
            params, more: RunParams; what concerns a single run is not looked at.
            name: the session's name. It and `labels` are of a session that is made here: one that
                was found by its key keeps its own (`Session.update` changes them).
        """

class Session:
    """One conversation with an agent."""

    id: str
    artifacts: ArtifactsOf
    def info(self) -> SessionInfo:
        """The session as it is at this moment."""
    def send(
        self,
        prompt: Prompt,
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        model: str | None = None,
        mode: str | None = None,
        effort: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> Run:
        """Prompts it. A session at rest is resumed first.

        Args:
            if_busy: queue (default), reject, interrupt, or steer: add to the running turn, whose
                run is returned.
            output_schema: a JSON schema that the answer must meet, where the agent can.
            timeout_ms: the run ends as `timed_out` after so many ms; absent: no limit.

        Raises:
            AgentctlError: SESSION_NOT_FOUND, SESSION_BUSY, SESSION_CLOSED, QUEUE_FULL, DISK_FULL.
        """
    run = send
    def runs(self) -> list[Run]:
        """Its latest runs, the newest first."""
    def messages(self, *, role: str | None = None, limit: int = 100) -> list[Message]:
        """The newest whole messages in their order; with `role` only those of one.

        Raises:
            AgentctlError: SESSION_NOT_FOUND.
        """
    def events(
        self, after: str = "", *, follow: bool = True, include_log: bool = False
    ) -> Iterator[Event]:
        """Its events in order, each once, across reconnects; see `Run.events`."""
    def on_approval(self, callback: ApprovalCallback) -> None:
        """As `Run.on_approval`, for all its runs and what its agent asks outside any."""
    def on_question(self, callback: QuestionCallback) -> None:
        """The same for questions."""
    def approvals(self) -> list[Approval]:
        """Those that are open, the oldest first."""
    def questions(self) -> list[Question]:
        """Those that are open, the oldest first."""
    def fork(self, *, name: str | None = None) -> Session:
        """A copy of the conversation as a session of its own; UNSUPPORTED where the agent cannot."""
    def compact(self) -> Run:
        """Has the agent shorten its context: a run like any other."""
    def abort(self, *, drop_queue: bool = False, force: bool = False) -> Run | None:
        """Cancels what runs in it; None when nothing did."""
    def resume(self) -> None:
        """Takes it up again; its queue goes on too."""
    def update(
        self,
        *,
        title: str | None = None,
        name: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """Changes what is not None; `labels` replaces all of them."""
    def tool_space(self) -> ToolSpace:
        """The tools that its agent has at this moment."""
    def close(self, *, save_state: bool | None = None) -> None:
        """Ends it and, when nobody else uses it, its agent; `save_state` False: for good."""

class Run:
    """One prompt until its end. Two objects of the same run are independent of each other."""

    id: str
    artifacts: ArtifactsOf
    def wait(self, timeout_ms: int | None = None) -> RunResult:
        """Waits for its end, also across a restart of the daemon.

        Args:
            timeout_ms: how long; when that is up the result is `accepted`, and the run goes on.

        Raises:
            AgentctlError: RUN_NOT_FOUND; SERVER_ERROR: the daemon stayed away for too long
                (`client.patience_s`).
            Exception: what a callback raised, once; the run goes on.
        """
    def result(self) -> RunResult:
        """How it stands, without waiting: `accepted` while it has not ended."""
    def state(self) -> str:
        """created, queued, running, completed, failed, cancelled or timed_out."""
    def cancel(self, *, drop_queue: bool = False, force: bool = False) -> None:
        """Cancels it; returns when that is on its way. A second cancel of an open run does nothing.

        Args:
            drop_queue: cancels what is queued behind it too.
            force: stops the agent when it does not end by itself at once.

        Raises:
            AgentctlError: RUN_FINISHED, it had ended.
        """
    def events(
        self,
        after: str = "",
        *,
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
    ) -> Iterator[Event]:
        """Its events in order, each once, across reconnects; ends after its last one.

        Args:
            after: the cursor of the last event that was seen; "" begins with the first.
            follow: False ends it with the newest event that there is.
            include_raw: with the agent's own messages, where they are journalled.
            include_log: with lines outside the protocol.

        Raises:
            AgentctlError: INVALID_CURSOR; SERVER_ERROR: the daemon stayed away for too long.
            Exception: what a callback raised, once; read on with `after`.
        """
    def on_approval(self, callback: ApprovalCallback) -> None:
        """Has `callback(approval)` called for each approval that is or becomes open.

        It may be a coroutine function, and runs beside whatever else reads the run. Returning without
        an answer leaves the approval to people. What it raises, `wait` and `events` raise.
        """
    def on_question(self, callback: QuestionCallback) -> None:
        """The same for questions."""
    def approvals(self) -> list[Approval]:
        """Those of it that are open, the oldest first."""
    def questions(self) -> list[Question]:
        """Those of it that are open, the oldest first."""
    def session_id(self) -> str: ...
    def session(self) -> Session:
        """The session that it is of."""
    def tool_space(self) -> ToolSpace:
        """The tools that its agent has at this moment."""

class _Request:
    """What a request of an agent has in any case."""

    id: str
    session_id: str | None
    run_id: str | None
    parent_tool_call_id: str | None
    @property
    def data(self) -> Json:
        """All that was told, as plain data."""
    @property
    def expires_at(self) -> int | None:
        """Unix ms; None when it waits without limit."""
    @property
    def tool_call_id(self) -> str | None:
        """The tool that waits."""
    def ask_user(self) -> None:
        """Leaves it to people: it stays open, for whoever answers it at any other client."""

class Approval(_Request):
    """An agent asks for leave to do something."""

    decision: str | None
    by: str | None
    option_id: str | None
    reason: str | None
    @property
    def kind(self) -> str:
        """tool, plan, mode, mcp, environment or other."""
    @property
    def summary(self) -> str:
        """What is asked, in words for people."""
    @property
    def tool_name(self) -> str | None:
        """The tool's own name, or the action on an environment."""
    @property
    def tool_kind(self) -> str | None:
        """What the tool does: read, edit, execute …"""
    @property
    def command(self) -> str | None: ...
    @property
    def file(self) -> str | None: ...
    @property
    def input(self) -> Any:
        """The tool's arguments."""
    @property
    def risk(self) -> str | None:
        """How dangerous the agent says it is: low, medium or high."""
    @property
    def reusable(self) -> bool:
        """Whether the answer can be kept as a rule of the session."""
    @property
    def options(self) -> tuple[Option, ...]:
        """The answers that the agent itself offers, for `choose`."""
    @property
    def decisions(self) -> tuple[str, ...]:
        """Which of approve_once, approve_always and deny can be called."""
    def approve_once(self, reason: str | None = None, updated_input: Any = None) -> Approval:
        """Allows it this time; `updated_input` are changed arguments, where the agent takes them.

        Raises:
            AgentctlError: ALREADY_RESOLVED, somebody was first; OPTION_NOT_OFFERED.
        """
    def approve_always(self, reason: str | None = None) -> Approval:
        """Allows it, and exactly this command or path for the rest of the session."""
    def deny(self, reason: str | None = None) -> Approval:
        """Refuses it; the agent is told why, where it can be."""
    def choose(self, option_id: str, reason: str | None = None) -> Approval:
        """Answers with exactly this option of the agent."""

class Question(_Request):
    """An agent asks for information: questions, a form (`schema`), or a page to open (`url`)."""

    outcome: str | None
    answers: tuple[tuple[str, ...], ...]
    @property
    def message(self) -> str | None:
        """What it is about."""
    @property
    def questions(self) -> tuple[QuestionItem, ...]: ...
    @property
    def text(self) -> str:
        """What it is about, else its first question."""
    @property
    def schema(self) -> Any:
        """The JSON schema that `answer(content=…)` must meet."""
    @property
    def url(self) -> str | None: ...
    def answer(
        self, *answers: str | Sequence[str], content: Mapping[str, Any] | None = None
    ) -> Question:
        """Answers each of its questions in order, with a text or with several; or fills in its form.

        Raises:
            AgentctlError: ALREADY_RESOLVED, somebody was first; INVALID_PARAMETERS.
        """
    def reject(self, reason: str | None = None) -> Question:
        """Declines to answer; the agent goes on without."""

class Artifact:
    """Something that a run made; the fields of its summary are its own too."""

    summary: ArtifactSummary
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str:
        """file, patch, diff, log, media, screenshot, trajectory, pull_request or workspace."""
    @property
    def title(self) -> str | None: ...
    @property
    def mime_type(self) -> str | None: ...
    @property
    def size_bytes(self) -> int | None: ...
    @property
    def path(self) -> str | None:
        """The file it is of, as the agent named it."""
    @property
    def url(self) -> str | None:
        """Where it is, when it lives elsewhere: such a one has no bytes here."""
    @property
    def run_id(self) -> str | None: ...
    def stream(self, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Its bytes in pieces, from `offset` on, at most `length` of them.

        Raises:
            AgentctlError: ARTIFACT_NOT_FOUND (also when its bytes are gone), INVALID_PARAMETERS (an
                offset past its end), UNSUPPORTED (it has a url only).
        """
    def read(self, *, offset: int = 0, length: int | None = None) -> bytes:
        """The same at once."""
    def download(self, target: str | Path, *, offset: int = 0, length: int | None = None) -> Path:
        """The same into a file, which is there only when it is whole; returns its path."""

class ArtifactsOf:
    """The artifacts of one run or one session."""
    def list(self, kinds: Sequence[str] = ()) -> list[Artifact]:
        """All of them, the newest first; with `kinds` only those of these types."""
    def get(self, artifact_id: str) -> Artifact:
        """One of them; ARTIFACT_NOT_FOUND when it is of another run."""

class Environment:
    """A place where agents run: `local`, `worktree` …; it is made with a session and goes with it."""

    id: str
    def status(self) -> EnvironmentInfo:
        """What it can, and whether it can be used here; INVALID_PARAMETERS for an unknown name."""
    def create(self, config: Mapping[str, Any] | None = None) -> EnvironmentInfo:
        """Raises Unsupported: name it in `agent.run(environment=…)` instead."""
    def delete(self) -> None:
        """Raises Unsupported: it goes with its session."""

class Task:
    """A background task by its id. No daemon serves tasks: every call raises Unsupported."""

    id: str
    def status(self) -> str: ...
    def cancel(self) -> None: ...
    def events(self, after: str = "") -> Iterator[Event]: ...

class Subscription:
    """Reads batches; `cursor` is where to go on."""

    reached: bool
    @property
    def cursor(self) -> str:
        """The cursor after the last batch that was handed out."""
    def batches(self) -> Iterator[v1.EventBatch]:
        """Yields batches until the stream ends.

        Raises:
            AgentctlError: the first connection failed, the daemon refused, or it stayed away for
                longer than the patience.
        """

class Daemon:
    """The daemon itself."""
    def get_info(self, *, timeout_s: float | None = None) -> v1.GetInfoResponse:
        """Version, journal, counts and capabilities; `timeout_s` bounds a try to reach it."""

class Agents:
    """Running processes of agents."""
    def start(self, entry_id: str, *, workspace: str | None = None) -> v1.Agent: ...
    def stop(
        self, agent_id: str = "", *, force: bool = False, stop_all: bool = False
    ) -> v1.StopAgentResponse:
        """Stops one process, or with `stop_all` every one; nothing of them is left then."""
    def restart(self, agent_id: str) -> v1.Agent: ...
    def get(self, agent_id: str) -> v1.Agent:
        """A process by its `agt_` id; or of an entry: its newest, or the entry without one."""
    def create(self, entry: Mapping[str, Any]) -> v1.Entry:
        """Adds an entry to the registry; refused (REGISTRY_INVALID) when its `id` exists."""
    def update(self, entry_id: str, changes: Mapping[str, Any]) -> v1.Entry:
        """Changes fields of an entry; what is left out keeps its value."""
    def list(
        self,
        *,
        include_exited: bool = False,
        known: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListAgentsResponse:
        """Processes; with `known` also the entries of which none runs, without an agent_id."""
    def auth_methods(self, agent: str) -> v1.AuthMethodsResponse: ...
    def authenticate(self, agent: str, method: str) -> v1.AuthenticateResponse: ...

class Registry:
    """The agents that agents.json knows."""
    def list(
        self, *, enabled_only: bool = False, page_size: int = 0, page_token: str = ""
    ) -> v1.ListEntriesResponse: ...
    def get(self, entry_id: str) -> v1.Entry: ...
    def put(self, entry_json: bytes, *, create_only: bool = False) -> v1.Entry:
        """Adds or changes the entry whose `id` stands in the JSON object."""
    def delete(self, entry_id: str) -> v1.DeleteEntryResponse: ...
    def enable(self, entry_id: str, enabled: bool = True) -> v1.Entry: ...
    def validate(self, document_json: bytes | None = None) -> v1.ValidateResponse:
        """Checks a whole agents.json or one entry; None checks the files in force."""
    def discover(self, entry_ids: Sequence[str] = ()) -> v1.DiscoverResponse: ...
    def watch(self) -> Iterator[v1.RegistrySnapshot]:
        """The registry now, and again after each change."""

class Models:
    """The models that agents offer."""
    def list(
        self, *, agent: str = "", session_id: str = "", page_size: int = 0, page_token: str = ""
    ) -> v1.ListModelsResponse: ...
    def status(self, entry_ids: Sequence[str] = ()) -> v1.AuthStatusResponse:
        """Which agents are logged in; the same as `auth_status`."""
    def auth_status(self, entry_ids: Sequence[str] = ()) -> v1.AuthStatusResponse: ...

class Sessions:
    """Conversations with agents."""
    def create(
        self,
        agent: str,
        workspace: str,
        *,
        additional_directories: Sequence[str] = (),
        key: str | None = None,
        name: str | None = None,
        project: str | None = None,
        labels: Mapping[str, str] | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str = "",
        rules: Sequence[v1.Rule] = (),
        mcp_servers: Sequence[v1.McpServer] = (),
        env: Mapping[str, str] | None = None,
        trust_workspace: bool | None = None,
        environment: str | None = None,
        url: str | None = None,
        auth: Mapping[str, str] | None = None,
        close_when_done: bool = False,
        idempotency_key: str = "",
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
        environment_options: Mapping[str, str] | None = None,
    ) -> v1.Session:
        """Makes a session; answers in `starting`, with `wait_ready` once the agent is ready."""
    def resume(
        self,
        session_id: str = "",
        *,
        entry_id: str | None = None,
        native_session_id: str | None = None,
        create: v1.CreateSessionRequest | None = None,
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
    ) -> v1.Session:
        """Takes up a session of ours, or (entry_id, native_session_id) one of the agent's own."""
    def fork(
        self,
        session_id: str,
        *,
        name: str | None = None,
        wait_ready: bool = False,
        wait_timeout_ms: int | None = None,
    ) -> v1.Session: ...
    def resolve(
        self,
        *,
        key: str | None = None,
        native_session_id: str | None = None,
        name: str | None = None,
        project: str | None = None,
        workspace: str = "",
    ) -> v1.Session: ...
    def get(self, session_id: str) -> v1.Session: ...
    def list(
        self,
        *,
        states: Sequence[str] = (),
        entry_id: str = "",
        project: str = "",
        key: str = "",
        labels: Mapping[str, str] | None = None,
        open_only: bool = False,
        phases: Sequence[str] = (),
        workspace: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListSessionsResponse: ...
    def list_native(
        self, agent: str, *, workspace: str | None = None, page_size: int = 0, page_token: str = ""
    ) -> v1.ListNativeResponse: ...
    def update(
        self,
        session_id: str,
        *,
        title: str | None = None,
        name: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> v1.Session:
        """Changes what is not None; `labels` replaces all of them."""
    def send(
        self,
        session_id: str,
        input: str | Sequence[v1.ContentBlock] | v1.RunInput,
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        idempotency_key: str = "",
    ) -> v1.CreateRunResponse:
        """Prompts it; the same as Runs.Create, which takes more."""
    def abort(
        self, session_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> v1.CancelRunResponse:
        """Cancels what runs in it; `run` is absent when nothing did."""
    def compact(self, session_id: str) -> v1.CompactSessionResponse: ...
    def revert(self, session_id: str, message_id: str) -> v1.Session: ...
    def unrevert(self, session_id: str) -> v1.Session: ...
    def mcp_status(self, session_id: str) -> v1.McpStatusResponse: ...
    def messages(
        self,
        session_id: str,
        *,
        role: str | None = None,
        since: int | None = None,
        from_journal: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.MessagesResponse:
        """The newest messages in their order; pages go back. `since` is Unix ms."""
    def export(
        self,
        session_id: str,
        *,
        format: str = "",
        include_messages: bool | None = None,
        include_files: bool | None = None,
        include_stats: bool | None = None,
    ) -> Iterator[v1.ExportChunk]:
        """The session as it is at this moment: JSON lines (default) or Markdown."""
    def close(
        self,
        session_id: str,
        *,
        reason: str | None = None,
        force: bool = False,
        save_state: bool | None = None,
    ) -> v1.Session:
        """With `save_state` False it can not be taken up again."""
    def delete(self, session_id: str, *, native: bool = False) -> v1.DeleteSessionResponse: ...

class Runs:
    """Prompts and the turns that answer them."""
    def create(
        self,
        session_id: str,
        input: str | Sequence[v1.ContentBlock] | v1.RunInput,
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        model: str | None = None,
        mode: str | None = None,
        effort: str | None = None,
        output_schema_json: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> v1.CreateRunResponse: ...
    def get(self, run_id: str) -> v1.Run: ...
    def list(
        self,
        *,
        session_id: str = "",
        states: Sequence[str] = (),
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListRunsResponse: ...
    def wait(self, run_id: str, *, timeout_ms: int | None = None) -> v1.WaitRunResponse:
        """Waits for the end of a run; status `accepted` when `timeout_ms` was up first."""
    def events(self, run_id: str, *, after: str = "") -> Iterator[Event]:
        """Its events after a cursor, as `Run.events` gives them; ends after its last one."""
    def cancel(
        self,
        run_id: str = "",
        *,
        session_id: str = "",
        drop_queue: bool = False,
        force: bool = False,
    ) -> v1.CancelRunResponse: ...

class Approvals:
    """Permission requests of agents, and the rules that answer them."""
    def list(
        self,
        *,
        session_id: str = "",
        include_resolved: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListApprovalsResponse: ...
    def respond(
        self,
        approval_id: str,
        decision: str = "",
        *,
        option_id: str | None = None,
        reason: str | None = None,
        updated_input_json: bytes | None = None,
        always: bool = False,
    ) -> v1.Approval:
        """Answers with a decision (approve, deny) or with exactly one offered option."""
    def list_rules(self, session_id: str = "") -> v1.ListRulesResponse:
        """Rules of a session alone; without one, those of all sessions."""
    def put_rule(self, session_id: str, rule: v1.Rule) -> v1.Rule:
        """Makes a rule, or replaces the one whose id it has; session "" means all sessions."""
    def delete_rule(self, session_id: str, rule_id: str) -> v1.DeleteRuleResponse: ...

class Questions:
    """Questions of agents."""
    def list(
        self,
        *,
        session_id: str = "",
        include_resolved: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListQuestionsResponse: ...
    def answer(
        self,
        question_id: str,
        answers: Sequence[Sequence[str]] = (),
        *,
        content_json: bytes | None = None,
    ) -> v1.QuestionRecord:
        """Answers each of its questions with a list of values, or with the filled-in schema."""
    def reject(self, question_id: str, *, reason: str | None = None) -> v1.QuestionRecord: ...

class Artifacts:
    """What runs made."""
    def list(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        kinds: Sequence[str] = (),
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListArtifactsResponse: ...
    def get(self, artifact_id: str, *, run_id: str = "") -> v1.ArtifactSummary:
        """With `run_id` only when it is of this run."""
    def download(
        self, artifact_id: str, *, offset: int = 0, length: int | None = None, run_id: str = ""
    ) -> Iterator[v1.ArtifactChunk]:
        """Its bytes from `offset` on, at most `length` of them."""

class Tools:
    """The tools that a session's agent has."""
    def list(
        self, session_id: str, *, page_size: int = 0, page_token: str = ""
    ) -> v1.ListToolsResponse: ...
    def invoke(
        self, session_id: str, name: str, input_json: bytes, *, idempotency_key: str = ""
    ) -> v1.InvokeToolResponse: ...

class Environments:
    """Where agents run."""
    def list(self, *, page_size: int = 0, page_token: str = "") -> v1.ListEnvironmentsResponse: ...
    def status(self, name: str) -> v1.Environment: ...
    def create(self, name: str, config_json: bytes = b"{}") -> v1.Environment: ...
    def delete(self, name: str) -> v1.DeleteEnvironmentResponse: ...

class Stats:
    """What was used."""
    def get(
        self, *, session_id: str = "", entry_id: str = "", since: int | None = None
    ) -> v1.GetStatsResponse:
        """`since` is Unix ms."""

class Tasks:
    """Background tasks; no daemon serves them yet."""
    def list(
        self, *, session_id: str = "", page_size: int = 0, page_token: str = ""
    ) -> v1.ListTasksResponse: ...
    def get(self, task_id: str) -> v1.Task: ...
    def cancel(self, task_id: str) -> v1.Task: ...
    def events(self, task_id: str, *, after: str = "") -> Iterator[v1.EventBatch]: ...

class AgentCtl:
    """A client of one daemon: `async with AgentCtl.connect() as client: ...`."""

    patience_s: float
    daemon: Daemon
    agents: Agents
    sessions: Sessions
    runs: Runs
    approvals: Approvals
    questions: Questions
    artifacts: Artifacts
    registry: Registry
    models: Models
    tools: Tools
    environments: Environments
    stats: Stats
    tasks: Tasks
    @classmethod
    def connect(cls, address: str | None = None, token: str | None = None) -> Self:
        """Makes a client of the daemon at `unix:PATH` or `HOST:PORT`.

        Args:
            address: absent: $AGENTCTL_ADDRESS, else the socket of the default data directory.
            token: the bearer token for TCP; absent: $AGENTCTL_TOKEN. A Unix socket needs none.
        """
    @property
    def address(self) -> str: ...
    def close(self) -> None:
        """Ends the connection and what callbacks it has; runs go on."""
    def agent(self, agent_id: str) -> Agent:
        """An entry of the registry, to be prompted; nothing is asked before its first call."""
    def session(self, session_id: str) -> Session: ...
    def run(self, run_id: str) -> Run: ...
    def environment(self, name: str) -> Environment: ...
    def task(self, task_id: str) -> Task: ...
    def artifact(self, artifact_id: str, *, run_id: str = "") -> Artifact:
        """An artifact by its id; with `run_id` only when it is of this run."""
    def all_agents(self, *, enabled_only: bool = True) -> list[AgentInfo]:
        """What the registry knows, in its order."""
    def all_environments(self) -> list[EnvironmentInfo]:
        """Where agents can run."""
    def open_sessions(self, *, key: str = "", agent: str = "") -> list[Session]:
        """Open sessions, the newest first; of one key or of one agent."""
    def open_approvals(self) -> list[Approval]:
        """What waits for an answer, in all sessions, the oldest first."""
    def open_questions(self) -> list[Question]: ...
    def subscribe(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        patience_s: float | None = None,
    ) -> Subscription:
        """A reader of the stream that knows its cursor. Arguments as of `events`."""
    def batches(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        patience_s: float | None = None,
    ) -> Iterator[v1.EventBatch]:
        """The stream as it travels: with cursors, gaps and empty batches. Arguments as of `events`."""
    def events(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        on_gap: Callable[[v1.Gap], None] | None = None,
        patience_s: float | None = None,
    ) -> Iterator[v1.AgentEvent]:
        """Yields events in journal order, each once, across reconnects.

        Args:
            after: a cursor; "" begins with the oldest kept event, "now" with new ones.
            sessions: session ids; with the other lists: any within one, all between.
            runs: run ids; the stream ends after their last `complete`.
            agents: agent ids.
            types: words of EventType.
            follow: False ends the stream at the journal's head.
            include_raw: with the agent's own messages, where they are journalled.
            include_log: with events of type log.
            on_gap: told when events between the cursor and the next event are gone.
            patience_s: how long a daemon may be away before its error is raised; absent: the
                client's own `patience_s`.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
