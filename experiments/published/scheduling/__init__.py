"""Schedulers of other authors beside liquid schedules."""

CHAPTER = 3
"""The chapter of our documentation in which its studies stand."""
