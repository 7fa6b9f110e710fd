"""Which packets a receiver believes and when it reports, by hand: the schedule of blocks, late blocks, probation, a
reporter's times; and how a sender of large blocks paces itself."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from fec.code.block_codes import ReedSolomonBlocks
from fec.errors import MalformedPacket
from fec.protocol.large_blocks import (
    LargeBlockParameters,
    LargeBlockReceiver,
    LargeBlockSender,
    LargeSymbol,
    decode_acknowledgement,
    decode_symbol,
    encode_acknowledgement,
    encode_symbol,
)
from fec.protocol.loss_report import decode_report
from fec.protocol.loss_reporting import LossReporter
from fec.protocol.path_counts import PathArrivals, PathNumbers, PathReports
from fec.protocol.probation import LateBlocks, Probation, Schedule
from fec.protocol.receiver_types import ReceiverParameters


def schedule_of(*halves: tuple[int, int]) -> Schedule:
    schedule = Schedule()
    for block, stamp_us in ((0, 10_000), (10, 210_000), *halves):  # 20 ms a block
        schedule.half_arrived(block, stamp_us)
    return schedule


def test_block_is_never_stamped_two_and_a_half_blocks_early() -> None:
    schedule = schedule_of()
    assert schedule.period_us == 20_000 and schedule.confirmed
    assert schedule.earliest_us(10) == 210_000 - 50_000
    assert schedule.earliest_us(0) == 210_000 - 20_000 * (10 + 1 + 2.5)
    # ahead a block may take a tenth less: ten blocks took eleven times as long at least
    assert schedule.earliest_us(12) == pytest.approx(210_000 + 20_000 * 10 / 11 * (2 - 0.2 - 2.5))
    one = Schedule()
    assert not one.confirmed and one.period_us is None and one.earliest_us(5) == -math.inf
    one.half_arrived(3, 70_000)
    assert one.confirmed and one.period_us is None


def test_two_blocks_out_of_time_are_not_believed_and_the_third_on_end_is() -> None:
    late = [(11, 400_000), (12, 420_000), (13, 440_000)]
    assert schedule_of(*late[:2]).period_us == 20_000
    assert schedule_of(*late).period_us == pytest.approx(430_000 / 13)
    assert (
        schedule_of(*late[:2], (13, 270_000), *((n, 400_000) for n in (14, 15))).period_us == 20_000
    ), "not on end"
    slack_us = (
        20_000 + 20_000 + 20_000 * 10 / 11 * 1.6
    )  # of the next block: as late as it may be early
    assert schedule_of((11, int(210_000 + slack_us))).period_us != 20_000
    assert schedule_of((11, int(210_000 + slack_us) + 2)).period_us == 20_000
    assert schedule_of((9, 500_000)).period_us == 20_000, "earlier ones say nothing"
    assert schedule_of((11, 230_000), (12, 250_000)).earliest_us(12) == 200_000


def test_blocks_may_begin_in_time_or_thirty_ahead_while_nothing_is_known() -> None:
    fresh, known = Schedule(), schedule_of()
    assert fresh.may_begin(10**6, -1, 0)
    assert fresh.may_begin(35, 5, 0) and not fresh.may_begin(36, 5, 0)
    earliest = math.ceil(known.earliest_us(60))
    assert known.may_begin(60, 10, earliest) and not known.may_begin(60, 10, earliest - 1)
    assert (known.silent_s(20), known.silent_s(4), known.silent_s(1)) == pytest.approx(
        (0.03, 0.04, 0.16)
    )
    assert fresh.silent_s(20) == 0


def test_eight_whole_blocks_on_end_that_are_late_enough_set_the_clock() -> None:
    def said(
        transits_s: list[float], *, whole: bool = True, usual_s: float = 0.1
    ) -> list[float | None]:
        late = LateBlocks(playback_s=0.4)
        return [
            late.arrived(whole, transit_s, usual_s, k / 8) for k, transit_s in enumerate(transits_s)
        ]

    assert said([0.6] * 8) == [*[None] * 7, pytest.approx(0.5)]
    assert said([0.6, 0.6, 0.5, *[0.6] * 5])[-1] == pytest.approx(0.4), "by the least of them"
    assert said([0.151] * 8)[-1] == pytest.approx(0.051) and said([0.149] * 8)[-1] is None
    assert said([0.6] * 9, whole=False) == [None] * 9
    # blocks sent over 0.875 s + 0.7 s that come in 0.875 s, and in a little more than half of the time
    assert said([2.0 - 0.1 * k for k in range(8)])[-1] == pytest.approx(1.2)
    assert said([2.0 - 0.13 * k for k in range(8)])[-1] is None
    late = LateBlocks(playback_s=0.4)
    for k in range(7):
        late.arrived(True, 0.6, 0.1, k / 8)
    late.in_time()
    assert [late.arrived(True, 0.6, 0.1, 1 + k / 8) for k in range(8)] == [
        *[None] * 7,
        pytest.approx(0.5),
    ]


class Strays:
    """Packets of another sequence, a millisecond apart, ten milliseconds on their way."""

    def __init__(self, *, alive_s: float = -math.inf, silent_s: float = 0.0) -> None:
        self.probation, self.alive_s, self.silent_s, self.count = Probation(), alive_s, silent_s, 0

    def agreed(
        self, block: int = 500, symbol: int | None = None, *, session: int = 1, late_s: float = 0.01
    ) -> bool:
        self.count += 1
        stamp_us = 1000 * self.count
        packet = session, block, self.count if symbol is None else symbol
        return self.probation.agreed(
            packet, stamp_us, stamp_us * 1e-6 + late_s, self.alive_s, self.silent_s
        )


def test_receiver_believes_eight_agreeing_packets_and_others_subtract_one() -> None:
    strays = Strays()
    assert [strays.agreed() for _ in range(8)] == [*[False] * 7, True]
    strays = Strays()
    assert not any(strays.agreed() for _ in range(7)) and not strays.agreed(session=2)
    assert [strays.agreed() for _ in range(2)] == [False, True]
    strays = Strays()
    strays.agreed()
    strays.agreed(session=2)  # now it is the one that others have to agree with
    assert [strays.agreed(session=2) for _ in range(7)] == [*[False] * 6, True]


@pytest.mark.parametrize(
    ("other", "near"),
    [
        ({"block": 564}, True),
        ({"block": 565}, False),
        ({"late_s": 2.5}, True),
        ({"late_s": 2.52}, False),
    ],
)
def test_packets_agree_that_are_near_in_number_and_in_time(
    other: dict[str, float], near: bool
) -> None:
    strays = Strays()
    assert not any(strays.agreed() for _ in range(7))
    assert strays.agreed(**other) == near  # type: ignore[arg-type]


def test_one_packet_again_and_again_counts_once_and_one_overtaken_does_not() -> None:
    strays = Strays()
    assert not any(strays.agreed(symbol=3) for _ in range(40))
    probation = Probation()
    stamps = [9000, *range(1000, 9000, 1000)]
    assert not any(
        probation.agreed((1, 5, k), us, 0.01 + us * 1e-6, -math.inf, 0.0)
        for k, us in enumerate(stamps)
    )


def test_new_sequence_is_followed_only_after_silence() -> None:
    strays = Strays(alive_s=0.0, silent_s=0.0201)  # the k-th comes at 10 + k ms
    assert [strays.agreed() for _ in range(11)].index(True) == 10
    strays = Strays()
    assert not any(strays.agreed() for _ in range(7))
    strays.alive_s = strays.probation.began_s
    assert [strays.agreed() for _ in range(8)] == [*[False] * 7, True]


def reporter() -> LossReporter:
    return LossReporter(
        ReceiverParameters(source_packets=20, symbol_bytes=8, report_packets=50, stream_id=7)
    )


def test_clock_set_back_makes_a_report_due() -> None:
    one = reporter()
    totals: Counter[str] = Counter(decoded_blocks=3, undecodable_blocks=2, unused_parity=1)
    report = decode_report(
        one.report(5.0, newest_us=7, newest_at_s=4.5, highest=9, received=4, totals=totals)
    )
    assert (
        report.number,
        report.newest_us,
        report.newest_age_us,
        report.highest_block,
        report.received,
    ) == (
        7,
        7,
        500_000,
        9,
        4,
    )
    assert (report.decoded_blocks, report.undecodable_blocks, report.unused_parity) == (3, 2, 1)
    assert (totals["reports"], totals["urgent_reports"]) == (1, 0)
    one.waiting = 1
    assert one.due(4.99) and not one.due(5.0) and not one.due(5.099) and one.due(5.1)
    one.alarm(5.0)
    assert one.next_s() == pytest.approx(5.02)
    one.report(5.29, newest_us=8, newest_at_s=5.29, highest=9, received=4, totals=totals)
    one.waiting = 1
    assert (totals["reports"], totals["urgent_reports"]) == (
        2,
        1,
    ) and one.next_s() == pytest.approx(5.31)
    one.report(5.31, newest_us=8, newest_at_s=6.0, highest=-1, received=2**32 + 5, totals=totals)
    one.waiting = 1
    assert one.next_s() == pytest.approx(5.41) and totals["urgent_reports"] == 1


def test_path_numbers_start_at_zero_and_wrap_at_65536() -> None:
    numbers = PathNumbers(bytes([0]) * 32768 + bytes([255]) * 32768)
    assert numbers.next(5) == numbers.next(6) == (0, 0)
    found = [numbers.next(40_000) for _ in range(65_537)]
    assert found[:2] == [(255, 0), (255, 1)] and found[-2:] == [(255, 65_535), (255, 0)]
    arrivals = PathArrivals()
    for number in (65_535, 0, 3, 65_534):
        arrivals.add(9, number)
    arrivals.add(0, 17)
    assert arrivals.entries() == ((9, 2, 4),)
    for number in (3 + 32_767, 2):
        arrivals.add(9, number)
    assert arrivals.entries() == ((9, 2 + 32_767 - 2, 6),)
    reports = PathReports()
    reports.add([(1, 5, 10)])
    reports.add([(1, 5, 10), (2, 1, 1)])
    reports.add([(1, 6, 12)])
    assert reports.totals == {1: (6, 12), 2: (1, 1)}


def sender(size: int = 4000) -> LargeBlockSender:
    parameters = LargeBlockParameters(
        symbol_bytes=64, block_symbols=8, arrival_pps=100.0, max_pps=400.0
    )
    return LargeBlockSender(bytes(size), parameters, ReedSolomonBlocks(), lambda index: index)


def acknowledge(one: LargeBlockSender, now_s: float, received: int, decoded: int = 0) -> None:
    blocks = {number: b"" for number in range(8) if decoded >> number & 1}
    one.receive(encode_acknowledgement(1, int(now_s * 1e6), received, blocks))


def test_sender_raises_its_rate_by_the_loss_up_to_a_limit() -> None:
    for arrived, pace in ((100, 100.0), (50, 200.0), (20, 400.0), (10, 400.0), (9, 100.0)):
        one = sender(10**5)
        now_s, sent = 0.0, 0
        while sent < 100:
            sent += len(one.packets_due(now_s))
            now_s += 0.01
        acknowledge(one, now_s - 0.01, arrived)
        assert one.loss == pytest.approx(1 - arrived / 100 if arrived >= 10 else 0.0)
        before = one.next_due_s()
        assert len(one.packets_due(before, limit=1)) == 1
        assert one.next_due_s() - before == pytest.approx(1 / pace), arrived


def test_loss_is_measured_over_100_packets_and_damped() -> None:
    one = sender(10**5)
    for expected in (0.0, 0.5):  # of 99 and of 100
        while one.sent < (100 if expected else 99):
            now_s = one.next_due_s()
            one.packets_due(now_s, limit=1)
        acknowledge(one, now_s, 50)
        assert one.loss == pytest.approx(expected)
    fast = sender(10**5)
    fast.loss = 0.75  # four times as fast
    sent = 0
    while sent < 400:
        sent += len(fast.packets_due(fast.next_due_s(), limit=1))
    end_s = fast.next_due_s() - 1 / 400
    acknowledge(fast, end_s, 200)  # in a second: twice as many as asked for
    assert fast.loss == pytest.approx(0.25)


def test_each_block_is_sent_sufficiently_once_before_any_is_repeated() -> None:
    one = sender(4 * 512 - 40)  # four blocks of eight symbols
    assert one.blocks == 4 and one.source_symbols == 32
    order = [packet.block for k in range(44) for packet in one.packets_due(k / 100, limit=1)]
    first = math.ceil(8 + ReedSolomonBlocks().excess + 1)
    assert order[: 4 * first] == [number for number in range(4) for _ in range(first)]
    assert set(order[4 * first :]) == {0, 1, 2, 3} or len(order) == 4 * first
    acknowledge(one, 0.4, 44, decoded=0b1011)
    assert not one.done and {packet.block for packet in one.packets_due(0.5)} == {2}
    acknowledge(one, 0.5, 45, decoded=0b1111)
    assert one.done and one.next_due_s() == math.inf and not one.packets_due(9.0)


def test_a_sender_that_waited_catches_up_for_fifty_milliseconds() -> None:
    one = sender(10**5)
    assert len(one.packets_due(1.0)) == 6 and one.skipped_s == pytest.approx(0.95)
    assert len(one.packets_due(1.0)) == 0
    assert len(one.packets_due(1.02, limit=1)) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"block": 4}, "block"),
        ({"block": 3}, None),
        ({"blocks": 0}, "block"),
        ({"symbols": 0}, "block"),
        ({"symbols": 1}, None),
        ({"symbol": bytes(12)}, "block"),
        ({"symbol": b""}, "block"),
    ],
)
def test_symbols_that_no_file_has_are_refused(
    change: dict[str, object], reason: str | None
) -> None:
    fields = {
        "block": 1,
        "symbol_id": 70_000,
        "symbols": 8,
        "blocks": 4,
        "stamp_us": 2**32 - 1,
        "symbol": bytes(16),
    }
    packet = LargeSymbol(**{**fields, **change})  # type: ignore[arg-type]
    data = encode_symbol(5, packet)
    if reason is None:
        assert decode_symbol(data, 5) == packet
        with pytest.raises(MalformedPacket) as found:
            decode_symbol(data, 6)
        assert found.value.reason == "flags"
        return
    with pytest.raises(MalformedPacket) as found:
        decode_symbol(data, 5)
    assert found.value.reason == reason


def test_acknowledgements_name_decoded_blocks_at_once_or_at_each_interval() -> None:
    acknowledgement = encode_acknowledgement(3, 2**32 - 1, 2**32 + 7, {0: b"", 255: b""})
    assert decode_acknowledgement(acknowledgement, 3) == (2**32 - 1, 7, 1 | 1 << 255)
    code = ReedSolomonBlocks()
    receiver = LargeBlockReceiver(1, code, ack_interval_s=0.05)
    assert receiver.next_deadline_s() == math.inf and not receiver.acknowledgements_due(9.0)
    one = sender(900)
    packets = [packet.data for k in range(40) for packet in one.packets_due(k / 100, limit=1)]
    receiver.receive(packets[0], 0.1)
    assert receiver.next_deadline_s() == pytest.approx(
        0.15
    ) and receiver.longest_s == pytest.approx(0.1)
    assert (
        not receiver.acknowledgements_due(0.149) and len(receiver.acknowledgements_due(0.1501)) == 1
    )
    assert receiver.next_deadline_s() == pytest.approx(0.2001)
    for k, data in enumerate(packets[1:8]):
        receiver.receive(data, 0.16 + k / 1000)
    assert receiver.next_deadline_s() == -math.inf and len(receiver.acknowledgements_due(0.17)) == 1
    receiver.receive(packets[8], 0.18)
    assert receiver.counters == {"useful": 8, "after_decoding": 1} and receiver.received == 9
    for data in packets[9:]:
        receiver.receive(data, 0.2)
    assert receiver.done and receiver.file == bytes(900) and not receiver.corrupted


def test_acknowledgement_reports_the_last_packet_to_the_microsecond() -> None:
    one = sender(900)
    packets = [
        packet.data
        for at_s in (0.000001, 0.010003, 0.020005)
        for packet in one.packets_due(at_s, limit=1)
    ]
    assert [decode_symbol(data, 1).stamp_us for data in packets] == [1, 10_003, 20_005]
    receiver = LargeBlockReceiver(1, ReedSolomonBlocks())
    for data in (packets[0], packets[2], packets[1]):
        receiver.receive(data, 0.1)
    (acknowledgement,) = receiver.acknowledgements_due(1.0)
    assert decode_acknowledgement(acknowledgement, 1) == (20_005, 3, 0)
