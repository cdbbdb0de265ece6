"""An HTTP server with OpenCode's API for every agent of the registry: `agentctl serve --mode opencode`.

A client of the daemon like any other: it decides nothing that the daemon decides and knows no adapter.
`serving` is its door; nothing here is imported before it is asked for.
"""
