"""Measures what a user of the daemon feels, as ratios within one run; knows the daemon only from outside.

Not in the wheel: `make bench` runs it from the checkout.
"""
