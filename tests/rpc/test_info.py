"""What GetInfo tells of trouble."""

import pytest

from tests.rpc import fakes
from tests.rpc.fakes import FakeJournal, house

pytestmark = pytest.mark.anyio


async def test_info_tells_of_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with house() as rooms:
        assert not (await rooms.client.daemon.get_info()).disk_full
    monkeypatch.setattr(fakes, "FakeJournal", lambda: FakeJournal(full=True))
    async with house() as rooms:
        assert (await rooms.client.daemon.get_info()).disk_full
