"""What a newcomer sees: the short tour, and its answer to allow and reject."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.demo.driver import Driver


def test_hello_shows_text_thought_plan_read_permission_and_edit(
    demo: Driver, workspace: Path
) -> None:
    began = time.monotonic()
    turn = demo.prompt("hello")
    request = demo.asked()
    assert not (workspace / "demo.txt").exists()
    demo.choose(request, "allow_once")
    response = demo.response(turn)
    assert response["result"]["stopReason"] == "end_turn"
    assert response["result"]["usage"]["totalTokens"] > 0
    assert time.monotonic() - began < 2
    assert (workspace / "demo.txt").read_text(encoding="utf-8").startswith("Hello")
    assert demo.text().startswith("Hello! I am the demo agent")
    assert demo.updates("agent_thought_chunk")
    assert demo.updates("usage_update")
    assert [c["kind"] for c in demo.updates("tool_call")] == ["read", "edit"]
    assert [e["status"] for e in demo.updates("plan")[-1]["entries"]] == ["completed"] * 3


def test_a_rejected_edit_is_not_written_and_the_turn_goes_on(demo: Driver, workspace: Path) -> None:
    turn = demo.prompt("hello")
    demo.choose(demo.asked(), "reject_once")
    assert demo.response(turn)["result"]["stopReason"] == "end_turn"
    assert list(workspace.iterdir()) == []
    assert "I left demo.txt alone" in demo.text()
    assert demo.updates("tool_call_update")[-1]["status"] == "failed"


def test_yolo_asks_nothing(start: Callable[..., Driver], workspace: Path) -> None:
    demo = start("--yolo")
    demo.open(workspace)
    assert demo.turn("hello")["result"]["stopReason"] == "end_turn"
    assert (workspace / "demo.txt").exists()


def test_an_attachment_is_noticed(demo: Driver) -> None:
    demo.result("session/set_mode", sessionId=demo.session_id, modeId="auto")
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    demo.result("session/prompt", sessionId=demo.session_id, prompt=[link, image])
    assert "Thank you for the resource_link and the image" in demo.text()
