"""Owns the gRPC server and the one conversion between records and messages; decides nothing."""

import os

# grpc's fork handlers cost each spawn and can hang a child; they are read once, when grpc loads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Its C core writes what we raise as errors a second time, to stderr, in words for its own authors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
