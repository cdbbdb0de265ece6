"""Owns the taking up of what is known of sessions' progress: after a restart, and of older journals.

What was stored last is continued with the events that came after it, so that nothing that is in the
journal is left out, whatever ended the last daemon. It refuses to know what is counted (`progress.py`).
"""

from collections.abc import Sequence

from agentctl.journal.select import Selection, wanted
from agentctl.session.ports import Decode, JournalPort
from agentctl.session.progress import FOLDED, Facts
from agentctl.session.records import SeenRecord, SessionRecord, TallyRecord
from agentctl.session.store import load

_WANT = wanted(FOLDED, include_log=False)


async def recall(
    journal: JournalPort, decode: Decode, records: Sequence[SessionRecord]
) -> dict[str, Facts]:
    """The facts of each of these sessions, up to the head of the journal."""
    ids = [record.id for record in records]
    newest = await journal.newest(ids)
    seen: dict[str, tuple[SeenRecord, int]] = {}
    tallies: dict[str, list[TallyRecord]] = {}
    if len(ids) > 1:
        for doc in await journal.docs("seen", open=True, limit=1_000_000):
            seen[doc.id] = (load(SeenRecord, doc), doc.seq)
    for doc in await journal.docs("tally", open=True, limit=1_000_000):
        tally = load(TallyRecord, doc)
        tallies.setdefault(tally.session_id, []).append(tally)
    facts: dict[str, Facts] = {}
    for record in records:
        if record.id not in seen and (doc := await journal.doc("seen", record.id)) is not None:
            seen[record.id] = (load(SeenRecord, doc), doc.seq)
        known, after = seen.get(record.id, (SeenRecord(record.id), 0))
        found = Facts.restored(record, known, tallies.get(record.id, ()))
        if newest.get(record.id, 0) > after:
            await _continue(journal, decode, found, after)
        facts[record.id] = found
    return facts


async def _continue(journal: JournalPort, decode: Decode, facts: Facts, after: int) -> None:
    record = facts.record
    selection = Selection(sessions=frozenset({record.id}), want=_WANT)
    while True:
        page = await journal.page(selection, after)
        for data in page.data:
            for event in decode(data):
                if event.session_id == record.id:
                    facts.feed(event)
                    record.last_active_at = max(record.last_active_at, event.ts)
        if page.to >= page.head:
            return
        after = page.to
