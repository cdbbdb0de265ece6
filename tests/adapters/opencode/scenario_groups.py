"""The groups in which scenarios are kept, and what several of them say to the model."""

import json
from collections.abc import Awaitable, Callable

from tests.adapters.opencode.live import Live

Scenario = Callable[[Live], Awaitable[None]]
GROUPS: dict[str, dict[str, Scenario]] = {}


def scenario(group: str) -> Callable[[Scenario], Scenario]:
    def keep(check: Scenario) -> Scenario:
        GROUPS.setdefault(group, {})[check.__name__] = check
        return check

    return keep


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ODD = ["a\u2028b", " ", "\n", "é漢字🎉", "  two  ", "\ttab", "end "]
QUESTION = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "options": [
                {"label": "Red", "description": "warm"},
                {"label": "Blue", "description": "cold"},
            ],
        }
    ]
}


def subagent(prompt: str) -> str:
    task = {"description": "child job", "prompt": prompt, "subagent_type": "general"}
    return f"CALL task {json.dumps(task)}"
