"""The errors of the testbed, and the exit codes of commands (see docs/reference/commands.md)."""

import errno
from collections.abc import Iterator
from numbers import Integral, Real
from typing import TypeVar

T = TypeVar("T")


class TestbedError(Exception):
    """Base class of the errors that a command reports in one line.

    It is never raised itself. No error has the exit code 1, which means that a check failed.
    """

    # pytest would collect a class whose name begins with Test.
    __test__ = False
    exit_code = 70


class InputError(TestbedError, ValueError):
    """Invalid input. The message says what is wrong, where, and how to fix it. Exit code 2."""

    exit_code = 2


class UsageError(InputError, TypeError):
    """An argument of the wrong type. The message says what the function accepts. Exit code 2."""


class SessionClosedError(TestbedError):
    """The process of a network has ended, or has met an unexpected error. Exit code 3."""

    exit_code = 3


class CapabilityError(TestbedError):
    """The machine lacks something. The message says what to install or allow. Exit code 3."""

    exit_code = 3


class TimeLimitError(TestbedError):
    """A program was killed at its time limit. Exit code 124, like that of timeout(1)."""

    exit_code = 124


class InvalidRunError(TestbedError):
    """The machine could not keep up, so that the measurement is invalid. Exit code 4."""

    exit_code = 4


class UndecidedError(TestbedError):
    """The problem is valid, but the solver cannot prove an answer. Exit code 5."""

    exit_code = 5


class MachineDiedError(InvalidRunError):
    """One of several machines failed during a run. Exit code 4.

    Attributes:
        number: Number of the machine, or -1 if it is not known.
        at_s: When it failed, in seconds on the monotonic clock of this machine, or None.
        measured: What was measured before, for the document of the run. Callers that have
            measurements add them.
    """

    def __init__(self, message: str, number: int = -1, at_s: float | None = None) -> None:
        super().__init__(message)
        self.number = number
        self.at_s = at_s
        self.measured: dict[str, object] = {}


NO_MEMORY = (
    "not enough memory: raise the limit (ulimit -v, the container's), end other programs, or ask"
    " for less"
)
# Error numbers of a file system without space, or a user without quota.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Messages of the loader of libraries and of the threading module about a lack of memory.
_NO_MEMORY_TEXTS = ("failed to map segment", "cannot allocate memory", "can't start new thread")


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether an exception, or one that caused it, is due to a lack of memory.

    >>> is_lack_of_memory(RuntimeError("can't start new thread")), is_lack_of_memory(OSError())
    (True, False)
    """
    return any(map(_says_no_memory, _chain(error)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those that caused it."""
    # The chain may be a cycle.
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _says_no_memory(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    if isinstance(error, OSError | ImportError | RuntimeError):
        return any(text in str(error).lower() for text in _NO_MEMORY_TEXTS)
    return isinstance(error, MemoryError)


def unwritable(error: Exception, text: str) -> TestbedError:
    """Return the error for a file or folder that cannot be written.

    If the disk is full, the machine lacks something. Otherwise the input is wrong.

    Args:
        error: The original error.
        text: The message.

    >>> type(unwritable(OSError(errno.ENOSPC, "full"), "file")).__name__
    'CapabilityError'
    >>> type(unwritable(OSError(errno.EACCES, "refused"), "file")).__name__
    'InputError'
    """
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return CapabilityError(text)
    return InputError(text)


# Types that are accepted like Python's numbers.
_ABSTRACT_TYPES: dict[type, type] = {int: Integral, float: Real}


def require_type(value: T, kind: type | tuple[type, ...], subject: str, expected: str) -> T:
    """Return the value if it is of the required type. A number of numpy becomes one of Python.

    Args:
        value: The value.
        kind: The required type, or several. bool is not accepted as an int.
        subject: What the message calls the value.
        expected: What the message says to give instead.

    Raises:
        UsageError: The value is of another type.

    >>> require_type(["a"], str, "network", "a name")
    Traceback (most recent call last):
    ...
    testbed.errors.UsageError: network: got a list; give a name
    """
    # The package of networks is slow to import, and help pages do not need it.
    from topologies.errors import python_number

    value = python_number(value)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    accepted = tuple(_ABSTRACT_TYPES.get(required, required) for required in kinds)
    is_unwanted_bool = isinstance(value, bool) and bool not in kinds
    if not isinstance(value, accepted) or is_unwanted_bool:
        name = type(value).__name__
        article = "an" if name[0] in "aeiou" else "a"
        raise UsageError(f"{subject}: got {article} {name}; give {expected}")
    return value
