"""The header byte by byte, what the decoder refuses and under which reason, payload protection, reports, frames."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import pytest

from fec.errors import (
    FecError,
    MalformedPacket,
)
from fec.protocol.framing import PacketType, peek_type
from fec.protocol.loss_report import MAX_PATHS, MAX_REPORT_BYTES, LossReport, decode_report
from fec.protocol.wire import HEADER_BYTES, PacketHeader, decode_header, protect, unprotect

HEADER = PacketHeader(
    stream_id=0x0102,
    source_block_number=0x030405,
    encoding_symbol_id=21,
    source_packets=20,
    block_size=24,
    path=9,
    path_sequence=0x0A0B,
    symbol_length=5,
    timestamp_us=0x0C0D0E0F,
    session=7,
)
REPORT = LossReport(
    stream_id=1, number=5, newest_us=77, highest_block=9, blocks=((8, (1 << 24) - 1), (9, 0b101))
)
EMPTY = dataclasses.replace(REPORT, blocks=())


def _packet(header: PacketHeader = HEADER, symbol: bytes = b"hello") -> bytes:
    return header.encode(symbol) + symbol


def _patched(data: bytes, offset: int, value: bytes, *, mend_crc: bool = True) -> bytes:
    """The packet with other bytes at an offset, its CRC made right again so that the check behind it is reached."""
    patched = bytearray(data)
    patched[offset : offset + len(value)] = value
    if mend_crc:
        patched[24:28] = bytes(4)
        patched[24:28] = zlib.crc32(patched).to_bytes(4, "big")
    return bytes(patched)


def test_header_has_the_documented_bytes() -> None:
    data = _packet()
    assert len(data) == HEADER_BYTES + 5 == 33
    assert data[:24].hex() == "32000102030405150000000700141809" + "0a0b00050c0d0e0f"
    assert data[24:28] == zlib.crc32(data[:24] + bytes(4) + b"hello").to_bytes(4, "big")


def test_type_follows_from_the_symbol_id() -> None:
    assert HEADER.packet_type is PacketType.PARITY
    data = dataclasses.replace(HEADER, encoding_symbol_id=19)
    assert data.packet_type is PacketType.DATA
    assert peek_type(_packet(data)) is PacketType.DATA
    assert peek_type(REPORT.encode()) is PacketType.REPORT


def test_late_parity_may_lie_beyond_the_advisory_block_size() -> None:
    late = dataclasses.replace(HEADER, encoding_symbol_id=200)
    assert decode_header(_packet(late)) == late


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"\x31", "truncated"),
        (_packet()[:27], "truncated"),
        (b"\x22" + _packet()[1:], "version"),
        (b"\x30" + _packet()[1:], "type"),
        (b"\x31" + _packet()[1:], "checksum"),
        (_patched(_packet(), 0, b"\x31"), "type"),
        (REPORT.encode(), "type"),
        (_patched(_packet(), 1, b"\x03"), "flags"),
        (_patched(_packet(), 1, b"\x01"), "flags"),
        (_packet()[:-1], "length"),
        (_packet() + b"x", "length"),
        (_packet()[:-1] + b"x", "checksum"),
        (_patched(_packet(), 12, b"\x00\x19"), "block"),  # k = 25 > N = 24
        (_patched(_packet(), 12, b"\x00\x00"), "block"),  # k = 0
        (_patched(_packet(), 12, b"\x00\xff\xff"), "block"),  # k = 255
        (_patched(_packet(), 7, b"\xff"), "block"),  # symbol 255
    ],
)
def test_decoder_names_why_it_refuses(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedPacket) as caught:
        decode_header(data)
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"stream_id": 65536},
        {"source_block_number": 1 << 24},
        {"encoding_symbol_id": 255},
        {"source_packets": 25},
        {"source_packets": 0},
        {"path": -1},
        {"timestamp_us": 1 << 32},
        {"session": 1 << 32},
    ],
)
def test_header_refuses_fields_outside_their_ranges(change: dict[str, Any]) -> None:
    with pytest.raises(FecError, match="packet header"):
        dataclasses.replace(HEADER, **change)


def test_header_refuses_a_symbol_of_another_length() -> None:
    with pytest.raises(FecError, match="6 bytes"):
        HEADER.encode(b"hello!")


def test_protected_payload_keeps_its_length_through_padding() -> None:
    assert protect(b"abc") == b"\x00\x03abc"
    assert protect(b"abc", 8) == b"\x00\x03abc\x00\x00\x00"
    assert unprotect(protect(b"abc\x00", 8)) == b"abc\x00"
    assert unprotect(protect(b"", 2)) == b""
    with pytest.raises(FecError, match="two bytes"):
        protect(b"abcdefg", 8)
    for damaged in (b"", b"\x00", b"\x00\x04abc"):
        with pytest.raises(MalformedPacket, match="prefix"):
            unprotect(damaged)


def test_largest_report_fits_into_one_ethernet_packet() -> None:
    bitmap = (1 << 255) - 1
    blocks = tuple(((1 << 24) - 1 - i, bitmap) for i in range(30))
    paths = tuple((255 - i, (1 << 24) - 1, (1 << 32) - 1) for i in range(MAX_PATHS))
    report = dataclasses.replace(
        REPORT, blocks=blocks, paths=paths, newest_age_us=2**32 - 1, received=2**32 - 1
    )
    data = report.encode()
    assert len(data) == MAX_REPORT_BYTES <= 1500 - 20 - 8
    assert decode_report(data) == report
    with pytest.raises(FecError, match="at most 30"):
        dataclasses.replace(REPORT, blocks=(*blocks, (0, 0)))
    with pytest.raises(FecError, match="at most 40"):
        dataclasses.replace(REPORT, paths=(*paths, (1, 0, 0)))


@pytest.mark.parametrize(
    "change",
    [
        {"number": -1},
        {"received": 1 << 32},
        {"blocks": ((1, 1 << 255),)},
        {"stream_id": -1},
        {"paths": ((0, 1, 1),)},
        {"paths": ((1, 1 << 24, 1),)},
        {"session": 1 << 32},
    ],
)
def test_report_refuses_fields_outside_their_ranges(change: dict[str, Any]) -> None:
    with pytest.raises(FecError, match="loss report"):
        dataclasses.replace(REPORT, **change)


def _patched_report(offset: int, value: bytes, report: LossReport = REPORT) -> bytes:
    patched = bytearray(report.encode())
    patched[offset : offset + len(value)] = value
    patched[44:48] = bytes(4)
    patched[44:48] = zlib.crc32(patched).to_bytes(4, "big")
    return bytes(patched)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (REPORT.encode()[:47], "truncated"),
        (REPORT.encode()[:-1], "length"),
        (REPORT.encode()[:-1] + b"x", "checksum"),
        (_packet(), "type"),
        (_patched_report(1, b"\x01"), "flags"),
        (_patched_report(41, b"\x01"), "length"),
        (_patched_report(43, b"\x04"), "length"),
        *(
            (_patched_report(42, bytes(width), EMPTY), "flags")
            for width in ((0, 0), (0, 33), (1, 1))
        ),
        (_patched_report(16, b"\x01"), "block"),  # highest block above 24 bits
        (_patched_report(48, b"\x01"), "block"),  # a block number above 24 bits
        (
            _patched_report(52, b"\x80", dataclasses.replace(REPORT, blocks=((1, 1 << 254),))),
            "block",
        ),  # symbol 255
    ],
)
def test_report_decoder_names_why_it_refuses(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedPacket) as caught:
        decode_report(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("stream_id", 2**16 - 1),
        ("source_block_number", 2**24 - 1),
        ("encoding_symbol_id", 254),
        ("source_packets", 254),
        ("block_size", 255),
        ("symbol_length", 2**16 - 1),
        ("path", 255),
        ("path_sequence", 2**16 - 1),
        ("timestamp_us", 2**32 - 1),
        ("session", 2**32 - 1),
    ],
)
def test_wire_carries_each_field_up_to_its_maximum_only(name: str, largest: int) -> None:
    roomy = dataclasses.replace(HEADER, block_size=255)
    header = dataclasses.replace(roomy, **{name: largest})
    symbol = bytes(header.symbol_length)
    assert decode_header(header.encode(symbol) + symbol) == header
    for wrong in (largest + 1, -1):
        with pytest.raises(FecError, match="packet header"):
            dataclasses.replace(roomy, **{name: wrong})
