"""Reading sessions back and counting them: what is asked of the daemon, and what is shown."""

from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.core.errors import NotFound
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import FakeDaemon

SESSION = "ses_01k9c000000000000000009c4f"


def message(text: str) -> v1.AgentEvent:
    content = [v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=text)]
    said = v1.Message(message_id=text, role=v1.Role.ROLE_USER, content=content)
    return v1.AgentEvent(type=v1.EventType.EVENT_TYPE_MESSAGE, version=1, message=said)


def pages(request: Any) -> v1.MessagesResponse:
    """Two pages of one message each; the newest comes first."""
    if request.page_token:
        return v1.MessagesResponse(events=[message("older")])
    return v1.MessagesResponse(events=[message("newer")], next_page_token="journal:4")


def test_a_conversation_reads_from_its_oldest_message(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["Sessions/Messages"] = pages
    assert with_daemon("session", "messages", SESSION).out == "user\nolder\n\nuser\nnewer\n\n"
    newest = with_daemon("session", "messages", SESSION, "--limit", "1", "--role", "user").out
    assert newest == "user\nnewer\n\n"
    sent = daemon.called("Sessions/Messages")[-1]
    assert (sent.page_size, sent.role) == (1, v1.Role.ROLE_USER)


def test_since_is_a_time_or_refused(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["Sessions/Messages"] = lambda request: v1.MessagesResponse()
    words = ("session", "messages", SESSION, "--limit", "1000000000", "--since")
    assert with_daemon(*words, "1970-01-01T00:00:01Z").code == 0
    sent = daemon.called("Sessions/Messages")[-1]
    assert (sent.since, sent.page_size) == (1000, 1000)
    assert with_daemon(*words, "9999-12-31T00:00:00Z").code == 0
    refused = with_daemon(*words, "yesterday")
    assert refused.code == 2 and "is no time" in refused.err


@pytest.mark.parametrize("name", ["out.md", "out.jsonl"])
def test_an_export_goes_to_a_file_in_the_form_of_its_name(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path, name: str
) -> None:
    daemon.answers["Sessions/Export"] = lambda request: v1.ExportChunk(data=b"# hello\n")
    target = quiet_home / name
    done = with_daemon("session", "export", SESSION, "--output", str(target), "--files")
    assert (done.code, done.out, target.read_text()) == (0, "", "# hello\n")
    sent = daemon.called("Sessions/Export")[0]
    assert (sent.include_messages, sent.include_files, sent.include_stats) == (True, True, True)
    markdown = sent.format == v1.ExportFormat.EXPORT_FORMAT_MARKDOWN
    assert markdown is name.endswith(".md")


def test_an_export_that_fails_leaves_an_older_file_alone(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path
) -> None:
    def gone(request: Any) -> Any:
        raise NotFound("there is none.", reason="SESSION_NOT_FOUND")

    daemon.answers["Sessions/Export"] = gone
    target = quiet_home / "out.md"
    target.write_text("older")
    assert with_daemon("session", "export", SESSION, "-o", str(target)).code == 1
    assert target.read_text() == "older"


def test_statistics_have_a_line_each_entry_a_total_and_the_models(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    one = v1.EntryStats(
        entry_id="demo", sessions=1, runs=2, usage=v1.Usage(input=900, output=300), run_ms=1500
    )
    two = v1.EntryStats(entry_id="gemini", runs=1, cost_usd=0.25)
    total = v1.EntryStats(sessions=1, runs=3, cost_usd=0.25)
    model = v1.ModelStats(model="demo-fast", runs=2)
    stats = v1.GetStatsResponse(entries=[one, two], total=total, by_model=[model])
    daemon.answers["Stats/Get"] = lambda request: stats
    lines = with_daemon("stats", "--since", "1970-01-01T00:00:02Z").out.splitlines()
    assert daemon.called("Stats/Get")[0].since == 2000
    assert [line.split()[0] for line in lines if line] == [
        "ENTRY", "demo", "gemini", "all", "MODEL", "demo-fast",
    ]  # fmt: skip
    assert lines[1].split()[3:6] == ["0", "1.2", "k"]
    daemon.answers["Stats/Get"] = lambda request: v1.GetStatsResponse()
    assert with_daemon("stats").out == "nothing was used yet\n"
