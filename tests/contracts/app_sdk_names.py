"""Every name of the app contract that the table must have a row for."""

NAMESPACES = {
    "agents": "list get create update",
    "sessions": "list create resolve send messages fork compact abort",
    "runs": "create get events wait cancel",
    "tasks": "list get cancel events",
    "models": "list status",
    "tools": "list invoke",
    "artifacts": "list get download",
    "approvals": "list respond",
    "environments": "list create status delete",
}
OBJECTS = (
    "agent.run run.cancel run.wait run.events run.artifacts.list run.session run.on_approval "
    "run.tool_space request.approve_once request.ask_user"
)
EVENT = "version id ts type runId sessionId sessionKey taskId agentId data raw"
FAMILIES = (
    "run.created run.queued run.started run.completed run.failed run.cancelled run.timed_out "
    "assistant.delta assistant.message thinking.delta tool.call.started tool.call.delta "
    "tool.call.completed tool.call.failed approval.requested approval.resolved question.requested "
    "question.answered artifact.created artifact.updated session.created session.updated "
    "session.compacted task.updated git.branch git.diff git.pr"
)
STATUSES = "accepted completed failed cancelled timed_out"
RESULT = "runId sessionId sessionKey taskId startedAt endedAt output usage artifacts error"
OUTPUT = "text messages"
USAGE = "inputTokens outputTokens totalTokens costUsd"
APPROVAL = (
    "id run_id session_id kind summary tool_name risk decisions expires_at reusable not_a_question"
)
TOOL = (
    "name source requires_approval schema_summary runtimes hidden read_only can_write can_use_host"
)
ARTIFACT_TYPES = "file patch diff log media screenshot trajectory pull_request workspace"
ARTIFACT = "id runId sessionId type title mimeType sizeBytes createdAt expiresAt redacted retention download"
CAPABILITIES = "checkout sandbox network_policy secrets artifacts logs pull_requests long_running"
DEFAULTS = (
    "no_secrets_forwarded environment_allow_list secret_references approvals_for_host_execution "
    "raw_redacted environment_retention_explicit"
)
PACKAGES = "objects low_level_client fake_daemon generated_methods_compared"

NAMES = frozenset(
    f"{group}{name}"
    for group, names in (
        *((f"{space}.", methods) for space, methods in NAMESPACES.items()),
        ("", OBJECTS),
        ("event.", EVENT),
        ("event.replay.", "after"),
        ("family.", FAMILIES),
        ("result.status.", STATUSES),
        ("result.", RESULT),
        ("result.output.", OUTPUT),
        ("result.usage.", USAGE),
        ("approval.", APPROVAL),
        ("tool.", TOOL),
        ("artifact.type.", ARTIFACT_TYPES),
        ("artifact.", ARTIFACT),
        ("environment.", f"id {CAPABILITIES}"),
        ("default.", DEFAULTS),
        ("package.", PACKAGES),
    )
    for name in names.split()
)
