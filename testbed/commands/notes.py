"""Prints each note on a network's file once per command, as one line on stderr."""

import logging
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.report.streams import complain

# The environment variable with the checksums of the notes that were shown. The command reads it
# when it has started itself again in a sandbox.
_SHOWN = "TESTBED_NOTES_SHOWN"


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print each NetworkNote as a line on stderr until the end of the with block.

    Other warnings are shown as before. No warning is an error, even with ``PYTHONWARNINGS=error``.
    Matplotlib does not warn that HOME cannot be written.
    """
    before = os.environ.get(_SHOWN, "")
    shown = set(before.split())
    plain = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], *where: object, **named: object
    ) -> None:
        # Imported here so that --help starts fast.
        from topologies.files.foreign import NetworkNote

        if not isinstance(message, NetworkNote):
            plain(message, category, *where, **named)  # type: ignore[arg-type]
            return
        mark = f"{zlib.crc32(str(message).encode(errors='replace')):08x}"
        if mark not in shown:
            shown.add(mark)
            os.environ[_SHOWN] = " ".join(sorted(shown))
            complain(f"note: {message}")

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.filters = [
            ("default", *entry[1:]) if entry[0] == "error" else entry for entry in warnings.filters
        ]
        try:
            yield
        finally:
            os.environ[_SHOWN] = before
