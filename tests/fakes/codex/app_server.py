"""A fake `codex app-server` with one fault: `app_server.py FAULT [ARGUMENT]`; "" has none.

Standard library only, so that it starts at once. What follows a "--" is ignored, as are the arguments that
the real program takes.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.fakes.codex import ending, talking, turning
from tests.fakes.codex.base import FAULTS, Server

KNOWN = (ending, talking, turning)

if __name__ == "__main__":
    words = sys.argv[1:]
    argument = words[1] if len(words) > 1 and words[1] != "-c" else ""
    raise SystemExit(FAULTS.get(words[0] if words else "", Server)(argument).serve())
