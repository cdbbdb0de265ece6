"""The app contract, name by name, against the demo agent behind a real daemon."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.from_thread
import pytest

from tests.contracts import app_sdk_data, app_sdk_rows
from tests.contracts.app_sdk_names import NAMES
from tests.contracts.lab import Lab, repository
from tests.contracts.table import ROWS
from tests.daemon.harness import daemon

pytestmark = [pytest.mark.anyio, pytest.mark.proves("D8")]

ROW_S = 60.0
_TABLES = (app_sdk_rows.ROWS, app_sdk_data.ROWS)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        root = Path(folder)
        workspace = root / "workspace"
        workspace.mkdir()
        repository(workspace)
        secrets = {"UNRELATED_SECRET": "s3cret-value", "NPM_CONFIG_THING": "s3cret-value"}
        with (
            anyio.from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(daemon(root, **secrets)) as served,
        ):
            yield Lab(served.address, workspace)


def test_the_table_has_a_row_for_each_name_and_no_other() -> None:
    assert set(ROWS) == NAMES and all(table is ROWS for table in _TABLES)


@pytest.mark.parametrize("name", sorted(NAMES))
async def test_it_does_what_the_contract_says_of(lab: Lab, name: str) -> None:
    check = ROWS[name]
    if check not in lab.tried:
        try:
            with anyio.fail_after(ROW_S):
                async with lab.client() as client:
                    await check(lab, client)
            lab.tried[check] = None
        except Exception as error:  # noqa: BLE001  (kept for the other names of this check)
            lab.tried[check] = error
    if (error := lab.tried[check]) is not None:
        raise error
