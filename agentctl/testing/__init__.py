"""Owns what the tests of others may use: the promises as a check, the conformance kit, a fake daemon.

It needs no test framework. All but the fake daemon (`fake_daemon`) know the daemon only as a client does.
"""
