"""The receiver's state machine: what it delivers and when, what it refuses, what it reports."""

from __future__ import annotations

import pytest

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import FecError
from fec.protocol.framing import BLOCK_NUMBERS
from fec.protocol.loss_report import decode_report
from fec.protocol.open_blocks import FARTHEST_AHEAD
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import (
    BlockComplete,
    BlocksSkipped,
    BlockUndecodable,
    ReceiverParameters,
    SourceDelivered,
)
from fec.protocol.wire import PacketHeader, protect
from tests.helpers import delay_loop

build_receiver, payload = delay_loop.build_receiver, delay_loop.payload
M, N, SYMBOL = 4, 6, 24
CODE = ReedSolomonCode(M)


def small(**changes) -> StreamReceiver:
    return build_receiver(source_packets=M, **changes)


def packet(block: int, symbol: int, sent_s: float = 0.0, **changes) -> bytes:
    symbols = CODE.encode([protect(payload(block * M + i), SYMBOL) for i in range(M)], 20)
    fields = {
        "stream_id": 1,
        "source_block_number": block % BLOCK_NUMBERS,
        "encoding_symbol_id": symbol,
        "source_packets": M,
        "block_size": N,
        "symbol_length": SYMBOL,
        "timestamp_us": int(sent_s * 1e6) % (1 << 32),
    } | changes
    return PacketHeader(**fields).encode(symbols[symbol]) + symbols[symbol]


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_source_is_delivered_at_once_and_repairs_at_the_mth_symbol() -> None:
    receiver, events = small(), []
    for at, symbol in ((0.01, 0), (0.02, 2), (0.03, 5), (0.04, 4)):
        events.append(receiver.receive(packet(0, symbol, at), at))
    assert events[0] == [SourceDelivered(0, payload(0), 0.01, False)]
    assert events[1] == [SourceDelivered(2, payload(2), 0.02, False)]
    assert events[2] == []
    assert events[3] == [
        SourceDelivered(1, payload(1), 0.04, True),
        SourceDelivered(3, payload(3), 0.04, True),
        BlockComplete(0, 4, 2, 0.04),
    ]
    assert receiver.counters["recovered"] == 2 and receiver.counters["delivered"] == 4


def test_nothing_is_delivered_twice() -> None:
    receiver = small()
    for symbol in (0, 0, 1, 4, 5, 2, 3, 3):
        receiver.receive(packet(0, symbol), 0.01)
    counters = receiver.counters
    assert counters["delivered"] == M and counters["duplicate"] == 2
    assert counters["unused_sources"] == 2 and counters["unused_parity"] == 0


def test_parity_that_was_not_needed_is_counted() -> None:
    receiver = small()
    for symbol in range(N):
        receiver.receive(packet(0, symbol), 0.01)
    assert receiver.counters["unused_parity"] == 2
    for symbol in (0, 4):
        receiver.receive(packet(1, symbol, 0.1), 0.1)
    receiver.advance(9.0)
    assert receiver.counters["unused_parity"] == 3  # one more came for a block that did not decode


def test_a_block_without_m_symbols_is_given_up_at_the_playback_deadline() -> None:
    receiver = small(playback_s=0.4)
    receiver.receive(packet(0, 1, 0.010), 0.030)
    receiver.receive(packet(0, 5, 0.015), 0.035)
    assert receiver.next_deadline_s() <= 0.43
    assert receiver.advance(0.429) == []
    assert receiver.advance(0.4301) == [BlockUndecodable(0, 2, 3, 0.4301)]
    assert receiver.receive(packet(0, 0, 0.01), 0.44) == []
    assert receiver.counters["late"] == 1 and receiver.counters["lost_sources"] == 3


def test_deadline_follows_the_first_timestamp_and_the_fastest_packet() -> None:
    receiver = small(playback_s=0.4)
    receiver.receive(packet(0, 1, 0.02), 0.09)  # slow: 70 ms on the way
    assert receiver.next_deadline_s() <= 0.49
    receiver.receive(packet(0, 2, 0.08), 0.10)  # quick: 20 ms on the way
    receiver.receive(packet(0, 0, 0.00), 0.11)  # the first, overtaken
    receiver.reports_due(0.2)
    assert receiver.next_deadline_s() == pytest.approx(0.0 + 0.02 + 0.4)
    assert receiver.worst_reordering_s == pytest.approx(0.08)


def test_packet_after_its_deadline_is_late_even_without_advance() -> None:
    receiver = small(playback_s=0.4)
    receiver.receive(packet(0, 0), 0.0)
    events = receiver.receive(packet(0, 1, 0.001), 0.5)
    assert events == [BlockUndecodable(0, 1, 3, 0.5)]
    assert receiver.counters["late"] == 1


def test_blocks_of_which_nothing_came_are_given_up_with_the_others() -> None:
    receiver = small()
    receiver.receive(packet(3, 0, 0.06), 0.06)
    lost = of_kind(receiver.advance(9.0), BlockUndecodable)
    assert [(e.block, e.arrived, e.missing) for e in lost] == [
        (0, 0, 4),
        (1, 0, 4),
        (2, 0, 4),
        (3, 1, 3),
    ]


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("truncated", b""),
        ("version", b"\xff" + packet(0, 0)[1:]),
        ("type", bytes([packet(0, 0)[0] | 0x0E]) + packet(0, 0)[1:]),
        ("flags", packet(0, 0)[:1] + b"\x80" + packet(0, 0)[2:]),
        ("length", packet(0, 0) + b"x"),
        ("length", packet(0, 0)[:-1]),
        ("checksum", packet(0, 0)[:-1] + b"\x7f"),
        ("checksum", packet(0, 0)[:16] + b"\xff" + packet(0, 0)[17:]),
        ("stream", packet(0, 0, stream_id=9)),
        ("shape", packet(0, 0, source_packets=5)),
    ],
)
def test_foreign_packets_are_refused_and_counted_by_reason(reason: str, data: bytes) -> None:
    receiver = small()
    assert receiver.receive(data, 0.0) == []
    assert dict(receiver.rejected) == {reason: 1}
    assert receiver.open_blocks == 0 and not receiver.counters and receiver.reports_due(1.0) == []


@pytest.mark.parametrize("number", [500, FARTHEST_AHEAD + 5, (1 << 24) - 1])
def test_receiver_joins_a_stream_without_counting_losses(
    number: int,
) -> None:
    receiver = small()
    assert of_kind(receiver.receive(packet(number, 0), 0.0), SourceDelivered)[0].index == number * M
    assert receiver.open_blocks == 1 and not receiver.rejected
    assert decode_report(receiver.reports_due(0.0)[0]).blocks == ((number, 1),)
    receiver.advance(9.0)
    assert (
        receiver.counters["undecodable_blocks"] == 1 and receiver.counters["lost_sources"] == M - 1
    )


def test_a_clock_may_begin_below_zero() -> None:
    receiver = small()
    for k in range(12):
        receiver.receive(packet(k, 0, sent_s=0.1 * k), 0.1 * k - 50)
    assert receiver.counters["accepted"] == 12 and not receiver.rejected


def test_a_report_is_no_packet_of_the_stream() -> None:
    receiver = small()
    receiver.receive(packet(0, 0), 0.0)
    receiver.receive(receiver.reports_due(0.0)[0], 0.0)
    assert receiver.rejected["type"] == 1


def test_a_packet_sent_long_after_it_arrived_is_refused() -> None:
    receiver = small()
    receiver.receive(packet(0, 0, 1.0), 1.0)
    receiver.receive(packet(0, 1, 900.0), 1.1)
    assert dict(receiver.rejected) == {"timestamp": 1}


@pytest.mark.parametrize(("set_s", "refused"), [(50.0, 7), (-50.0, 0)])
def test_a_clock_that_was_set_is_followed_once_several_packets_agree(
    set_s: float, refused: int
) -> None:
    """At once where it was set back: this end's own time tells."""
    receiver = small()
    receiver.receive(packet(0, 0, sent_s=100.0), 100.0)
    for k in range(12):
        receiver.receive(packet(1 + k, 0, sent_s=100.1 + 0.1 * k), 100.1 + set_s + 0.1 * k)
    assert receiver.rejected["timestamp"] == receiver.rejected.total() == refused
    assert receiver.counters["accepted"] == 1 + 12 - refused
    assert receiver.next_deadline_s() < 102.0 + set_s


def test_a_quick_packet_of_long_ago_no_longer_sets_the_deadlines() -> None:
    """The way grew longer by 0.3 s: half a minute later a block has its whole playback time again."""
    receiver = small()
    receiver.receive(packet(0, 0, sent_s=0.0), 0.0)
    for k in range(1, 800):
        receiver.receive(packet(k, 0, sent_s=0.1 * k), 0.1 * k + 0.3)
    sent = 0.1 * 799
    receiver.advance(sent + 0.3)
    assert receiver.open_blocks
    receiver.advance(sent + receiver.parameters.playback_s + 0.2)
    assert receiver.open_blocks
    receiver.advance(sent + receiver.parameters.playback_s + 0.31)
    assert not receiver.open_blocks


def test_receiver_ignores_one_packet_from_far_ahead() -> None:
    receiver = small()
    receiver.receive(packet(0, 0), 0.0)
    receiver.receive(packet(70_000, 0, 1.0), 0.01)
    receiver.receive(packet(0, 1, 0.011), 0.011)
    assert receiver.rejected["far-ahead"] == 1 and receiver.open_blocks == 1
    events = []
    for k in range(12):
        at = 100 + 0.01 * k
        events += receiver.receive(packet(70_000 + k // M, k % M, at), at)
    assert of_kind(events, BlockUndecodable) == [BlockUndecodable(0, 2, 2, 100.0)]
    assert [(e.first, e.stop) for e in of_kind(events, BlocksSkipped)] == [(1, 70_001)]
    assert of_kind(events, SourceDelivered)[-1].index == 70_002 * M + 3
    assert receiver.rejected["far-ahead"] == 1 + 7


def test_block_numbers_that_wrap_count_on() -> None:
    receiver, events, start = small(), [], BLOCK_NUMBERS - 2
    for k in range(8 + 4 * M):
        number = start + max(0, k - 8) // M
        events += receiver.receive(packet(number, k % M, 0.001 * k), 0.001 * k)
    assert of_kind(events, SourceDelivered)[-1].index == (BLOCK_NUMBERS + 1) * M + M - 1
    report = decode_report(receiver.reports_due(9.0)[0])
    assert report.highest_block == 1 and {0, 1} <= {block for block, _ in report.blocks}


def test_time_stamps_that_wrap_do_not_move_deadlines() -> None:
    receiver, wrap_s = small(playback_s=0.4), (1 << 32) / 1e6
    events = []
    for k in range(40):
        at = wrap_s - 0.1 + 0.005 * k
        events += receiver.receive(packet(k // M, k % M, at), at + 0.003)
    assert len(of_kind(events, SourceDelivered)) == 40 and not of_kind(events, BlockUndecodable)
    receiver.reports_due(wrap_s + 1)
    assert receiver.next_deadline_s() == pytest.approx(wrap_s - 0.1 + 0.003 + 0.4, abs=1e-4)


def test_memory_is_bounded_whatever_numbers_come() -> None:
    """The farthest that is believed: so many blocks at a time as nobody needs to agree to, each time as if sent for as
    long."""
    receiver = small(playback_s=1e6)
    for block in (0, 1):
        for symbol in range(M):
            receiver.receive(packet(block, symbol, 0.02 * block), 0.02 * block)
    number = 1
    for _ in range(5):
        number += FARTHEST_AHEAD
        for symbol in range(M):
            receiver.receive(packet(number, symbol, 0.02 * number), 0.02 * number)
        assert receiver.open_blocks <= 2 * FARTHEST_AHEAD
    assert receiver.counters["decoded_blocks"] == 7
    assert receiver.counters["undecodable_blocks"] >= number - 2 * FARTHEST_AHEAD - 7


def test_reports_come_by_time_by_packets_and_not_without_news() -> None:
    receiver = small(report_interval_s=0.1, report_packets=10)
    assert receiver.reports_due(5.0) == []
    receiver.receive(packet(0, 0, 5.0), 5.0)
    assert len(receiver.reports_due(5.0)) == 1
    assert receiver.reports_due(6.0) == []  # nothing came since
    receiver.receive(packet(0, 1, 6.0), 6.0)
    assert len(receiver.reports_due(6.0)) == 1
    for k in range(10):
        assert receiver.reports_due(6.01) == []
        receiver.receive(packet(1 + k // M, k % M, 6.001), 6.01)
    assert len(receiver.reports_due(6.01)) == 1


def test_irreparable_block_is_reported_within_the_urgent_interval() -> None:
    receiver = small(report_interval_s=1.0, urgent_s=0.02, report_packets=1000)
    for symbol in range(N):
        receiver.receive(packet(0, symbol, 0.0), 0.0)
    assert receiver.reports_due(0.0)
    receiver.receive(packet(1, 0, 0.01), 0.01)
    receiver.receive(packet(1, 3, 0.012), 0.012)  # two of six missing: could still be repaired
    assert receiver.next_deadline_s() > 0.3
    receiver.receive(packet(1, 5, 0.014), 0.014)  # three of six missing
    assert receiver.reports_due(0.019) == []
    assert receiver.next_deadline_s() == pytest.approx(0.02)
    report = decode_report(receiver.reports_due(0.02)[0])
    assert dict(report.blocks)[1] == 0b101001
    assert receiver.counters["urgent_reports"] == 1


def test_block_without_its_end_is_reported_when_the_second_next_begins() -> None:
    receiver = small(report_interval_s=1.0, urgent_s=0.02, report_packets=1000)
    receiver.receive(packet(0, 0, 0.0), 0.0)
    receiver.reports_due(0.0)
    receiver.receive(packet(1, 0, 0.03), 0.03)
    assert receiver.next_deadline_s() > 0.3
    receiver.receive(packet(2, 0, 0.06), 0.06)
    assert receiver.next_deadline_s() == pytest.approx(0.02)


def test_a_report_says_what_arrived() -> None:
    receiver = small()
    for block, symbol in ((0, 0), (0, 1), (0, 1), (2, 5)):
        receiver.receive(packet(block, symbol, 0.5), 0.502)
    report = decode_report(receiver.reports_due(0.51)[0])
    assert (report.number, report.newest_us, report.newest_age_us) == (500_000, 500_000, 8000)
    assert report.highest_block == 2 and report.received == 4
    assert report.blocks == ((0, 0b11), (1, 0), (2, 0b100000))


def test_packets_after_their_deadline_are_reported_as_arrived() -> None:
    receiver = small(playback_s=0.1)
    receiver.receive(packet(0, 0, 0.0), 0.0)
    receiver.receive(packet(0, 1, 0.0), 0.5)
    assert decode_report(receiver.reports_due(0.5)[0]).blocks == ((0, 0b11),)


def test_symbol_with_wrong_parity_is_counted_and_not_delivered() -> None:
    receiver = small()
    bad = b"\xff\xff" + bytes(SYMBOL - 2)
    header = PacketHeader(
        stream_id=1,
        source_block_number=0,
        encoding_symbol_id=0,
        source_packets=M,
        block_size=N,
        symbol_length=SYMBOL,
    )
    assert receiver.receive(header.encode(bad) + bad, 0.0) == []
    assert receiver.counters["unreadable"] == 1 and receiver.counters["accepted"] == 1


def test_parameters_out_of_range_are_refused() -> None:
    for wrong in (
        {"source_packets": 0},
        {"symbol_bytes": 2},
        {"playback_s": 0.0},
        {"urgent_s": 0.0},
    ):
        with pytest.raises(FecError):
            ReceiverParameters(**({"source_packets": 4, "symbol_bytes": 24} | wrong))  # type: ignore[arg-type]
    with pytest.raises(FecError, match="code of 4"):
        StreamReceiver(ReceiverParameters(source_packets=5, symbol_bytes=24), CODE)
