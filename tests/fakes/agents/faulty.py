"""A small ACP agent with ONE fault: `python faulty.py FAULT [ARGUMENT]`; without one, the list.

Owns the choice of the fault and nothing else.
"""

import sys

# Imported for what they register.
import ending
import starting
import talking
from base import FAULTS

MODULES = (ending, starting, talking)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] not in FAULTS:
        rows = [
            f"{name}: {(kind.__doc__ or '').strip().partition(chr(10))[0]}"
            for name, kind in FAULTS.items()
        ]
        sys.stderr.write("\n".join(["usage: faulty.py FAULT [ARGUMENT]", *sorted(rows)]) + "\n")
        raise SystemExit(2)
    FAULTS[arguments[0]]("".join(arguments[1:2])).serve()


if __name__ == "__main__":
    main()
