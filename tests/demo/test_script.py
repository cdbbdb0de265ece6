"""The demo agent's script language, without an agent."""

import pytest

from agentctl_adapters.demo.script import Step, help_text, parse, verbs


def test_lines_and_double_bars_are_steps_in_order() -> None:
    steps = parse("say one || think two\nrun echo three")
    assert steps == [Step("say", "one"), Step("think", "two"), Step("run", "echo three")]


@pytest.mark.parametrize(
    "talk", ["hello", "plan the migration", "words about cats", "", "crash and burn", "hang on"]
)
def test_plain_talk_is_no_script(talk: str) -> None:
    assert parse(talk) == []


def test_a_mistake_later_in_a_script_is_told_and_not_swallowed() -> None:
    assert parse("say hi || sloww 3")[1] == Step("unknown", "sloww 3")


def test_text_is_kept_exactly() -> None:
    assert parse("say  a  b ")[0].text == " a  b "


def test_numbers_and_codes_are_read() -> None:
    assert parse("chunks 5 100")[0].numbers == (5, 100)
    assert parse("model-error -32000 no key")[0] == Step("model-error", "no key", (-32000,))
    assert parse("crash")[0].numbers == ()


def test_help_names_every_directive() -> None:
    shown = parse("/help")[0].text
    assert shown == help_text()
    assert [verb for verb in verbs() if f"  {verb}" not in shown] == []
