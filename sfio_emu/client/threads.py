"""Several threads on one session, and processes made by fork: the only module of the client that knows of either.
A lock is all that is needed: whoever has it finds connections, handles and stages as the last call left them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable


class Guard:
    """Lets one thread in at a time, and the same one again; a child of fork finds it free.

    `forked` (a bound method) is called in a child before anything else there: what the parent still uses must be left.
    """

    def __init__(self, forked: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._forked = weakref.WeakMethod(forked)
        _guards.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def begin_child(self) -> None:
        """Start anew: a thread that held the lock does not exist here."""
        self._lock = threading.RLock()
        forked = self._forked()
        if forked is not None:
            forked()


def _begin_child() -> None:
    for guard in list(_guards):
        guard.begin_child()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_child)

__all__ = ["Guard"]
