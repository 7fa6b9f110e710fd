"""Seals of many packets in one call: the C module and Python give the bytes that the wire format asks for."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

from fec.protocol import row_seals
from fec.protocol.framing import sealed_with
from fec.protocol.row_seals import RowSeals, c_module
from fec.protocol.wire import CRC_OFFSET, HEADER_BYTES


@pytest.fixture(params=["C", "Python"])
def made_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "Python":
        monkeypatch.setattr(row_seals, "c_module", lambda: None)
    elif c_module() is None:
        pytest.skip("no C compiler when the package was installed")
    return str(request.param)


@pytest.mark.usefixtures("made_by")
@pytest.mark.parametrize("key", [None, bytes(16), bytes(range(64)), bytes(range(100))])
def test_rows_bear_the_seal_of_each_packet(key: bytes | None) -> None:
    chance = random.Random(7)
    for _ in range(20):
        front, count = chance.choice((0, 8, 42)), chance.randrange(1, 40)
        longest = chance.choice((HEADER_BYTES, 127, 128, 129, 300, 1500))
        rows = np.frombuffer(chance.randbytes(count * (front + longest + 1)), np.uint8)
        rows = rows.reshape(count, -1).copy()
        seals = RowSeals(key, front)
        before = rows.copy()
        seals.write(rows, longest)
        for row, old in zip(rows, before, strict=True):
            packet = row[front : front + longest].tobytes()
            symbol = packet[HEADER_BYTES:]
            expected = sealed_with(key)(packet[:CRC_OFFSET] + bytes(4), symbol)
            assert packet[CRC_OFFSET:HEADER_BYTES] == expected
            assert (row != old).sum() <= 4
            if key is None:
                crc = zlib.crc32(packet[:CRC_OFFSET] + bytes(4) + symbol)
                assert expected == crc.to_bytes(4, "big")


@pytest.mark.usefixtures("made_by")
@pytest.mark.parametrize("key", [None, bytes(range(32))])
def test_packets_of_any_length_are_checked(key: bytes | None) -> None:
    chance = random.Random(8)
    for _ in range(20):
        rows = np.frombuffer(chance.randbytes(33 * 400), np.uint8).reshape(33, -1).copy()
        lengths = np.array([chance.randrange(401) for _ in rows])
        seals, changed = RowSeals(key), set[int]()
        for k, length in enumerate(lengths.tolist()):
            if length < HEADER_BYTES:
                changed.add(k)
                continue
            seals.write(rows[k : k + 1], length)
            if chance.random() < 0.3:
                changed.add(k)
                rows[k, chance.randrange(length)] ^= 1 << chance.randrange(8)
        assert set(np.flatnonzero(~seals.hold(rows, lengths)).tolist()) == changed


def test_rows_that_do_not_fit_are_refused() -> None:
    compiled = c_module()
    if compiled is None:
        pytest.skip("no C compiler when the package was installed")
    rows, lengths = np.zeros((4, 100), np.uint8), np.full(4, 100)
    good = (rows, 100, 0, lengths, CRC_OFFSET, bytes(16))
    assert len(compiled.seals(*good)) == 16
    wrong = [
        (0, rows[:3].copy()), (1, 101), (1, -1), (2, 1), (2, -1), (3, lengths + 1), (3, lengths - 73),
        (3, lengths[:1].view(np.uint8)[:7].copy()), (4, -4), (4, 128), (5, bytes(65)),
    ]  # fmt: skip
    for place, value in wrong:
        arguments = list(good)
        arguments[place] = value
        with pytest.raises(ValueError, match="do not fit"):
            compiled.seals(*arguments)
