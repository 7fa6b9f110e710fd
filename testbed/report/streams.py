"""Standard output and standard error of the command, made safe for a terminal.

Control characters in text from other sources are escaped, and so are characters that the encoding
lacks.
"""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

from testbed.errors import InputError
from testbed.model.naming.printable import LAYOUT, Styled, printable


class OutputError(InputError):
    """Standard output cannot be written, for another reason than a closed pipe."""


class PrintableStream(io.TextIOWrapper):
    """A text stream that escapes control characters, except line breaks and tabs.

    Text of type ``Styled`` is written unchanged. When the reader of a pipe has disconnected,
    further output is dropped and the command continues, because its exit code still matters. No
    other module handles a broken pipe.

    Attributes:
        as_it_is: Write all text unchanged.
    """

    as_it_is = False
    _has_reader = True

    def write(self, text: str) -> int:
        """Write the text, escaped unless it is ``Styled``, and return its length."""
        unchanged = self.as_it_is or isinstance(text, Styled)
        shown = text if unchanged else printable(text, LAYOUT)
        with self._reader_may_disconnect():
            if self._has_reader:
                super().write(shown)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless its reader has disconnected."""
        with self._reader_may_disconnect():
            if self._has_reader:
                super().flush()

    @contextlib.contextmanager
    def _reader_may_disconnect(self) -> Iterator[None]:
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
    """Make stdout and stderr printable streams, and let stdin accept any byte."""
    for name in ("stdout", "stderr"):
        original: Any = getattr(sys, name)
        if type(original) is not io.TextIOWrapper:
            continue
        original.flush()
        settings: dict[str, Any] = {
            "encoding": original.encoding,
            "errors": "backslashreplace",
            "line_buffering": original.line_buffering,
            "write_through": original.write_through,
        }
        printable_stream = PrintableStream(original.detach(), **settings)
        setattr(sys, name, printable_stream)
        setattr(sys, f"__{name}__", printable_stream)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def output_of_programs() -> Iterator[None]:
    """Write stdout unchanged while a program of the user prints on it.

    Such a program may use the terminal's control sequences.
    """
    stream = sys.stdout
    if not isinstance(stream, PrintableStream):
        yield
        return
    stream.as_it_is = True
    try:
        yield
    finally:
        stream.as_it_is = False


# An error message quotes input of the user, which may be as long as a file. Lengths in characters.
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
