"""Round trips of every header and report, and 10^5 mutated packets: never a crash, every rejection a
MalformedPacket."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.errors import MalformedPacket
from fec.protocol.framing import sealed_with
from fec.protocol.loss_report import LossReport, decode_report
from fec.protocol.wire import HEADER_BYTES, PacketHeader, decode_header, protect, unprotect
from tests.helpers.drawn import SOAK

MUTATED_PACKETS = 100_000 if SOAK else 25_000


@st.composite
def headers(draw: st.DrawFn) -> PacketHeader:
    k = draw(st.integers(1, 254))
    return PacketHeader(
        stream_id=draw(st.integers(0, 65535)),
        source_block_number=draw(st.integers(0, 2**24 - 1)),
        encoding_symbol_id=draw(st.integers(0, 254)),
        source_packets=k,
        block_size=draw(st.integers(k, 255)),
        symbol_length=draw(st.integers(0, 64)),
        path=draw(st.integers(0, 255)),
        path_sequence=draw(st.integers(0, 65535)),
        timestamp_us=draw(st.integers(0, 2**32 - 1)),
        session=draw(st.integers(0, 2**32 - 1)),
    )


words = st.integers(0, 2**32 - 1)
reports = st.builds(
    LossReport,
    stream_id=st.integers(0, 65535),
    number=words,
    newest_us=words,
    newest_age_us=words,
    highest_block=st.integers(0, 2**24 - 1),
    received=words,
    decoded_blocks=words,
    undecodable_blocks=words,
    unused_parity=words,
    blocks=st.lists(
        st.tuples(st.integers(0, 2**24 - 1), st.integers(0, 2**255 - 1)), max_size=30
    ).map(tuple),
    session=words,
    paths=st.lists(
        st.tuples(st.integers(1, 255), st.integers(0, 2**24 - 1), words), max_size=40
    ).map(tuple),
)


@given(header=headers(), data=st.data())
def test_every_header_comes_back_from_its_bytes(header: PacketHeader, data: st.DataObject) -> None:
    symbol = data.draw(st.binary(min_size=header.symbol_length, max_size=header.symbol_length))
    packet = header.encode(symbol) + symbol
    assert decode_header(packet) == decode_header(memoryview(packet)) == header
    assert packet[HEADER_BYTES:] == symbol


@given(report=reports)
def test_every_report_comes_back_from_its_bytes(report: LossReport) -> None:
    assert decode_report(report.encode()) == report


@given(payload=st.binary(max_size=100), padding=st.integers(0, 20))
def test_every_payload_comes_back_from_its_symbol(payload: bytes, padding: int) -> None:
    assert unprotect(protect(payload, len(payload) + 2 + padding)) == payload


@given(header=headers(), flips=st.data())
def test_any_single_damaged_byte_under_a_crc_is_noticed(
    header: PacketHeader, flips: st.DataObject
) -> None:
    symbol = bytes(header.symbol_length)
    packet = bytearray(header.encode(symbol) + symbol)
    at = flips.draw(st.integers(0, len(packet) - 1))
    packet[at] ^= flips.draw(st.integers(1, 255))
    try:
        decoded = decode_header(packet)
    except MalformedPacket:
        return
    assert (
        decoded.keyed
    )  # only what says that a key seals it is read unchecked, by those who have none


def _mutate(packet: bytes, chance: random.Random) -> bytes:
    """Flip bits, overwrite, cut, extend, splice, or random bytes outright."""
    mutated = bytearray(packet)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.randrange(6)
        at = chance.randrange(len(mutated)) if mutated else 0
        if kind == 0 and mutated:
            mutated[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and mutated:
            mutated[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del mutated[at:]
        elif kind == 3:
            mutated += chance.randbytes(chance.randrange(40))
        elif kind == 4:
            mutated[at : at + chance.randrange(8)] = chance.randbytes(chance.randrange(8))
        else:
            mutated = bytearray([chance.choice((0x21, 0x22, 0x23, chance.randrange(256)))])
            mutated += chance.randbytes(chance.randrange(64))
    return bytes(mutated)


@pytest.mark.scaled
def test_mutated_packets_are_decoded_or_refused_by_reason_never_crash() -> None:
    chance = random.Random(20)
    symbol = protect(b"capillary", 16)
    header = PacketHeader(
        stream_id=1,
        source_block_number=2,
        encoding_symbol_id=3,
        source_packets=20,
        block_size=24,
        symbol_length=16,
    )
    report = LossReport(
        stream_id=1,
        number=2,
        newest_us=3,
        highest_block=4,
        blocks=((4, 7), (3, 1)),
        paths=((9, 2, 1),),
    )
    keyed = replace(header, encoding_symbol_id=22, keyed=True)
    seeds = (
        header.encode(symbol) + symbol,
        keyed.encode(symbol, sealed_with(bytes(16))) + symbol,
        report.encode(),
    )
    outcomes: Counter[str] = Counter()
    for _ in range(MUTATED_PACKETS):
        data = _mutate(chance.choice(seeds), chance)
        for decode in (decode_header, decode_report):
            try:
                decode(data)
            except MalformedPacket as error:
                outcomes[error.reason] += 1
            else:
                outcomes["decoded"] += 1
    assert sum(outcomes.values()) == 2 * MUTATED_PACKETS
    assert set(outcomes) == {
        "decoded",
        "truncated",
        "version",
        "type",
        "flags",
        "length",
        "checksum",
        "block",
    }
