"""Random writes to a striped file, some of them synced, for tests of what survives a power cut."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from sfio_emu import RemoteFailure, StripedFile
from tests.helpers.listeners import session_of

SIZE_BYTES = 20_000
NAME, STRIPE_UNIT = "p1/a;p1/deep/b", 700
Addresses = dict[str, tuple[str, int]]
Written = tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]


def written_and_synced(addresses: Addresses, draw: random.Random) -> Written:
    """Write a file, and return its final content and the bytes that must survive a power cut.

    Bytes must survive unless they were written again after the last sync.
    """
    session = session_of(addresses)
    file = StripedFile.open(NAME, STRIPE_UNIT, session=session)
    model, sure = bytearray(draw.randbytes(SIZE_BYTES)), np.zeros(SIZE_BYTES, dtype=bool)
    file.pwrite(model, 0)
    for _ in range(draw.randrange(1, 6)):
        for _ in range(3):
            offset, data = draw.randrange(15_000), draw.randbytes(draw.randrange(1, 5000))
            file.pwrite(data, offset)
            model[offset : offset + len(data)] = data
            sure[offset : offset + len(data)] = False
        if draw.random() < 0.7:
            file.sync(durable=True)
            sure[:] = True
    session.close()
    return np.frombuffer(bytes(model), dtype=np.uint8), sure


def read_back(addresses: Addresses) -> npt.NDArray[np.uint8]:
    """Return the content of the file.

    There are zeros behind its end, and in a file that was never synced and lost a subfile.
    """
    session = session_of(addresses)
    content = b""
    with suppress(RemoteFailure):
        content = StripedFile.open(NAME, STRIPE_UNIT, session=session).pread(SIZE_BYTES, 0)
    session.close()
    return np.frombuffer(content.ljust(SIZE_BYTES, b"\0"), dtype=np.uint8)
