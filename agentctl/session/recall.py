"""Owns the taking up of what is known of sessions' progress: after a restart, and of older journals.

What was stored last is continued with the events that came after it, so that nothing that is in the
journal is left out, whatever ended the last daemon. It refuses to know what is counted (`progress.py`).
"""

from collections.abc import Collection, Sequence

from agentctl.journal.select import Selection, wanted
from agentctl.session.ports import Decode, JournalPort
from agentctl.session.progress import FOLDED, Facts
from agentctl.session.records import SeenRecord, SessionRecord, TallyRecord
from agentctl.session.store import doc_of, load

BATCH = 1000
"""Sessions that are looked for at a time."""

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


async def fill_in(journal: JournalPort, decode: Decode, opened: Collection[str]) -> None:
    """Counts closed sessions of older journals, which have no facts; those of `opened` have theirs."""
    done: set[str] = set()
    while ids := [
        i for i in await journal.lacking("session", "seen", limit=BATCH) if i not in done
    ]:
        for session_id in ids:
            done.add(session_id)
            doc = await journal.doc("session", session_id)
            if doc is None or doc.open or session_id in opened:
                continue
            record = load(SessionRecord, doc)
            facts = (await recall(journal, decode, [record]))[session_id]
            facts.seen.open = False
            if session_id not in opened:
                kept = [record, facts.seen, *facts.changed.values()]
                await journal.append([], [doc_of(each) for each in kept])


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
