"""The built-in demo agent: a scripted ACP agent that needs no key and no network.

Owns one agent program and its script language. Knows nothing of the daemon: it only speaks ACP over
its own standard input and output, with the standard library alone.
"""
