"""`python -m agentctl_registry`: write the schema and check the packaged agents.json."""

import sys

from agentctl_registry.catalog import Catalog, packaged_file
from agentctl_registry.schema import SCHEMA_FILE, write_schema


def main() -> int:
    write_schema()
    count = len(Catalog.load().entries())
    sys.stdout.write(f"{SCHEMA_FILE} written; {packaged_file()} is good: {count} entries\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
