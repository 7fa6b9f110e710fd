"""Schedulers of other authors, with the same signature as the other methods.

They are frames by linear programming, and two-level rotation between groups of senders.
"""
