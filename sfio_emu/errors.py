"""What can go wrong in a striped file: mistakes of the caller apart from faults of an I/O node or of the way to it.
Every message is one line: what, where, how to fix."""

import copyreg
import errno as numbers
import operator
import os
from numbers import Real
from typing import Any, SupportsIndex


class SfioError(Exception):
    """Root of the errors of this package. Its text is one line, whatever names and values are in it."""

    def __init__(self, text: str) -> None:
        super().__init__(
            "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is, whatever it was made of: for a process pool, which would break off."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class UsageError(SfioError, ValueError):
    """The caller's mistake: a malformed name, a negative offset, a buffer too short."""


class PeerError(SfioError):
    """A fault of an I/O node or of another compute process; `host` names it."""

    def __init__(self, host: str, text: str) -> None:
        super().__init__(f"{host}: {text}")
        self.host = host
        self.text = text


class ListenerLost(PeerError):
    """The listener of a host died, or no way leads to it: nothing it did not acknowledge is known to be on disk."""


class ProtocolError(PeerError):
    """A message broke the protocol or arrived corrupted; it was rejected whole."""


class RemoteFailure(PeerError):
    """A call of the operating system failed on an I/O node: `call` and `errno` say which and why, `path` where.

    `done_bytes`: how much of the message with the failed call was written before it, and is on the I/O node.
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
    """Under the name of an open file there is another file now (it was replaced or recreated): nothing was read or
    written. The open file stays of no use; to open the name again gives the file that is there now."""

    def __init__(self, host: str, path: str) -> None:
        super().__init__(
            host,
            "open",
            numbers.ESTALE,
            path,
            hint=": it is not the file that was opened; open it again",
        )


def positive_seconds(value: object, what: str) -> float:
    """Seconds above 0 as a float, of any type of number; raises `UsageError` for anything else."""
    seconds = float(value) if isinstance(value, Real) and not isinstance(value, bool) else 0.0
    if not 0 < seconds < 1e6:
        raise UsageError(f"the {what} is {value!r}: give seconds above 0")
    return seconds


def whole_number(value: SupportsIndex, what: str, least: int = 0, most: int = 2**62) -> int:
    """A whole number of any type (numpy's too) as an int; raises `UsageError` for anything else and outside the
    bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        bounds = f"{least} to {most}".replace(str(2**62), "2^62")
        raise UsageError(f"the {what} is {value!r}: give a whole number from {bounds}")
    return number
