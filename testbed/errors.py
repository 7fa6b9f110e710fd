"""The testbed's errors and the exit code each ends a command with (see docs/reference/commands.md)."""

import errno
from collections.abc import Iterator
from numbers import Integral, Real
from typing import TypeVar

T = TypeVar("T")


class TestbedError(Exception):
    """Root of what a command reports in one line; never raised itself. No error has exit code 1, which says that a
    check failed."""

    __test__ = False  # pytest: a name that starts with Test, not a test
    exit_code = 70


class InputError(TestbedError, ValueError):
    """The caller's mistake: what, where, how to fix it. Exit code 2."""

    exit_code = 2


class UsageError(InputError, TypeError):
    """A function was called with a value of another kind than it takes: which one, and what it takes. Exit code 2."""


class SessionClosedError(TestbedError):
    """The process that holds a network up has ended, or met something that it should not have. Exit code 3."""

    exit_code = 3


class CapabilityError(TestbedError):
    """This machine is missing something: what, and what to install or allow. Exit code 3."""

    exit_code = 3


class TimeLimitError(TestbedError):
    """A program was ended because it took longer than it was given. Exit code 124, as of timeout(1)."""

    exit_code = 124


class InvalidRunError(TestbedError):
    """The machine could not keep up, so the measurement says nothing. Exit code 4."""

    exit_code = 4


class UndecidedError(TestbedError):
    """The problem is valid, but the solver cannot prove an answer to it. Exit code 5."""

    exit_code = 5


class MachineDiedError(InvalidRunError):
    """One of several machines died in the middle of a run: which, by its ``number``, and when on our monotonic clock.
    Exit code 4.

    ``measured``: what was known by then, for a document; whoever ran something adds it.
    """

    def __init__(self, words: str, number: int = -1, at_s: float | None = None) -> None:
        super().__init__(words)
        self.number, self.at_s = number, at_s
        self.measured: dict[str, object] = {}


NO_MEMORY = (
    "not enough memory: raise the limit (ulimit -v, the container's), end other programs, or ask"
    " for less"
)
# Error numbers of a file system without space, or a user without quota.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# How the loader of libraries and the starter of threads describe a lack of memory.
_NO_MEMORY_TEXTS = ("failed to map segment", "cannot allocate memory", "can't start new thread")


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether the exception, or one that it came from, says that memory is out.

    >>> is_lack_of_memory(RuntimeError("can't start new thread")), is_lack_of_memory(OSError())
    (True, False)
    """
    return any(map(_says_no_memory, _chain(error)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those that it came from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _says_no_memory(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, OSError | ImportError | RuntimeError):
        return any(text in str(error).lower() for text in _NO_MEMORY_TEXTS)
    return isinstance(error, MemoryError)


def unwritable(error: Exception, text: str) -> TestbedError:
    """Return the error of a place that cannot be written: the machine's lack if its disk is full.

    >>> type(unwritable(OSError(errno.ENOSPC, "full"), "file")).__name__
    'CapabilityError'
    >>> type(unwritable(OSError(errno.EACCES, "refused"), "file")).__name__
    'InputError'
    """
    full = isinstance(error, OSError) and error.errno in DISK_FULL
    return CapabilityError(text) if full else InputError(text)


_WIDER: dict[type, type] = {int: Integral, float: Real}


def require_type(value: T, kind: type | tuple[type, ...], what: str, expected: str) -> T:
    """The value, a number of numpy as Python's. Raise UsageError unless it is of that kind; ``expected`` says what to
    give instead.

    >>> require_type(["a"], str, "network", "a name")
    Traceback (most recent call last):
    ...
    testbed.errors.UsageError: network: got a list; give a name
    """
    from topologies.errors import (
        python_number,
    )  # what says --help does without the networks' package

    value, kinds = python_number(value), kind if isinstance(kind, tuple) else (kind,)
    wider = tuple(_WIDER.get(one, one) for one in kinds)
    if not isinstance(value, wider) or (isinstance(value, bool) and bool not in kinds):
        name = type(value).__name__
        raise UsageError(
            f"{what}: got {'an' if name[0] in 'aeiou' else 'a'} {name}; give {expected}"
        )
    return value
