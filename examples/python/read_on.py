"""Shows what happened in all sessions since this program ran last; the cursor is kept in a file.

It may be away for days, and the daemon may have been restarted: nothing is missed, nothing comes twice.
"""

import asyncio
import sys
from pathlib import Path

from agentctl.client import AgentCtl, Event


async def main(state: str = "cursor.txt") -> None:
    file = Path(state)
    cursor = file.read_text() if file.exists() else ""
    async with AgentCtl.connect() as client:
        async for told in client.events(cursor, follow=False, on_gap=lambda gap: print("[a gap]")):
            event = Event(told)
            if event.family:
                print(event.family, event.run_id or event.session_id or "")
            file.write_text(event.cursor)


asyncio.run(main(*sys.argv[1:]))
