"""Owns what the tests of others may use: the promises as a check, and the conformance kit.

It needs no test framework and knows the daemon only as a client does.
"""
