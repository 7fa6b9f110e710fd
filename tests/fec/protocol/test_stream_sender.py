"""The sender's state machine: pacing, labels, bytes, late parity, and what it makes of reports."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import pytest

from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import FecError
from fec.protocol.loss_report import LossReport
from fec.protocol.sender import SenderParameters, StreamSender
from fec.protocol.wire import HEADER_BYTES, PacketHeader, decode_header, unprotect
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import StratifiedLabels
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender, cut, payload


def everything(sender, end_s, step_s=0.0005):
    """What is due in each step of a clock that ticks."""
    out, k = [], 0
    while k * step_s <= end_s:
        out.append((k * step_s, sender.packets_due(k * step_s)))
        k += 1
    return out


def report(number, newest_s, blocks, highest):
    return LossReport(
        stream_id=1,
        number=number,
        newest_us=int(newest_s * 1e6),
        highest_block=highest,
        blocks=tuple(blocks),
    ).encode()


def test_packets_are_what_the_header_class_encodes() -> None:
    for packet in build_sender(symbol_bytes=32).packets_due(0.06, limit=80):
        header = decode_header(packet.data)
        symbol = packet.data[HEADER_BYTES:]
        built = PacketHeader(
            stream_id=1,
            source_block_number=packet.block,
            encoding_symbol_id=packet.symbol,
            source_packets=20,
            block_size=packet.block_size,
            symbol_length=32,
            timestamp_us=60_000,
        )
        assert header == built and packet.data == built.encode(symbol) + symbol
        if packet.symbol < 20:
            assert unprotect(symbol) == payload(packet.block * 20 + packet.symbol)


def test_source_is_sent_at_the_rate_and_parity_spread_over_the_next_block() -> None:
    sender = build_sender(base=30)
    ticks = everything(sender, 0.4)
    source = [at for at, due in ticks for p in due if p.symbol < 20]
    assert all(abs(at - 0.001 * i) <= 0.0005 for i, at in enumerate(source))
    assert max(len(due) for _, due in ticks) <= 2
    parity = defaultdict(list)
    for at, due in ticks:
        for p in due:
            if p.symbol >= 20:
                parity[p.block].append(at)
    times = parity[3]
    assert len(times) == 10
    assert times[0] >= 0.079 and times[-1] <= 0.1
    assert max(b - a for a, b in itertools.pairwise(times)) <= 0.0026


def test_a_late_caller_gets_no_more_than_its_limit_and_misses_nothing() -> None:
    sender = build_sender()
    first = sender.packets_due(1.0, limit=64)
    assert len(first) == 64
    rest = first + [p for _ in range(40) for p in sender.packets_due(1.0, limit=64)]
    assert [p.due_s for p in rest] == sorted(p.due_s for p in rest)
    assert Counter(p.symbol < 20 for p in rest)[True] == 1001


def test_each_block_is_a_window_of_consecutive_labels_after_the_one_before() -> None:
    index = 0
    blocks = defaultdict(dict)
    for _, due in everything(build_sender(), 0.5):
        for p in due:
            blocks[p.block][p.symbol] = p.label
    for number in range(20):
        assert len(blocks[number]) == 22
        assert [blocks[number][e] for e in range(22)] == [
            StratifiedLabels().label(index + e) for e in range(22)
        ]
        index += 22


def test_finishing_completes_the_block_under_way() -> None:
    sender = build_sender()
    sender.packets_due(0.0305)
    sender.finish_source()
    assert math.isfinite(sender.next_due_s())
    rest = sender.packets_due(5.0, limit=1000)
    assert sender.next_due_s() == math.inf
    assert sender.counters["source"] == 40 and sender.counters["parity"] == 4
    assert rest[-1].block == 1


def test_incomplete_block_is_extended_when_a_report_shows_loss() -> None:
    sender = build_sender(policy=lambda loss: 30 if loss > 0.05 else 22)
    for k in range(46):
        sender.packets_due(0.001 * k)
    lossy = ((1 << 22) - 1) & ~0b1000100010
    sender.receive(report(0, 0.045, [(0, lossy), (1, lossy)], 1), 0.05)
    assert sender.block_size == 30 and sender.control.loss > 0.05
    late = [p for p in sender.packets_due(0.06, limit=200) if p.symbol >= 22]
    assert {p.block for p in late} == {0, 1}  # block 2 grows with its own parity
    assert sorted(p.symbol for p in late if p.block == 0) == list(range(22, 30))
    assert [p.label for p in late if p.block == 0] == [
        StratifiedLabels().label(22 + e) for e in range(8)
    ]
    assert max(p.due_s for p in late) < 0.0585
    assert sender.counters["late_parity"] == 16


def test_no_late_parity_after_the_playback_deadline() -> None:
    sender = build_sender(policy=lambda loss: 30 if loss > 0.05 else 22, playback_s=0.1)
    for k in range(46):
        sender.packets_due(0.001 * k)
    sender.receive(report(0, 0.045, [(0, 0xFFF), (1, 0xFFF)], 1), 0.101)
    assert sender.block_size >= 30
    extended = {p.block for p in sender.packets_due(0.12, limit=200) if p.symbol >= 22}
    assert 0 not in extended and 1 in extended


def test_block_that_lacks_packets_is_extended_despite_a_low_estimate() -> None:
    """An unlucky block on a link of low loss: the policy asks for no more, its packets do."""
    sender = build_sender()
    for k in range(700):
        sender.packets_due(0.001 * k)
    whole = (1 << 22) - 1
    blocks = [(b, whole if b != 32 else whole & ~0b111) for b in range(30, 34)]
    sender.receive(report(0, 0.699, blocks, 33), 0.7)
    late = [p for p in sender.packets_due(0.72, limit=100) if p.symbol >= 22]
    assert {p.block for p in late} == {32} and len(late) >= 1


def test_a_fixed_block_size_is_neither_adapted_nor_helped() -> None:
    sender = build_sender(policy=lambda loss: 40, block_size=25)
    loop = DelayLoop(sender, build_receiver(), forward=cut(0, 30000, 0.2, 1.0))
    loop.run_until(1.0)
    loop.finish()
    assert {p.block_size for _, p in loop.sent} == {25}
    assert sender.counters["late_parity"] == 0
    assert loop.receiver.counters["undecodable_blocks"] > 20


def test_foreign_reports_are_counted_and_change_nothing() -> None:
    sender = build_sender(policy=lambda loss: 40)
    sender.packets_due(0.1)
    good = report(0, 0.1, [], 0)
    other = LossReport(stream_id=2, number=0, newest_us=0, highest_block=0).encode()
    for data in (
        b"",
        b"x" * 44,
        good[:-1],
        bytes([good[0]]) + b"\xff" + good[2:],
        other,
        report(0, 0.1, [], 999),
    ):
        sender.receive(data, 0.1)
    assert sender.counters["bad_reports"] == 6 and sender.counters["reports"] == 0
    assert sender.block_size == 22


def test_repeated_and_overtaken_reports_count_once() -> None:
    sender = build_sender(policy=lambda loss: 40)
    sender.packets_due(0.1)
    for number in (3, 3, 1, 4, 2):
        sender.receive(report(number, 0.0, [], 0), 0.1)
    assert sender.counters["reports"] == 2 and sender.counters["repeated_reports"] == 3


def test_after_a_moment_of_disorder_losses_are_believed_as_soon_as_before() -> None:
    """A third of the packets is 60 ms late for half a second; what is cut long after is answered as if that had never
    been."""

    def reaction_s(disorder: bool) -> float:
        sender = build_sender(policy=lambda loss: 22 if loss < 0.05 else 40)

        def forward(packet, at):
            if at >= 15 and packet.label < 16384:
                return ()
            return (0.062,) if disorder and 1 <= at < 1.5 and packet.label > 40000 else (0.002,)

        loop = DelayLoop(sender, build_receiver(), forward=forward)
        loop.run_until(15.0)
        assert (sender.counters["spurious_losses"] > 0) == disorder
        while sender.block_size < 40 and loop.now_s < 16:
            loop.run_until(loop.now_s + 0.002)
        return loop.now_s - 15

    assert (
        reaction_s(False) < 0.04 and reaction_s(True) < 0.04
    )  # 0.09 s where the allowance stays what it has become


@pytest.mark.parametrize(
    "planned", [bytes(1 << 16), None], ids=["as if none were longer", "not at all"]
)
def test_packets_that_come_late_after_all_teach_the_sender_to_wait_longer(
    planned: bytes | None,
) -> None:
    """A third of the labels takes a way that is 30 ms longer; none is lost."""
    sender = build_sender(policy=lambda loss: 22 if loss < 0.05 else 60, delay_of_label=planned)
    loop = DelayLoop(
        sender, build_receiver(), forward=lambda p, at: (0.032,) if p.label < 21845 else (0.002,)
    )
    loop.run_until(8.0)
    assert sender.counters["spurious_losses"] < (100 if planned else 1)
    assert all(p.block_size == 22 for at, p in loop.sent if at > 0.5 or planned is None)
    assert sender.control.loss == 0
    assert sender.block_size == 22
    assert loop.receiver.worst_reordering_s == pytest.approx(0.03, abs=0.002)


def test_time_stamps_that_wrap_are_told_apart() -> None:
    wrap_s = (1 << 32) / 1e6
    sender = build_sender(policy=lambda loss: 40)
    for k in range(30):
        sender.packets_due(wrap_s - 0.02 + 0.002 * k, limit=4)
    bitmap = (1 << 22) - 1
    sender.receive(
        report(0, (wrap_s + 0.038) % wrap_s, [(b, bitmap) for b in range(5)], 4), wrap_s + 0.05
    )
    assert sender.counters["reports"] == 1 and sender.control.loss == 0
    assert (
        sender.block_size == 40
    )  # the policy was asked: fates were known on both sides of the wrap


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_pps": 0.0},
        {"rate_pps": float("nan")},
        {"playback_s": 0.0},
        {"symbol_bytes": 2},
        {"base": 19},
        {"base": 256},
        {"block_size": 10},
        {"stream_id": 1 << 16},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FecError):
        build_sender(**wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"late_parity_pps": 0.0}, "late parity at 0.0"),
        ({"silence_s": 0.0}, "all must be above 0"),
        ({"rate_pps": math.inf}, "all must be above 0"),
        ({"session": -1}, "session"),
        ({"session": 1 << 32}, "session"),
        ({"source_packets": 0}, "source_packets"),
        ({"source_packets": 256}, "source_packets"),
        ({"symbol_bytes": 2}, "symbol_bytes"),
        ({"stream_id": -1}, "stream_id"),
    ],
)
def test_parameters_that_no_stream_can_have_are_named(wrong: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {
        "source_packets": 20,
        "symbol_bytes": 3,
        "rate_pps": 1.0,
        "session": (1 << 32) - 1,
    }
    assert SenderParameters(**values, silence_s=1e-9, late_parity_pps=1e-9).source_packets == 20
    with pytest.raises(FecError, match=words):
        SenderParameters(**(values | wrong))


def test_packets_are_due_to_the_moment() -> None:
    sender = build_sender(base=30)
    due = [p for at in range(60) for p in sender.packets_due(0.001 * at, limit=9)]
    assert [p.due_s for p in due if p.symbol < 20] == pytest.approx([0.001 * k for k in range(60)])
    # ten of the first block's parity in the time of the second, each in the middle of its tenth
    parity = [p.due_s for p in due if p.symbol >= 20 and p.block == 0]
    assert parity == pytest.approx([0.019 + 0.002 * (k + 0.5) for k in range(10)])
    assert sender.next_due_s() == pytest.approx(0.06)


def small_sender(**changes: Any) -> StreamSender:
    values: dict[str, Any] = {"source_packets": 2, "symbol_bytes": 8, "rate_pps": 100, "session": 0}
    parameters = SenderParameters(**(values | changes))
    code = ReedSolomonCode(2, "reedsolo")
    return StreamSender(
        parameters, code, StratifiedLabels(), fixed_block_size(3), lambda number: b"x"
    )


def test_sender_without_reports_uses_the_silent_size() -> None:
    sender = small_sender(silence_s=0.105, silent_size=5)  # of 0.4 s of playback

    def sizes() -> dict[int, int]:
        return {p.block: p.block_size for p in sender.packets_due(now_s, limit=1000)}

    now_s = 0.6
    first = sizes()  # block k begins at 0.02 k
    assert {block for block, size in first.items() if size == 3} == set(range(26)) and first[
        26
    ] == 5
    sender.receive(
        LossReport(stream_id=1, number=600_000, newest_us=600_000, highest_block=30).encode(), 0.6
    )
    now_s = 0.8
    later = sizes()
    assert all(later[block] == (3 if block <= 35 else 5) for block in range(32, 40))
    assert (
        small_sender(silence_s=0.105, silent_size=2).packets_due(0.6, limit=1000)[-1].block_size
        == 3
    )


def test_sender_believes_reports_as_far_ahead_as_receivers_can_be_misled() -> None:
    for highest, good in ((6, True), (7, False)):
        sender = build_sender()
        assert len(sender.packets_due(0.05, limit=100)) > 50  # blocks 0 to 2
        sender.receive(report(0, 0.04, [], highest), 0.06)
        assert (sender.counters["reports"], sender.counters["bad_reports"]) == (good, not good)


def test_numbers_of_reports_are_stamps_that_came_back_or_a_few_more() -> None:
    for ahead_us, good in ((10_000, True), (10_001, False)):
        sender = build_sender()
        sender.packets_due(0.05)
        sender.receive(report(60_000 + ahead_us, 0.04, [], 0), 0.06)
        assert (sender.counters["reports"], sender.counters["bad_reports"]) == (good, not good)


@pytest.mark.parametrize(
    ("numbers", "at_s", "accepted"),
    [
        ((10, 11, 12), 1.11, 1),
        ((10, 11, 12), 1.09, 0),
        ((12, 11, 10), 1.11, 0),
        ((10, 11), 1.11, 0),
    ],
)
def test_three_older_report_numbers_are_followed_after_silence(
    numbers: tuple[int, ...], at_s: float, accepted: int
) -> None:
    sender = build_sender()
    for k in range(100):
        sender.packets_due(0.001 * k)
    sender.receive(report(50_000, 0.05, [], 0), 0.1)
    for number in numbers:
        sender.receive(report(number, 0.05, [], 0), at_s)
    assert sender.counters["reports"] == 1 + accepted
    assert sender.counters["repeated_reports"] == len(numbers) - accepted


@pytest.mark.parametrize(
    ("changes", "step_s"),
    [({}, 0.000125), ({"late_parity_pps": 500.0}, 0.002), ({"rate_pps": 50.0}, 0.001)],
)
def test_late_parity_rate_follows_the_packet_rate(changes: dict[str, float], step_s: float) -> None:
    sender = build_sender(policy=lambda loss: 30 if loss > 0.05 else 22, playback_s=4.0, **changes)
    pace_s = 1 / changes.get("rate_pps", 1000.0)
    for k in range(46):
        sender.packets_due(pace_s * k)
    lossy = ((1 << 22) - 1) & ~0b1000100010
    sender.receive(report(0, 45 * pace_s, [(0, lossy), (1, lossy)], 1), 46 * pace_s)
    late = [
        p.due_s
        for p in sender.packets_due(46 * pace_s + 1.0, limit=900)
        if p.symbol >= 22 and p.block < 2
    ]
    assert late == pytest.approx([46 * pace_s + step_s * k for k in range(16)])
