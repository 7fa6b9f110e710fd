"""The command's stdout and stderr: nothing of others' text steers the terminal, and what the encoding is missing is
escaped."""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

from testbed.errors import InputError
from testbed.model.naming.printable import LAYOUT, Styled, printable


class OutputError(InputError):
    """Standard output cannot be written, and its reader has not simply gone."""


class PrintableStream(io.TextIOWrapper):
    """A text stream that writes out control characters, but for line breaks and tabs, of everything that is not
    ``Styled``.

    When its reader has gone, what is still written is dropped, and the command goes on: its exit
    code still counts. Only here is a broken pipe treated so.
    """

    as_it_is = False
    _has_reader = True

    def write(self, text: str) -> int:
        shown = text if self.as_it_is or isinstance(text, Styled) else printable(text, LAYOUT)
        with self._reader_may_go():
            if self._has_reader:
                super().write(shown)
        return len(text)

    def flush(self) -> None:
        with self._reader_may_go():
            if self._has_reader:
                super().flush()

    @contextlib.contextmanager
    def _reader_may_go(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._has_reader = False
        except OSError as error:
            self._has_reader = False
            raise OutputError(
                f"the output cannot be written ({error.strerror}); give it another place"
            ) from None


def make_printable() -> None:
    """From now on stdout and stderr are such streams, and no byte of stdin is refused."""
    for name in ("stdout", "stderr"):
        old: Any = getattr(sys, name)
        if type(old) is not io.TextIOWrapper:
            continue
        old.flush()
        described: dict[str, Any] = {
            "encoding": old.encoding,
            "errors": "backslashreplace",
            "line_buffering": old.line_buffering,
            "write_through": old.write_through,
        }
        new = PrintableStream(old.detach(), **described)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def output_of_programs() -> Iterator[None]:
    """Meanwhile stdout carries what a program of the user's prints, which may draw on the terminal as it likes."""
    stream = sys.stdout
    if not isinstance(stream, PrintableStream):
        yield
        return
    stream.as_it_is = True
    try:
        yield
    finally:
        stream.as_it_is = False


# An error quotes what a user gave, which may be as long as a file.
_MAX_MESSAGE = 1200
_HEAD_LENGTH = 800
_TAIL_LENGTH = 200


def complain(message: str) -> None:
    """Print one line of bounded length on stderr, or nothing if stderr is closed."""
    line = abridged(" ".join(message.split()))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("testbed: " + printable(line), file=sys.stderr, flush=True)


def abridged(message: str) -> str:
    """Return the message without its middle if it is very long.

    >>> abridged("short"), len(abridged("x" * 100_000)) < 1200
    ('short', True)
    """
    if len(message) <= _MAX_MESSAGE:
        return message
    omitted = len(message) - _HEAD_LENGTH - _TAIL_LENGTH
    start = message[:_HEAD_LENGTH]
    end = message[-_TAIL_LENGTH:]
    return f"{start} ... ({omitted} characters left out) ... {end}"
