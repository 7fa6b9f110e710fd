"""Threads and forks: the primitives that a session needs.

One lock per session is enough. Whoever holds it finds the connections, handles and buffers as the
last call left them.
"""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Event = threading.Event

# Worker threads that carry out tasks in order.
Background = ThreadPoolExecutor

# A lock that the thread which holds it can take again. Use it by `with`, which takes it in one
# step. In a Python method, a signal handler could raise an exception after the lock was taken and
# before the method returned, and the lock would never be released.
Guard = threading.RLock


def call_in_children(method: Callable[[], None]) -> None:
    """Call a bound method first of all in every child of `fork`, as long as its object lives.

    A child must not use the connections, which the parent still uses. The thread that held a lock
    does not exist in the child, so the lock must be replaced.
    """
    _methods_in_children[method.__self__] = method.__name__  # type: ignore[attr-defined]


def _call_methods() -> None:
    for owner, name in list(_methods_in_children.items()):
        getattr(owner, name)()


_methods_in_children: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()
os.register_at_fork(after_in_child=_call_methods)
