"""Owns the CPU and memory of process trees, for `ps`; blocking, so it runs on a thread."""

from collections.abc import Iterable

import psutil

from agentctl.session.records import AgentRecord


class Footprint:
    """Keeps the last CPU times: a percentage is the difference since the last look."""

    def __init__(self) -> None:
        self._seen: dict[int, psutil.Process] = {}

    def measure(self, records: Iterable[AgentRecord]) -> None:
        """Fills `cpu_percent` and `memory_bytes` (resident, of the whole tree) where known."""
        alive: dict[int, psutil.Process] = {}
        for record in records:
            if record.pid is not None:
                self._one(record, record.pid, alive)
        self._seen = alive

    def _one(self, record: AgentRecord, pid: int, alive: dict[int, psutil.Process]) -> None:
        try:
            top = psutil.Process(pid)
            tree = [top, *top.children(recursive=True)]
        except psutil.Error:
            return
        cpu, memory = 0.0, 0
        for process in tree:
            known = self._seen.get(process.pid)
            if known is not None and known == process:
                process = known
            alive[process.pid] = process
            try:
                cpu += process.cpu_percent(None)
                memory += process.memory_info().rss
            except psutil.Error:
                continue
        record.cpu_percent = cpu
        record.memory_bytes = memory
