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
Guard = threading.RLock
"""Lets one thread in at a time, and the same one again. `with` enters it in one step: by a method of Python, whatever a
handler of a signal raises could come behind the step that takes it, and it would be taken for ever."""


def call_in_children(forked: Callable[[], None]) -> None:
    """Have the bound method called in a child of fork before anything else there, as long as its object lives: what the
    parent still uses must be left, and a thread that had a guard does not exist there."""
    _retained[forked.__self__] = forked.__name__  # type: ignore[attr-defined]


def _begin_child() -> None:
    for owner, name in list(_retained.items()):
        getattr(owner, name)()


_retained: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()
os.register_at_fork(after_in_child=_begin_child)
