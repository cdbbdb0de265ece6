"""Owns the conformance kit: one suite of scenarios that every agent must pass, whatever it speaks.

`run` plays them on an entry of a running daemon; a `Script` says how that agent is made to do things.
"""

from agentctl.testing.conformance.runner import Result, Verdict, play, run
from agentctl.testing.conformance.scenarios import Scenario, load
from agentctl.testing.conformance.script import BaseScript, Line, Script
from agentctl.testing.conformance.sequence import normalised

__all__ = [
    "BaseScript",
    "Line",
    "Result",
    "Scenario",
    "Script",
    "Verdict",
    "load",
    "normalised",
    "play",
    "run",
]
