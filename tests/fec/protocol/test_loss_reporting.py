"""When a receiver reports, and what the report of losses holds."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import pairwise

from fec.protocol.framing import BLOCK_NUMBERS
from fec.protocol.loss_report import MAX_BLOCKS, LossReport, decode_report
from fec.protocol.loss_reporting import USUAL_BLOCKS, LossReporter
from fec.protocol.receiver_types import ReceiverParameters


def _reporter() -> LossReporter:
    return LossReporter(
        ReceiverParameters(source_packets=20, symbol_bytes=8, stream_id=7, report_packets=50)
    )


def _send(reporter: LossReporter, now_s: float, newest_us: int = 0, highest: int = 0) -> LossReport:
    totals: Counter[str] = Counter()
    data = reporter.report(
        now_s,
        newest_us=newest_us,
        newest_at_s=now_s,
        highest=highest,
        received=reporter.waiting,
        totals=totals,
    )
    return decode_report(data)


def test_nothing_is_due_until_a_packet_came() -> None:
    reporter = _reporter()
    assert not reporter.due(100.0) and reporter.next_s() == math.inf
    reporter.waiting = 1
    assert reporter.due(100.0)
    _send(reporter, 100.0)
    assert not reporter.due(200.0)


def test_many_packets_or_the_interval_make_a_report_due() -> None:
    reporter = _reporter()
    _send(reporter, 1.0)
    reporter.waiting = 49
    assert not reporter.due(1.05) and math.isclose(reporter.next_s(), 1.1)
    assert reporter.due(1.1)
    reporter.waiting = 50
    assert reporter.due(1.0)


def test_an_alarm_makes_reports_urgent_for_a_while() -> None:
    reporter = _reporter()
    _send(reporter, 1.0)
    reporter.waiting = 1
    reporter.alarm(1.0)
    assert not reporter.due(1.01) and reporter.due(1.02)
    _send(reporter, 1.02)
    reporter.waiting = 1
    assert reporter.due(1.05)
    _send(reporter, 1.4)
    reporter.waiting = 1
    assert not reporter.due(1.45)


def test_only_the_latest_blocks_are_reported_by_number_on_the_wire() -> None:
    reporter, first = _reporter(), BLOCK_NUMBERS - 10
    for block in range(first, first + 2 * MAX_BLOCKS):
        reporter.note(block, 0b101, block - 1)
        reporter.note(block, 0b010, block)
    reporter.note(first, 0b1, first + 2 * MAX_BLOCKS - 1)
    last = first + 2 * MAX_BLOCKS - 1
    expected = [(n % BLOCK_NUMBERS, 0b111) for n in range(last - MAX_BLOCKS + 1, last + 1)]
    assert list(_send(reporter, 1.0, highest=last).blocks) == expected[-USUAL_BLOCKS:]
    reporter.blocks_apart = 12
    assert list(_send(reporter, 1.0, highest=last).blocks) == expected[-USUAL_BLOCKS - 12 :]
    reporter.blocks_apart = 1000
    expected = expected[-1080 // 5 :]
    assert list(_send(reporter, 1.0, highest=last).blocks) == expected


def test_blocks_stand_in_the_order_of_their_numbers_however_they_come() -> None:
    reporter, chance, expected, highest = _reporter(), random.Random(1), dict[int, int](), -1
    for _ in range(3000):
        ahead = chance.choice(
            [1, 1, 1, 1, 1, 1, chance.randrange(1, 300), -chance.randrange(2 * MAX_BLOCKS)]
        )
        number, before = max(0, highest + ahead), highest
        highest = max(highest, number)
        reporter.note(number, 1 << ahead % 20, chance.choice([before, highest]))
        if number > highest - MAX_BLOCKS:
            expected[number] = expected.get(number, 0) | 1 << ahead % 20
        expected = {n: bits for n, bits in sorted(expected.items()) if n > highest - MAX_BLOCKS}
        assert list(reporter.recent.items()) == list(expected.items())


def test_reports_are_numbered_upwards_across_the_wrap_of_the_senders_clock() -> None:
    reporter = _reporter()
    stamps = [2**32 - 2, 2**32 - 2, 2**32 - 2, 2**32 - 1, 5, 5]
    numbers = [_send(reporter, 1.0, newest_us=stamp).number for stamp in stamps]
    assert all(0 < (b - a) % 2**32 < 2**31 for a, b in pairwise(numbers))
    assert numbers[0] == 2**32 - 2 and numbers[-2] == 5
