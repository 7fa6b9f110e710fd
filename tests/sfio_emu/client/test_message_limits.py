"""Small and large messages: client and listener count by the same function, so that no valid call is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfio_emu import Settings, StripedFile
from tests.helpers.listeners import listener, session_of

SIZES = (1, 100, 4015, 4016, 4017, 4050, 5000, 9000, 16367, 16368, 16384, 20_000, 33_000, 50_000)
CONTENT = np.random.default_rng(3).integers(0, 256, 60_000, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("message_bytes", [4096, 5000, 16_384])
@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(check_data=False, check_reads=False), Settings(pipeline=False)],
)
def test_reads_and_writes_of_any_size_pass_through_small_messages(
    tmp_path: Path, message_bytes: int, settings: Settings
) -> None:
    with listener(tmp_path, "p1", "--message", str(message_bytes)) as (_, addresses):
        session = session_of(addresses, settings=settings)
        file = StripedFile.open("p1/a", 75, session=session)
        for size in SIZES:
            file.pwrite(CONTENT[:size], 7)
            assert file.pread(size, 7) == CONTENT[:size]
        many = [bytearray(30) for _ in range(700)]
        offsets = [7 + 60 * number for number in range(700)]
        assert file.preadv(many, offsets) == [30] * 700
        assert b"".join(many) == b"".join(CONTENT[place - 7 : place + 23] for place in offsets)
        assert session.take_errors()["rejected"] == 0


def test_checked_writes_of_a_run_near_the_limit_are_taken(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, addresses):
        session = session_of(addresses, settings=Settings())
        file = StripedFile.open("p1/a", 75, session=session)
        for size in (*range(1_052_645, 1_052_665), 3_000_000):
            assert file.pwrite(bytes(size), 520_208) == size
        assert session.take_errors()["rejected"] == 0
