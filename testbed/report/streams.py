"""The command's stdout and stderr: nothing of others' text steers the terminal, and what the encoding is missing is
escaped."""

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any

from testbed.model.naming.printable import LAYOUT, Styled, printable


class PrintableStream(io.TextIOWrapper):
    """A text stream that writes out control characters, but for line breaks and tabs, of everything that is not
    ``Styled``."""

    as_it_is = False

    def write(self, text: str) -> int:
        super().write(
            text if self.as_it_is or isinstance(text, Styled) else printable(text, LAYOUT)
        )
        return len(text)


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


def complain(message: str) -> None:
    """One line on stderr; none where nobody can hear it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print("testbed: " + printable(" ".join(message.split())), file=sys.stderr, flush=True)
