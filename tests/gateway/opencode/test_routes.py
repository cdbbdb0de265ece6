"""What routes do beside having their shape: pages, filters, forks, repositories, the configuration."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentctl.gateway.opencode.patches import split_patch
from tests.gateway.opencode.live import Live, git, until

Json = dict[str, Any]


@pytest.mark.proves("GO1")
def test_pages_of_messages_lead_back_to_the_first(server: Live) -> None:
    session = server.session()
    for number in range(3):
        server.say(session, f"say {number}")
    whole = [row["info"]["id"] for row in server.get(f"/session/{session}/message")]
    assert whole == sorted(whole) and len(whole) == 6
    seen: list[str] = []
    path = f"{server.url}/session/{session}/message?limit=4"
    while True:
        answer = server.http.get(path)
        seen = [row["info"]["id"] for row in answer.json()] + seen
        if "x-next-cursor" not in answer.headers:
            break
        assert answer.headers["x-next-cursor"] == seen[0]
        link = re.fullmatch(r'<(.+)>; rel="next"', answer.headers["link"])
        assert link is not None and f"before={seen[0]}" in link[1]
        path = link[1]
    assert seen == whole


@pytest.mark.proves("GO1")
def test_the_state_of_a_session_is_busy_or_idle(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        server.begin(session, "hang")
        events.until("session.status", sessionID=session, status={"type": "busy"})
        assert server.get("/session/status")[session] == {"type": "busy"}
        server.post(f"/session/{session}/abort")
        events.until("session.aborted", sessionID=session)
        seen = events.idle(session) if "session.idle" not in _kinds(events.seen) else events.seen
        assert server.get("/session/status")[session] == {"type": "idle"}
    errors = [e["properties"]["error"] for e in seen if e["type"] == "session.error"]
    assert [error["name"] for error in errors] == ["MessageAbortedError"]


def _kinds(events: list[Json]) -> list[str]:
    return [each["type"] for each in events]


@pytest.mark.proves("GO1")
def test_sessions_are_filtered_by_directory_title_and_parent(server: Live, tmp_path: Path) -> None:
    where = {"directory": str(tmp_path)}
    one = server.call(
        "POST", "/session", {"title": "Alpha one", "agent": "demo"}, params=where
    ).json()
    two = server.call("POST", "/session", {"title": "Beta two"}, params=where).json()
    assert one["directory"] == two["directory"] == str(tmp_path)
    server.say(one["id"], "say x")
    fork = server.post(f"/session/{one['id']}/fork", {})
    assert fork["parentID"] == one["id"]

    def found(**query: str) -> set[str]:
        return {each["id"] for each in server.get("/session", params={**where, **query})}

    assert found() == {one["id"], two["id"], fork["id"]}
    assert found(roots="true") == {one["id"], two["id"]}
    assert found(search="beta") == {two["id"]}
    assert len(found(limit="1")) == 1
    assert found(start="9999999999999") == set()
    assert one["id"] not in {each["id"] for each in server.get("/session")}
    everywhere = {each["id"] for each in server.get("/session", params={"scope": "project"})}
    assert {one["id"], fork["id"]} <= everywhere
    assert [each["id"] for each in server.get(f"/session/{one['id']}/children")] == [fork["id"]]
    by_header = server.get("/session", headers={"x-opencode-directory": str(tmp_path)})
    assert {each["id"] for each in by_header} == found()


@pytest.mark.proves("GO1")
def test_a_fork_shows_what_was_said_before_it(server: Live) -> None:
    session = server.session()
    server.say(session, "say once")
    fork = server.post(f"/session/{session}/fork", {})["id"]
    server.say(fork, "say twice")
    server.say(session, "say elsewhere")
    texts = [
        part["text"]
        for row in server.get(f"/session/{fork}/message")
        for part in row["parts"]
        if part["type"] == "text"
    ]
    assert texts == ["say once", "once", "say twice", "twice"]
    ids = [row["info"]["id"] for row in server.get(f"/session/{fork}/message")]
    assert ids == sorted(ids)
    assert not {*ids} & {row["info"]["id"] for row in server.get(f"/session/{session}/message")}
    one = server.get(f"/session/{fork}/message/{ids[0]}")
    assert one["info"]["sessionID"] == fork
    refused = server.call("DELETE", f"/session/{fork}/message/{ids[0]}")
    assert refused.status_code == 400 and "fork" in refused.json()["error"]


@pytest.mark.proves("GO1")
def test_a_deleted_session_is_gone_and_everyone_is_told(server: Live) -> None:
    session = server.session(title="Gone soon")
    server.say(session, "say x")
    with server.events() as events:
        assert server.call("DELETE", f"/session/{session}").json() is True
        told = events.until("session.deleted", sessionID=session)
    assert told["info"]["title"] == "Gone soon"
    assert server.call("GET", f"/session/{session}").status_code == 404


@pytest.mark.proves("GO1")
def test_the_repository_of_the_directory_is_shown(server: Live, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a").write_text("a\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    where = {"directory": str(tmp_path)}
    clean = server.get("/vcs", params=where)
    assert clean["branch"] == "trunk" and not clean["dirty"] and clean["root"] == str(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean["sha"])
    (tmp_path / "b").write_text("b\n")
    assert server.get("/vcs", params=where)["dirty"] is True
    below = tmp_path / "below"
    below.mkdir()
    assert server.get("/path", params={"directory": str(below)})["worktree"] == str(tmp_path)
    assert server.get("/project/current", params=where)["vcs"] == "git"


@pytest.mark.proves("GO1")
def test_a_provider_that_is_switched_off_disappears_and_comes_back(server: Live) -> None:
    def shown() -> set[str]:
        return {each["id"] for each in server.get("/config/providers")["providers"]}

    assert "qwen" in shown()
    off = server.call("PATCH", "/config", {"provider": {"qwen": {"enabled": False}}})
    assert off.status_code == 200 and "qwen" not in off.json()["provider"]
    assert "qwen" not in shown() and "qwen" not in server.get("/provider/auth")
    assert "qwen" not in {each["name"] for each in server.get("/agent")}
    server.call("PATCH", "/global/config", {"provider": {"qwen": {"enabled": True}}})
    assert "qwen" in shown()


@pytest.mark.proves("GO1")
def test_an_edited_registry_is_in_force_once_the_configuration_is_patched(server: Live) -> None:
    file = Path(server.served.env["HOME"], ".config", "agentctl", "agents.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    entry = '{"id": "mine", "cmd": ["agentctl-demo"], "display_name": "Mine"}'
    file.write_text(f'{{"version": 1, "agents": [{entry}]}}')
    assert "mine" in server.call("PATCH", "/config", {}).json()["provider"]
    file.unlink()
    assert "mine" not in server.call("PATCH", "/config", {"config": {}}).json()["provider"]


@pytest.mark.proves("GO1")
def test_a_default_model_holds_for_the_sessions_that_name_none(server: Live) -> None:
    before = server.get("/config")["model"]
    told = server.call(
        "PATCH", "/config", {"model": {"providerID": "demo", "modelID": "demo-smart"}}
    )
    assert told.json()["model"] == "demo/demo-smart"
    assert server.get("/config/providers")["default"]["demo"] == "demo-smart"
    session = server.post("/session", {})["id"]
    assert server.say(session, "modelname")["parts"][0]["text"] == "demo-smart"
    server.call("PATCH", "/config", {"model": before})


@pytest.mark.proves("GO1")
def test_a_new_session_names_the_model_that_it_was_made_with(server: Live) -> None:
    made = server.post("/session", {"providerID": "demo", "modelID": "demo-smart"})
    assert made["model"] == {"id": "demo-smart", "providerID": "demo"}
    server.say(made["id"], "say hi")
    assert server.get(f"/session/{made['id']}")["model"] == made["model"]


@pytest.mark.proves("GO1")
def test_no_answer_holds_a_key(server: Live) -> None:
    file = Path(server.served.env["HOME"], ".config", "agentctl", "agents.json")
    secrets = {"url": "http://me:sk-secret@127.0.0.1:1/v1", "auth": {"password": "sk-secret"}}
    entry = {"id": "mine", "protocol": "opencode", "env": {"KEY": "sk-secret"}, **secrets}
    file.write_text(json.dumps({"version": 1, "agents": [entry]}))
    until(lambda: "mine" in server.call("PATCH", "/config", {}).json()["provider"], "the new entry")
    for path in ("/config", "/global/config", "/config/providers", "/provider", "/provider/auth"):
        text = server.call("GET", path).text
        assert '"mine"' in text and "sk-secret" not in text and '"apiKey"' not in text
    shown = server.get("/config")["provider"]["mine"]["options"]
    assert shown == {"baseURL": "http://127.0.0.1:1/v1"}
    file.write_text('{"version": 1, "agents": [{"id": "mine", "protocol": "nonsense"}]}')

    def problem() -> bool:
        answer = server.call("PATCH", "/config", {})
        return answer.status_code == 400 and str(file) in answer.json()["error"]

    until(problem, "what is wrong with the file")
    file.unlink()
    until(lambda: server.call("PATCH", "/config", {}).status_code == 200, "the good registry")


@pytest.mark.proves("GO1")
def test_dispose_tells_every_client_and_stops_no_agent(server: Live) -> None:
    session = server.session()
    with server.events() as events, server.events("/event") as own:
        server.begin(session, "slow 20 50")
        events.until("session.status", sessionID=session)
        assert server.post("/global/dispose") is True
        assert events.until("server.instance.disposed")["directory"] == str(server.workspace)
        own.until("server.instance.disposed")
        events.idle(session)
    last = server.get(f"/session/{session}/message")[-1]
    assert "error" not in last["info"] and last["info"]["time"]["completed"]


@pytest.mark.proves("GO1")
def test_the_diff_of_a_turn_is_the_patch_that_git_makes(server: Live, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    rules = [{"permission": "*", "pattern": "*", "action": "allow"}]
    body = {"agent": "demo", "permission": rules}
    session = server.call("POST", "/session", body, params={"directory": str(tmp_path)}).json()[
        "id"
    ]
    server.say(session, "run rm old.txt || run printf 'a\\nb\\n' > new.txt")
    own = server.get(f"/session/{session}/message")[0]["info"]["id"]

    def rows() -> list[Json]:
        return server.get(f"/session/{session}/diff", params={"messageID": own})

    new, old = sorted(until(rows, "the patch of the run"), key=lambda each: each["file"])
    assert (new["file"], new["status"], new["additions"], new["deletions"]) == (
        "new.txt",
        "added",
        2,
        0,
    )
    assert (old["file"], old["status"], old["additions"], old["deletions"]) == (
        "old.txt",
        "deleted",
        0,
        2,
    )
    assert new["patch"].startswith("diff --git ")
    missing = server.call("GET", f"/session/{session}/diff", params={"messageID": "msg_missing"})
    assert missing.status_code == 404


def test_a_patch_is_read_file_by_file() -> None:
    patch = (
        "diff --git a/x y.txt b/x y.txt\nindex 1..2 100644\n--- a/x y.txt\n+++ b/x y.txt\n"
        "@@ -1 +1,2 @@\n-a\n+b\n+--- c\n"
        "diff --git a/p.png b/p.png\nnew file mode 100644\nGIT binary patch\nliteral 0\n"
        "diff --git a/was b/is\nsimilarity index 100%\nrename from was\nrename to is\n"
    )
    first, second, third = split_patch(patch)
    assert (first["file"], first["additions"], first["deletions"]) == ("x y.txt", 2, 1)
    assert (second["file"], second["status"]) == ("p.png", "added")
    assert (third["file"], third["status"]) == ("is", "modified")
    assert split_patch("") == []
