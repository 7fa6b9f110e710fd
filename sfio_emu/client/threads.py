"""Several threads on one session, and processes made by fork: the one lock, and the worker of requests that are only
begun. A lock is all that is needed: whoever has it finds connections, handles and stages as the last call left them."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
Event = threading.Event
"""What has happened, once for all threads."""


IDLE_S = 5.0


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


class Worker(Generic[Job]):
    """A thread, made when first needed, that is given all jobs that wait, in their order: `act` must not raise."""

    def __init__(self, act: Callable[[Sequence[Job]], None]) -> None:
        self._act = act
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        _retained.add(self)

    def submit(self, job: Job) -> None:
        """Have a job done behind those given before."""
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sfio requests", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if not self._changed.wait(IDLE_S):
                        self._thread = None
                        return
                jobs = list(self._jobs)
                self._jobs.clear()
            self._act(jobs)

    def reset_after_fork(self) -> None:
        """In a child of fork: forget the parent's thread and what it was given."""
        self._jobs = deque()
        self._changed = threading.Condition()
        self._thread = None


def _begin_child() -> None:
    for retained in list(_retained):
        retained.reset_after_fork()


_retained: weakref.WeakSet[Guard | Worker[Any]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_begin_child)
