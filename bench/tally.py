"""Owns the check of a flood at its far end: how many chunks came, in order, with all their text."""

import time
from dataclasses import dataclass, field

from agentctl import v1

_CHUNK = v1.EventType.EVENT_TYPE_MESSAGE_CHUNK
_COMPLETE = v1.EventType.EVENT_TYPE_COMPLETE


@dataclass(slots=True)
class Tally:
    """Takes batches as they come. `size` is the length that each chunk's text must have."""

    expected: int
    size: int
    good: int = 0
    out_of_order: int = 0
    wrong_text: int = 0
    last_seq: int = 0
    ended: bool = False
    last_at: float = field(default_factory=time.perf_counter)

    def take(self, batch: v1.EventBatch) -> None:
        before = self.good
        size, last_seq = self.size, self.last_seq
        for event in batch.events:
            kind = event.type
            if kind == _CHUNK:
                seq = event.seq
                if seq <= last_seq:
                    self.out_of_order += 1
                elif len(event.message_chunk.text) != size:
                    self.wrong_text += 1
                else:
                    self.good += 1
                last_seq = seq
            elif kind == _COMPLETE:
                self.ended = True
        self.last_seq = last_seq
        if self.good != before:
            self.last_at = time.perf_counter()

    @property
    def lost(self) -> int:
        """Chunks that did not come, or not as they were sent."""
        return self.expected - self.good
