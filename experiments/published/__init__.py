"""Comparers: routings of other authors next to the documents', on the same networks, judged by the same checkers."""

CHAPTER = 4
"""The chapter of our documentation in which its studies stand."""

PAGE = "comparers"
"""Of docs/replication, in which its studies stand."""
