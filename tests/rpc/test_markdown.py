"""What a session reads like in an editor."""

import pytest

from agentctl import v1
from agentctl.core.events import ToolCall, ToolUpdate
from agentctl.core.words import Outcome, ToolKind, ToolStatus
from agentctl.rpc.conversation import Conversation
from agentctl.rpc.markdown import Writer, closed, code, fenced, header
from tests.rpc.kept import run, said, wire, worked


def written(events: object, *, messages: bool = True) -> str:
    fold = Conversation()
    for event in wire(events):  # pyright: ignore[reportArgumentType]  a list of events
        fold.feed(event)
    writer = Writer("demo", "/w", messages=messages)
    return "".join(writer.write(each) for each in fold.all())


def test_a_run_reads_as_prompt_work_and_answer() -> None:
    assert (
        written(worked())
        == """
## 1. Prompt · 1970-01-01 00:00:10 UTC

> prompt 1

<details><summary>Thinking</summary>

Let me see.

</details>

- **execute** `npm test` · failed · exit 1

  ```text
  1 failing
  ```

- **Approval** `npm test` · approved by rule rul_9
- **edit** `a.py` · completed

**modify** `a.py` · +1 −1

```diff
-old
+new
```

### demo

Fixed it.

*completed in 2.0 s · 15 tokens (10 in, 5 out) · $0.5000*
"""  # noqa: RUF001  the sign that is shown
    )


def test_without_messages_the_work_is_left() -> None:
    text = written(worked(), messages=False)
    assert "prompt 1" not in text and "Fixed it." not in text and "see." not in text
    assert "npm test" in text and "+new" in text


def test_a_block_that_an_answer_left_open_swallows_nothing_behind_it() -> None:
    text = written([*run(1, said("m1", "```py\nprint(1)")), *run(2)])
    assert "print(1)\n```\n" in text


@pytest.mark.parametrize(
    ("text", "end"),
    [("a", "a"), ("```\nx\n```", "```"), ("~~~~\n~~~\n", "~~~~"), ("```\n```x", "```")],
)
def test_a_text_is_closed_by_its_own_fence(text: str, end: str) -> None:
    assert closed(text).endswith(end)
    assert closed(closed(text)) == closed(text)


def test_nothing_in_a_block_of_code_can_end_it() -> None:
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````\n"
    assert code("a `b`\nc") == "`` a `b` c ``"


def test_colours_and_control_characters_of_an_agent_are_taken_out() -> None:
    text = written(run(1, said("m1", "\x1b[31mred\x1b[0m\x07 bell")))
    assert "red bell" in text and "\x1b" not in text and "\x07" not in text


def test_of_long_output_the_end_is_shown() -> None:
    output = "".join(f"line {n}\n" for n in range(100))
    call = ToolCall("t", kind=ToolKind.EXECUTE, command="make")
    done = ToolUpdate("t", output_delta=output, status=ToolStatus.COMPLETED)
    text = written(run(1, call, done, end=Outcome.TIMED_OUT))
    assert "… 60 lines before" in text and "line 99" in text and "line 59\n" not in text
    assert "*timed out in 2.0 s" in text


def test_a_title_cannot_break_the_header() -> None:
    session = v1.Session(session_id="ses_1", entry_id="demo", title="a | b\n# c", workspace="/w|x")
    text = header(session, None)
    assert text.startswith("# a \\| b # c\n")
    assert "| workspace | `/w\\|x` |" in text and "tokens" not in text
