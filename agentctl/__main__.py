"""Owns the entry of the program `agentctl`: it hands over to the command line."""

import gc
import os
import sys

# What imports make stays; looking through it after each 700 new objects is a sixth of every start.
gc.set_threshold(20_000, 20, 20)

# grpc's fork handlers cost each spawn and can hang a child; they are read once, when grpc loads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Its notes on the command line's stderr help nobody who uses agentctl.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


def main() -> None:
    try:
        if sys.argv[1:2] == ["serve"]:
            from agentctl.cli.serving import run
        else:
            from agentctl.cli.app import run
    except KeyboardInterrupt:  # typed while the program still loads
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
