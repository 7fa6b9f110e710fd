"""What reports say of each path against what was really lost on it, also across receivers that are started anew."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.loss_report import MAX_PATHS, decode_report
from fec.protocol.path_counts import PathArrivals, PathNumbers, PathReports
from fec.protocol.sender import OutgoingPacket, SenderParameters, StreamSender
from fec.protocol.wire import decode_header
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.labels import StratifiedLabels
from tests.helpers.delay_loop import DelayLoop, build_receiver, payload
from tests.helpers.drawn import drawn


def numbered_sender(path_of_label: bytes, policy: int = 40) -> StreamSender:
    parameters = SenderParameters(source_packets=20, symbol_bytes=24, rate_pps=1000.0)
    code = ReedSolomonCode(20)
    control = BlockSizeController(
        AdaptationParameters(base=22), lambda loss: 22 if loss < 0.05 else policy
    )
    return StreamSender(parameters, code, StratifiedLabels(), control, payload, path_of_label)


@given(
    labels=st.lists(st.integers(0, 65535), min_size=1, max_size=300),
    lost=st.sets(st.integers(0, 299)),
    cuts=st.lists(st.integers(1, 65535), max_size=9, unique=True),
)
def test_missing_path_numbers_are_losses_before_the_last_packet(
    labels: list[int], lost: set[int], cuts: list[int]
) -> None:
    edges = [0, *sorted(cuts), 65536]
    table = b"".join(
        bytes([k]) * (stop - start) for k, (start, stop) in enumerate(itertools.pairwise(edges))
    )
    numbers, arrivals = PathNumbers(table), PathArrivals()
    sent: dict[int, list[bool]] = {}
    for k, label in enumerate(labels):
        path, number = numbers.next(label)
        assert path == table[label]
        if path:
            sent.setdefault(path, []).append(k in lost)
        if k not in lost:
            arrivals.add(path, number)
    expected = []
    for path, gone in sorted(sent.items()):
        if not all(gone):
            first, stop = gone.index(False), len(gone) - gone[::-1].index(False)
            expected.append((path, sum(gone[first:stop]), gone.count(False)))
    assert arrivals.entries(255) == tuple(expected)


@given(
    runs=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_totals_go_on_over_receivers_that_begin_at_nothing(
    runs: list[list[tuple[int, int]]],
) -> None:
    """Each receiver's first report says that two packets came, its last that three did at least."""
    reports, lost_in_all, came_in_all = PathReports(), 0, 0
    for run in runs:
        lost, came = 0, 2
        reports.add([(7, lost, came)])
        for more_lost, more_came in [*run, (0, 1)]:
            lost, came = lost + more_lost, came + more_came
            reports.add([(7, lost, came)])
        lost_in_all, came_in_all = lost_in_all + lost, came_in_all + came
        assert reports.totals == {7: (lost_in_all, came_in_all)}


@given(order=st.permutations(range(40)))
def test_packets_of_a_path_that_overtake_each_other_are_not_lost(order: list[int]) -> None:
    arrivals = PathArrivals()
    for number in order:
        arrivals.add(3, (65_520 + number) % 65_536)
    assert arrivals.entries() == ((3, 0, 40),)


@given(paths=st.integers(1, 255))
def test_every_path_has_its_turn_in_the_reports(paths: int) -> None:
    arrivals = PathArrivals()
    for path in range(1, paths + 1):
        arrivals.add(path, 0)
    seen: set[int] = set()
    for _ in range(-(-paths // MAX_PATHS)):
        entries = arrivals.entries()
        assert len(entries) == min(paths, MAX_PATHS)
        seen.update(path for path, _, _ in entries)
    assert seen == set(range(1, paths + 1))


@drawn(15)
@given(paths=st.integers(1, 12), dead=st.integers(0, 11), stop_s=st.floats(0.5, 0.9))
def test_the_sender_learns_the_losses_of_each_path(paths: int, dead: int, stop_s: float) -> None:
    table = bytes(1 + label * paths // 65536 for label in range(65536))
    lost: dict[int, int] = {}
    came: dict[int, int] = {}

    def forward(packet: OutgoingPacket, at: float) -> tuple[float, ...]:
        path = decode_header(packet.data).path
        gone = path == 1 + dead % paths and 0.3 <= at < stop_s
        counts = lost if gone else came
        counts[path] = counts.get(path, 0) + 1
        return () if gone else (0.002,)

    loop = DelayLoop(numbered_sender(table), build_receiver(), forward=forward)
    loop.run_until(1.5)
    loop.finish()
    told = loop.sender.path_reports
    assert {path: n for path, (n, _) in told.items() if n} == lost
    assert all(came[path] - 60 <= told[path][1] <= came[path] for path in came)


@drawn(15)
@given(restart_s=st.floats(0.3, 1.0), gap_s=st.floats(0.0, 0.3))
def test_a_receiver_started_anew_is_heard_at_once(restart_s: float, gap_s: float) -> None:
    """It begins to count at nothing; a quarter of the labels is lost from 0.2 s after it came back."""
    table = bytes(1 + label // 16384 for label in range(65536))
    fails_s = restart_s + gap_s + 0.2
    loop = DelayLoop(
        numbered_sender(table),
        build_receiver(),
        forward=lambda packet, at: () if packet.label < 16384 and at >= fails_s else (0.002,),
    )
    loop.run_until(restart_s)
    heard = loop.sender.counters["reports"]
    first, loop.forward = loop.forward, lambda packet, at: ()
    loop.run_until(restart_s + gap_s)
    loop.forward, loop.receiver = first, build_receiver()
    loop.run_until(fails_s)
    assert loop.sender.counters["reports"] > heard
    loop.run_until(fails_s + 0.2)
    assert loop.sender.block_size == 40
    assert loop.sender.path_reports[2][1] > 0.2 * 250


def test_a_count_of_arrivals_that_begins_again_after_32_bits_goes_on() -> None:
    reports = PathReports()
    for came in ((1 << 32) - 5, 5):
        reports.add([(1, 0, came)])
    assert reports.totals == {1: (0, (1 << 32) + 5)}


def test_a_copy_that_comes_when_its_block_is_over_does_not_hide_a_loss() -> None:
    sender, receiver = numbered_sender(bytes([1]) * 65536), build_receiver()
    packets = sender.packets_due(0.018)
    for packet in [*packets[:5], *packets[6:]]:
        receiver.receive(packet.data, 0.018)
    receiver.advance(1.0)
    receiver.receive(packets[0].data, 1.0)
    assert decode_report(receiver.reports_due(1.0)[0]).paths == ((1, 1, len(packets) - 1),)


def test_restarted_receiver_does_not_report_packets_of_its_predecessor() -> None:
    loop = DelayLoop(numbered_sender(bytes(65536)), build_receiver())
    loop.run_until(20.0)
    loop.receiver = build_receiver()
    loop.run_until(21.0)
    assert loop.sender.block_size == 22 and loop.sender.control.loss == 0
