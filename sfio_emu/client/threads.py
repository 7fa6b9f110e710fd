"""Several threads on one session, and processes made by fork: the one lock. It is all that is needed: whoever has it
finds connections, handles and stages as the last call left them."""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Event = threading.Event
"""What has happened, once for all threads."""
Background = ThreadPoolExecutor
"""Threads that are given what is to be done."""


class Guard:
    """Lets one thread in at a time, and the same one again; a child of fork finds it free.

    `forked` (a bound method) is called in a child before anything else there: what the parent still uses must be left.
    """

    def __init__(self, forked: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._forked = weakref.WeakMethod(forked)
        _retained.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def reset_after_fork(self) -> None:
        """Start again: a thread that held the lock does not exist here."""
        self._lock = threading.RLock()
        forked = self._forked()
        if forked is not None:
            forked()


def _begin_child() -> None:
    for retained in list(_retained):
        retained.reset_after_fork()


_retained: weakref.WeakSet[Guard] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_child)
