"""What a network's file holds that is not read: one line on stderr, once a command, however often the file is read."""

import logging
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.report.streams import complain

_SHOWN = "TESTBED_NOTES_SHOWN"
"""The notes that were shown, for the same command when it starts itself again in a sandbox."""


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Within it, a NetworkNote becomes a line on stderr; other warnings are shown as before, and none is an error
    (``PYTHONWARNINGS=error``). Matplotlib does not say that HOME cannot be written."""
    before = os.environ.get(_SHOWN, "")
    shown = set(before.split())
    plain = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], *where: object, **named: object
    ) -> None:
        from topologies.files.foreign import (
            NetworkNote,
        )  # loaded where there is one; --help does without

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
            ("default" if one[0] == "error" else one[0], *one[1:]) for one in warnings.filters
        ]
        try:
            yield
        finally:
            os.environ[_SHOWN] = before
