"""Recordings of links on several machines: their times are ours, and one that cannot be written is refused before
anything is recorded."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.errors import InputError
from testbed.machines.adapters.captures import captured, retimed

HEAD = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)


def record(at_ns: int, data: bytes) -> bytes:
    return struct.pack("=IIII", at_ns // 10**9, at_ns % 10**9, len(data), len(data)) + data


def test_every_packet_keeps_its_bytes_and_gets_our_time() -> None:
    theirs = [(5_999_999_999, b"one"), (6_000_000_000, b""), (7_500_000_000, b"three" * 300)]
    data = HEAD + b"".join(record(*one) for one in theirs)
    ours, count = retimed(data, lambda at_ns: at_ns - 4_000_000_001)
    assert count == 3 and ours == HEAD + b"".join(record(at - 4_000_000_001, packet) for at, packet in theirs)
    assert retimed(HEAD, lambda at_ns: at_ns) == (HEAD, 0)


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    network = cast(Any, SimpleNamespace())  # nothing of it is looked at
    with (
        pytest.raises(InputError, match=r"no/a\.pcap"),
        captured(network, {("a", "b", 0): tmp_path / "no" / "a.pcap"}, print),
    ):
        raise AssertionError("begun")
