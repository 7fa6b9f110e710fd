"""Demand matrices: all pairs of a network at once."""

CHAPTER = 4
"""The chapter of our documentation in which its studies stand."""

PAGE = "demand_matrices"
"""Of docs/replication, in which its studies stand."""
