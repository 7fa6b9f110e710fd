"""Tests which failures RS(30,23) at a fixed rate over two paths repairs, in the simulator.

This code is the baseline of the literature. Every cable of a route fails in turn, for the same
time. The losses are summed over the cables: the sum is what a stream loses per second if each cable
fails once per second. So routes with more cables have more failures.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from testbed.faults.fault import Fault, cables_of
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grid,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_lines
from testbed.stream.endpoints import label_sequence
from testbed.stream.measurements import FloatArray
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import fault_intervals
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

NETWORK = "swiss-t1"
SOURCE = "s1"
SINK = "s6"
RATE_PPS = 500.0

# Source packets and packets per block.
M = 23
N = 30

UNCODED = "no code, single path"
FIXED_SINGLE = "RS(30,23), single path"
FIXED_TWO_PATHS = "RS(30,23), two paths"
FIXED_CAPILLARY = "RS(30,23), capillary"
ADAPTIVE = "adaptive, capillary"

# Routing method of each sender, and its block size; None: adaptive.
SENDERS: dict[str, tuple[str, int | None]] = {
    UNCODED: ("single", M),
    FIXED_SINGLE: ("single", N),
    FIXED_TWO_PATHS: ("disjoint-2", N),
    FIXED_CAPILLARY: ("capillary", N),
    ADAPTIVE: ("capillary", None),
}

# Seconds between two failures. PHASE_S is added, so that failures begin in different phases of a
# block.
REST_S = 1.3
PHASE_S = 0.011

# Longest failure in source packets: one second.
LONGEST = 500


def points(quick: bool, seed: int) -> Points:
    """Return failures of several lengths, in source packets (2 ms each), for every sender."""
    lengths: tuple[int, ...] = (4, 7, 10, 14, 20, 28, 40, LONGEST)
    if not quick:
        lengths = (2, 4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 56, 80, 150, LONGEST)
    return grid(sender=SENDERS, packets=lengths, phases=2 if quick else 4, seed=seed)


@cache
def calm_plan(sender: str, seed: int) -> StreamPlan:
    """Return the stream of a sender without failures."""
    method, block_size = SENDERS[sender]
    return stream_plan(
        NETWORK,
        SOURCE,
        SINK,
        method=method,
        faults=(),
        duration_s=1.0,
        seed=seed,
        hold_s=0.5,
        rate_pps=RATE_PPS,
        source_packets=M,
        block_size=block_size,
    )


def failing_plan(point: Row) -> StreamPlan:
    """Return the stream of a point.

    Each loaded cable fails in turn, several times in different phases of a block.
    """
    plan = calm_plan(point["sender"], point["seed"])
    cables = cables_of(plan.network.links[link].id for link in plan.forward.loaded)
    failure_s = point["packets"] / RATE_PPS
    faults = []
    start_s = 1.0
    for cable in cables:
        for _ in range(point["phases"]):
            faults.append(Fault(link=cable, start_s=start_s, stop_s=start_s + failure_s))
            start_s += failure_s + REST_S + PHASE_S
    return replace(plan, faults=tuple(faults), duration_s=start_s + 1.0)


def measure(point: Row) -> Results:
    """Measure the losses per failure, summed over the cables, and the packets that were sent.

    Returns:
        The number of cables; the largest load of a link; the lost or late source packets; the
        packets sent per source packet; and, for a fixed code, the predicted losses with the code
        and without it.
    """
    plan = failing_plan(point)
    run = SimulatedStreamFabric().run(plan)
    source_packets = int((run.sent.symbol < M).sum())
    predicted = 0
    uncoded = 0
    if plan.stream.block_size is not None:
        predicted, uncoded = predicted_loss(plan)
    phases = point["phases"]
    return {
        "cables": len(plan.faults) // phases,
        "heaviest": max(float(plan.forward.load(link)) for link in plan.forward.loaded),
        "lost": float(run.blocks.late_source_packets.sum()) / phases,
        "sent_per_source": len(run.sent.symbol) / source_packets,
        "predicted": predicted / phases,
        "uncoded": uncoded / phases,
    }


def predicted_loss(plan: StreamPlan) -> tuple[int, int]:
    """Predict the source packets that a fixed code loses under the plan's failures.

    The prediction uses only when packets are due, their labels, and the links that labels take. A
    block with fewer than M remaining packets loses its lost source packets.

    Returns:
        The number of source packets that remain lost, and the number that is lost in the network.
    """
    size = plan.stream.block_size
    assert size is not None
    blocks = int((plan.duration_s - plan.stream.playback_s) * RATE_PPS / M)
    order = label_sequence(plan)
    labels = np.array([order.label(k) for k in range(size * blocks)]).reshape(-1, size)
    due_s = _due_times_s(blocks, size)
    lost = np.zeros(labels.shape, dtype=bool)
    for fault in plan.faults:
        failing = (due_s >= fault.start_s) & (due_s < fault.stop_s)
        for start, stop in fault_intervals(plan, fault):
            lost |= failing & (labels >= start) & (labels < stop)
    undecodable = (~lost).sum(axis=1) < M
    lost_sources = lost[:, :M]
    return int(lost_sources[undecodable].sum()), int(lost_sources.sum())


def _due_times_s(blocks: int, size: int) -> FloatArray:
    """Return when each packet is due, in seconds; an array of blocks by packets.

    Source packets are due at the stream's rate. The parity of a block is spread evenly over the
    source packets of the next block.
    """
    parity_position = M - 1 + (np.arange(size - M) + 0.5) * M / max(1, size - M)
    positions = np.concatenate([np.arange(M), parity_position])
    first_positions = np.arange(blocks)[:, None] * M
    return np.asarray((first_positions + positions) / RATE_PPS)


def judge(rows: Rows) -> Verdict:
    """Check which failures a fixed code repairs, and that adaptive redundancy repairs long ones.

    A second path doubles the duration of a failure that a fixed code repairs.
    """
    fixed_senders = (FIXED_SINGLE, FIXED_TWO_PATHS, FIXED_CAPILLARY)
    longest = {row["sender"]: row for row in where(rows, packets=LONGEST)}
    checks = [
        _check_repaired(where(rows, sender=FIXED_SINGLE), 0.0, "without a code"),
        _check_repaired(where(rows, sender=FIXED_TWO_PATHS), float(N - M), "on a single path"),
        *(_check_prediction(where(rows, sender=sender)) for sender in fixed_senders),
        _check_two_paths(longest[FIXED_TWO_PATHS]),
        _check_adaptive(longest[ADAPTIVE], longest[FIXED_TWO_PATHS]),
    ]
    return Verdict.of(checks)


def _check_repaired(rows: Rows, rival: float, rival_is: str) -> Check:
    """Check that a failure is repaired as long as it costs each block at most N - M packets.

    Args:
        rows: The rows of one sender with a fixed code.
        rival: Longest failure without loss by the rival, in source packets.
        rival_is: Description of the rival.
    """
    share = rows[0]["heaviest"]
    return (
        Claim(f"{rows[0]['sender']}: longest failure without loss, source packets")
        .equal((N - M) / share, longest_without_loss(rows), 1.5 / share)
        .against(rival, rival_is)
        .noting(f"7 losses a block are repaired; the most loaded cable carries {share:.2f}")
    )


def _check_two_paths(fixed: Row) -> Check:
    """Check that a fixed code over two paths loses half of the packets in a long failure."""
    return (
        Claim("RS(30,23), two paths: lost while a cable is down for a second, share")
        .equal(0.5, fixed["lost"] / fixed["cables"] / LONGEST, 0.05)
        .against(0.0, "the code repairs it")
        .noting(f"either path carries half, more than 7 of 30; {_sent(fixed)}")
    )


def _check_adaptive(adaptive: Row, fixed: Row) -> Check:
    return (
        Claim(
            "adaptive, capillary: lost while a cable is down for a second, "
            "summed over the route's cables, shares"
        )
        .at_most(0.1 * fixed["lost"] / LONGEST, adaptive["lost"] / LONGEST)
        .against(fixed["lost"] / LONGEST, "RS(30,23) over two paths")
        .noting(f"{adaptive['cables']} cables instead of {fixed['cables']}; {_sent(adaptive)}")
    )


def _sent(row: Row) -> str:
    return f"{row['sent_per_source']:.2f} packets sent for each source packet"


def _check_prediction(rows: Rows) -> Check:
    """Check the losses of a sender, for all lengths together, against their prediction."""
    predicted = sum_of(rows, "predicted")
    return (
        Claim(
            f"{rows[0]['sender']}: source packets lost, all lengths together, "
            "over those that labels and schedule predict"
        )
        .equal(1.0, sum_of(rows, "lost") / predicted, 0.01)
        .against(sum_of(rows, "uncoded") / predicted, "without a code")
        .noting(f"{predicted:.0f} predicted over {len(rows)} lengths")
    )


def longest_without_loss(rows: Rows) -> float:
    """Return the length of the longest failure without loss, in source packets.

    The result is the mean of two measured lengths: the shortest failure with a loss, and the next
    shorter one. It is 0 if the shortest failure of all has a loss.
    """
    previous: float | None = None
    for row in sorted(rows, key=lambda row: row["packets"]):
        packets = float(row["packets"])
        if row["lost"] > 0:
            return 0.0 if previous is None else (previous + packets) / 2
        previous = packets
    return float(max(row["packets"] for row in rows))


def figures(rows: Rows) -> Figures:
    """Draw the losses by duration of the failures, summed over the cables of the route."""
    samples = {}
    for row in rows:
        failure_ms = 1000 * row["packets"] / RATE_PPS
        samples[row["sender"], failure_ms] = (row["lost"] / row["packets"], 0.0)
    figure = draw_lines(
        "Source packets lost or late",
        samples,
        x="length of a failure, ms",
        y="lost or late, of the packets sent meanwhile, summed over cables",
    )
    figure.axes[0].set_xscale("log")
    return {"static": figure}


STUDY = Study.of_module(
    __name__,
    title="RS(30,23) at a fixed rate over two paths, the baseline of the literature",
    answers="Gabrielyan 2007, section 4.1: static RS(30,23) over two paths "
    "has clear advantages over a single path [Nguyen03]; rival: it has none",
    deviations=(
        "Failures are cuts of one cable at a time; "
        "[Nguyen03] drew bursts of losses on the Internet.",
        "The single path is the network's shortest, as OSPF would choose.",
    ),
)
