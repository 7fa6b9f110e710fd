"""The errors of striped files, and checks of numbers that callers pass.

Mistakes of the caller (`UsageError`) are distinct from failures of an I/O node or of the connection
to it (`PeerError`). Every message is one line: what is wrong, where, and how to fix it.
"""

import copyreg
import errno as error_numbers
import operator
import os
from numbers import Real
from typing import Any, SupportsIndex


class SfioError(Exception):
    """The base of all errors of this package.

    Its text is one line: characters that are not printable, for instance in a file name, are
    escaped.
    """

    def __init__(self, text: str) -> None:
        super().__init__("".join(_escape_unprintable(character) for character in text))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the arguments and attributes without calling `__init__` of a subclass.

        The subclasses take other arguments than the base class. By default, unpickling would call
        them with the text alone, and a process pool would break down.
        """
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def _escape_unprintable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode()


class UsageError(SfioError, ValueError):
    """A mistake of the caller: a malformed name, a negative offset, a buffer that is too short."""


class PeerError(SfioError):
    """A failure of an I/O node or of another compute process.

    Attributes:
        host: The name of the I/O node or process.
        text: The failure, without the name.
    """

    def __init__(self, host: str, text: str) -> None:
        super().__init__(f"{host}: {text}")
        self.host = host
        self.text = text


class ListenerLost(PeerError):
    """The listener of a host died or cannot be reached.

    Data that it did not acknowledge may or may not be on its disk.
    """


class ProtocolError(PeerError):
    """A message broke the protocol or arrived corrupted. The receiver rejected all of it."""


class RemoteFailure(PeerError):
    """A system call failed on an I/O node.

    Attributes:
        call: The name of the system call.
        errno: The error number.
        path: The file or folder that the call was for.
        done_bytes: How many bytes of the message were written before the call failed. They remain
            in the subfile.
    """

    def __init__(
        self, host: str, call: str, errno: int, path: str, done_bytes: int = 0, *, hint: str = ""
    ) -> None:
        done = f", after {done_bytes} bytes of the message" if done_bytes else ""
        super().__init__(host, f"{call} of {path}: {os.strerror(errno)}{done}{hint}")
        self.call = call
        self.done_bytes = done_bytes
        self.errno = errno
        self.path = path


class StaleFileError(RemoteFailure):
    """The name of an open file belongs to another file now: it was replaced or created again.

    No byte was read or written. The open file cannot be used any more. To use the new file, open
    the name again.
    """

    def __init__(self, host: str, path: str) -> None:
        super().__init__(
            host,
            "open",
            error_numbers.ESTALE,
            path,
            hint=": it is not the file that was opened; open it again",
        )


def positive_seconds(value: object, name: str) -> float:
    """Return a duration as a float, after checking that it is between 0 and 10^6 seconds.

    Args:
        value: The duration in seconds, a number of any type but bool.
        name: The name of the value in the error message.

    Raises:
        UsageError: The value is not a number, not above 0, or too large.
    """
    seconds = 0.0
    if isinstance(value, Real) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < 1e6:
        raise UsageError(f"the {name} is {value!r}: give seconds above 0")
    return seconds


def whole_number(value: SupportsIndex, name: str, minimum: int = 0, maximum: int = 2**62) -> int:
    """Return a whole number as an int, after checking its bounds.

    numpy integers are accepted; bool and float are not.

    Args:
        value: The number.
        name: The name of the value in the error message.
        minimum: The smallest accepted number.
        maximum: The largest accepted number.

    Raises:
        UsageError: The value is not a whole number, or outside the bounds.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = minimum - 1
    if isinstance(value, bool) or not minimum <= number <= maximum:
        bounds = f"{minimum} to {maximum}".replace(str(2**62), "2^62")
        raise UsageError(f"the {name} is {value!r}: give a whole number from {bounds}")
    return number
