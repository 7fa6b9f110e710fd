"""What both ends of a stream make of drawn worlds: failures that labels explain and losses that none explains, packets
that overtake, come twice or late, ends that start again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from fec.code.block_codes import ReedSolomonBlocks
from fec.protocol.large_blocks import LargeBlockParameters, LargeBlockReceiver, LargeBlockSender
from fec.protocol.path_counts import PathArrivals, PathNumbers, PathReports
from fec.protocol.probation import LateBlocks, Probation, Schedule
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from fec.redundancy.congestion import CongestionBreaker
from fec.redundancy.diagnosis import Diagnoser
from fec.redundancy.labels import LABELS, LabelOrder, RandomLabels, StratifiedLabels
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender
from tests.recorded.computed import told


def _table(chance: random.Random) -> CandidateTable:
    """Cables of one or two intervals of labels, and nodes of two or three cables."""

    def drawn() -> tuple[tuple[int, int], ...]:
        edges = sorted(chance.sample(range(0, LABELS + 1, 4096), 2 * chance.randint(1, 2)))
        return tuple(zip(edges[::2], edges[1::2], strict=True))

    cables = [
        FailureCandidate(name=f"c{k}", intervals=drawn()) for k in range(chance.randint(3, 9))
    ]
    nodes = []
    for k in range(chance.randint(0, 3)):
        own = chance.sample(cables, chance.randint(2, 3))
        intervals = tuple(part for cable in own for part in cable.intervals)
        nodes.append(FailureCandidate(name=f"n{k}", intervals=intervals, cables=len(own)))
    return CandidateTable([*cables, *nodes])


def _diagnosed(seed: int) -> Any:
    chance = random.Random(seed)
    table, transit_s = _table(chance), chance.choice([0.0, 0.02])
    diagnoser = Diagnoser(
        table,
        unexplained_window_s=chance.choice([0.1, 1.0]),
        transit_s=transit_s,
        min_loss_spread_s=chance.choice([0.0, 0.03]),
        one_path=chance.random() < 0.5,
    )
    downs = [
        (chance.randrange(len(table.masks)), chance.uniform(0, 0.8))
        for _ in range(chance.randint(1, 5))
    ]
    spans = [(mask, at, at + chance.uniform(0.05, 0.6)) for mask, at in downs]
    by_chance, order = chance.choice([0.0, 0.0, 0.003, 0.1]), StratifiedLabels()
    found = []
    for index in range(1200):
        label, sent_s = order.label(index), index / 1000
        late_s = chance.random() * transit_s  # when it would have passed what breaks
        gone = any(
            table.masks[i] & table.bit_of(label) and a <= sent_s + late_s < b for i, a, b in spans
        )
        diagnoser.add(PacketReport(label, gone or chance.random() < by_chance, sent_s))
        if index == 900 and seed % 3 == 0:
            diagnoser.restart()
        if index % 12 == 11:
            found.append(
                (
                    diagnoser.certain,
                    diagnoser.unexplained,
                    diagnoser.possible_losses,
                    diagnoser.names(),
                )
            )
    return found


def _streamed(seed: int) -> Any:
    """A stream over a world of its own: what was sent, delivered, counted and reported."""
    chance = random.Random(seed)
    m, loss, twice = (
        chance.choice([3, 5, 20]),
        chance.choice([0.0, 0.02, 0.2]),
        chance.choice([0.0, 0.1]),
    )
    jitter_s, dead_s = (
        chance.choice([0.0, 0.01, 0.2]),
        sorted(chance.uniform(0, 0.8) for _ in range(2)),
    )
    start = chance.randrange(0, LABELS, 8192)

    def forward(packet: Any, at: float) -> Sequence[float]:
        if chance.random() < loss or (
            start <= packet.label < start + 16384 and dead_s[0] <= at < dead_s[1]
        ):
            return ()
        return [0.002 + chance.random() * jitter_s for _ in range(1 + (chance.random() < twice))]

    def backward(way: int, number: int, at: float) -> Sequence[float]:
        return () if chance.random() < loss else (0.002 + chance.random() * jitter_s,)

    key = bytes(16) if chance.random() < 0.3 else None
    delays: dict[str, object] = {"delay_of_label": [0.01 * (label % 3) for label in range(LABELS)]}
    paths = delays if chance.random() < 0.5 else {}
    changes: dict[str, object] = {"source_packets": m, "base": m + 2, "key": key, "session": seed}
    changes |= {"block_size": m + 3} if chance.random() < 0.2 else {}
    changes |= {"silence_s": 0.3, "silent_size": m + 9} if chance.random() < 0.3 else {}
    labels: LabelOrder = RandomLabels(seed) if chance.random() < 0.3 else StratifiedLabels()
    sender = build_sender(lambda p: m + 2 + round(2 * m * p), labels, **changes, **paths)
    playback_s = chance.choice([0.1, 0.4])
    loop = DelayLoop(
        sender, build_receiver(source_packets=m, key=key, playback_s=playback_s), forward, backward
    )
    loop.run_until(0.5)
    if chance.random() < 0.4:  # the sender, or the receiver, starts again
        if chance.random() < 0.5:
            loop.sender = build_sender(lambda p: m + 4, labels, **changes | {"session": seed + 1})
            loop.began_s = loop.now_s
        else:
            loop.receiver = build_receiver(source_packets=m, key=key, playback_s=playback_s)
    loop.run_until(0.9)
    loop.finish()
    return {
        "sent": [(round(at, 9), p.label, p.data) for at, p in loop.sent],
        "events": [(type(event).__name__, event) for event in loop.events],
        "reported": loop.reported_s,
        "sender": loop.sender.counters,
        "receiver": dict(loop.receiver.counters),
        "paths": loop.sender.path_reports,
    }


def _large(seed: int) -> Any:
    chance = random.Random(seed)
    data = chance.randbytes(chance.choice([0, 3000, 40_000]))
    parameters = LargeBlockParameters(
        symbol_bytes=512, block_symbols=chance.choice([5, 30]), arrival_pps=500
    )
    loss, labels = chance.choice([0.0, 0.1, 0.4]), RandomLabels(seed)
    sender = LargeBlockSender(data, parameters, ReedSolomonBlocks(), labels.label)
    receiver, now, sent = LargeBlockReceiver(1, ReedSolomonBlocks()), 0.0, []
    while not sender.done and now < 4:
        for packet in sender.packets_due(now):
            sent.append((packet.label, packet.block, packet.symbol, round(now, 6)))
            if chance.random() >= loss and not 0.3 < now < 0.35:
                receiver.receive(packet.data, now)
        for acknowledgement in receiver.acknowledgements_due(now):
            if chance.random() >= loss:
                sender.receive(acknowledgement)
        now = max(now + 1e-4, min(sender.next_due_s(), receiver.next_deadline_s()))
    return [sent, sender.loss, sender.skipped_s, receiver.file == data]


def _congested(seed: int) -> Any:
    chance, found = random.Random(seed), []
    breaker = CongestionBreaker(
        interval_s=0.1, spread_s=chance.choice([0.0, 0.01]), hold_s=chance.choice([0.5, 2.0])
    )
    queue_s, loss, raised = 0.0, 0.0, False
    for k in range(80):
        if k % 10 == 0:
            queue_s, loss = chance.choice([0.0, 0.004, 0.06]), chance.choice([0.0, 0.02, 0.3])
            raised = loss > 0 and chance.random() < 0.8
        trip_s = 0.02 + queue_s * chance.uniform(0.8, 1.0)
        breaker.add(0.1 * k, round_trip_s=trip_s, loss=loss, sent_pps=1000, raised=raised)
        found.append((breaker.open, breaker.calm))
    return found


def _counted(seed: int) -> Any:
    chance = random.Random(seed)
    numbers = PathNumbers(bytes(label >> 13 for label in range(LABELS)))
    arrivals, reports, found = PathArrivals(), PathReports(), []
    for k in range(600):
        path, number = numbers.next(chance.randrange(LABELS))
        if chance.random() < 0.8 or path == 3:
            arrivals.add(path, (number + (65_500 if path == 2 else 0)) % 65_536)
        if k == 400:
            arrivals = PathArrivals()
        if k % 40 == 39:
            entries = arrivals.entries(chance.choice([2, 5, 255]))
            reports.add(entries)
            found.append((entries, reports.totals))
    return found


def _believed(seed: int) -> Any:
    """Strays, blocks late and early, by the rules of who is believed."""
    chance, found = random.Random(seed), []
    schedule, late, probation = Schedule(), LateBlocks(playback_s=0.4), Probation()
    for k in range(120):
        block = k // 2 + (chance.choice([0, 0, 0, 40, 900]) if chance.random() < 0.2 else 0)
        stamp_us = 20_000 * block + chance.randrange(-60_000, 60_000) * (chance.random() < 0.3)
        schedule.half_arrived(block, stamp_us)
        now_s = k / 50
        stray = (seed + (chance.random() < 0.2), 70_000 + k // 3, k % 9)
        found.append(
            (
                schedule.confirmed,
                schedule.period_us,
                schedule.earliest_us(block + 5),
                schedule.may_begin(block + 3, block, stamp_us + 70_000),
                schedule.silent_s(chance.choice([3, 20])),
                late.arrived(chance.random() < 0.8, 0.5 + chance.random() / 5, 0.3, now_s),
                probation.agreed(
                    stray, 18_000 * k, now_s, now_s - chance.random() / 3, chance.choice([0.0, 0.2])
                ),
            )
        )
        if chance.random() < 0.05:
            late.in_time()
    return found


def _of(function: Callable[[int], Any], count: int) -> Callable[[], Any]:
    return lambda: {
        f"{function.__name__[1:]} {seed}": told(function, seed, most=200) for seed in range(count)
    }


SENDERS: dict[str, Callable[[], Any]] = {
    "fec-diagnosis": _of(_diagnosed, 40),
    "fec-streams": _of(_streamed, 18),
    "fec-large-blocks": _of(_large, 12),
    "fec-congestion": _of(_congested, 20),
    "fec-path-counts": _of(_counted, 8),
    "fec-belief": _of(_believed, 20),
}
"""Name -> what is computed."""
