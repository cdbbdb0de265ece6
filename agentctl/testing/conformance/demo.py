"""Owns the script of the demo agent that ships with agentctl: the example of a script."""

from collections.abc import Sequence

from agentctl.testing.conformance.script import BaseScript, Line


class DemoScript(BaseScript):
    """The demo agent does what its prompt says."""

    def say(self, text: str) -> Line:
        return Line(f"say {text}")

    def run(self, command: str) -> Line:
        return Line(f"say I will run it. || run {command} || say That was it.")

    def ask(self, question: str, options: Sequence[str]) -> Line | None:
        return Line(f"ask {question}")

    def stream(self) -> Line:
        return Line("say partial || hang")

    def recall(self, earlier: int) -> Line:
        return Line("history", tells=f"{earlier + 1} user turns")


SCRIPT = DemoScript()
