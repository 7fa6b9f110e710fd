"""The steps of an algorithm compiled by numba into one entry: what all compiled code of the testbed is made by.

Steps are plain functions that tests can run as they are. An entry, and the steps that it calls, directly or not, are compiled
together when the entry is first called, which takes seconds; the result is kept (see fec.compile) until one of them changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from fec.compile import compiled

Step = Callable[..., Any]
_registered: set[Step] = set()


def compiled_entry(entry: Step, steps: Iterable[Step], *, inline: Iterable[Step] = (), **options: Any) -> Any:
    """The entry compiled with the steps that it may call; code of the ``inline`` ones is put where they are called.

    ``options``: numba's, of the entry and of the steps.
    """
    from numba.extending import register_jitable

    inline, steps = tuple(inline), tuple(steps)
    for step in (*inline, *steps):
        if step not in _registered:  # without an entry for C, which only Python would call
            register_jitable(no_cfunc_wrapper=True, forceinline=step in inline, **options)(step)
            _registered.add(step)
    named = FunctionType(entry.__code__, entry.__globals__, entry.__name__)
    named.__qualname__ = f"{entry.__name__}_{fingerprint((entry, *inline, *steps))}"
    return compiled(named, **options)


def fingerprint(steps: Iterable[Step]) -> str:
    """Changes with the code of any step, and with the numbers and the fields of named tuples that one refers to.

    numba itself looks at the file of the entry alone, so the entry is kept under a name with this in it.
    """
    seen = hashlib.sha256()
    for step in steps:
        code, outside = step.__code__, step.__globals__
        names = [*code.co_names, *map(str, step.__annotations__.values())]
        values = [(name, outside[name]) for name in names if name in outside]
        plain = [(name, value) for name, value in values if isinstance(value, int | float)]
        fields = [(name, value.__annotations__) for name, value in values if hasattr(value, "_fields")]
        seen.update(repr((code.co_code, code.co_consts, code.co_names, plain, fields)).encode())
    return seen.hexdigest()[:16]
