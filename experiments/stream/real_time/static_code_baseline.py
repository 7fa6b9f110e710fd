"""The baseline of the literature, RS(30,23) at a fixed rate over two paths: which failures it repairs, and which call
for more; virtual time.

Every cable of a route fails in turn, for so long; what is lost, added up over the cables, is what a stream loses for
each failure that a cable has a second, so that routes of more cables pay for them.
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
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import fault_intervals
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
RATE_PPS, M, N = 500.0, 23, 30
SENDERS: dict[str, tuple[str, int | None]] = {
    "no code, single path": ("single", M),
    "RS(30,23), single path": ("single", N),
    "RS(30,23), two paths": ("disjoint-2", N),
    "RS(30,23), capillary": ("capillary", N),
    "adaptive, capillary": ("capillary", None),
}
"""Name -> routing method, and the fixed block size."""
REST_S, PHASE_S = 1.3, 0.011
LONGEST = 500
"""Of the failures, in packets of the source: a second."""


def points(quick: bool, seed: int) -> Points:
    """Failures by their length in source packets (2 ms each), for every sender."""
    lengths: tuple[int, ...] = (4, 7, 10, 14, 20, 28, 40, LONGEST)
    if not quick:
        lengths = (2, 4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 56, 80, 150, LONGEST)
    return grid(sender=SENDERS, packets=lengths, phases=2 if quick else 4, seed=seed)


@cache
def calm_plan(sender: str, seed: int) -> StreamPlan:
    """The stream before anything fails."""
    method, block_size = SENDERS[sender]
    settings: Results = {
        "method": method,
        "faults": (),
        "duration_s": 1.0,
        "seed": seed,
        "hold_s": 0.5,
    }
    settings |= {"rate_pps": RATE_PPS, "source_packets": M, "block_size": block_size}
    return stream_plan(NETWORK, SOURCE, SINK, **settings)


def failing_plan(point: Row) -> StreamPlan:
    """Each loaded cable in turn, several times at different moments of a block."""
    plan = calm_plan(point["sender"], point["seed"])
    cables = cables_of(plan.network.links[i].id for i in plan.forward.loaded)
    lasts_s = point["packets"] / RATE_PPS
    faults, at_s = [], 1.0
    for cable in (cable for cable in cables for _ in range(point["phases"])):
        faults.append(Fault(link=cable, start_s=at_s, stop_s=at_s + lasts_s))
        at_s += lasts_s + REST_S + PHASE_S
    return replace(plan, faults=tuple(faults), duration_s=at_s + 1.0)


def measure(point: Row) -> Results:
    """Source packets lost or late for each failure, summed over the cables; what was sent for each source packet."""
    plan = failing_plan(point)
    run = SimulatedStreamFabric().run(plan)
    source = int((run.sent.symbol < M).sum())
    predicted = predicted_loss(plan) if plan.stream.block_size is not None else (0, 0)
    return {
        "cables": len(plan.faults) // point["phases"],
        "heaviest": max(float(plan.forward.load(i)) for i in plan.forward.loaded),
        "lost": float(run.blocks.late_source_packets.sum()) / point["phases"],
        "sent_per_source": len(run.sent.symbol) / source,
        "predicted": predicted[0] / point["phases"],
        "uncoded": predicted[1] / point["phases"],
    }


def predicted_loss(plan: StreamPlan) -> tuple[int, int]:
    """Source packets that a fixed code loses under the plan's failures, and those that are lost on the way: from when
    packets are due, their labels and the split alone.

    Source packets come at the stream's rate, a block's parity evenly over the time of the next one; a block of which
    fewer than M packets are left loses what it lost of its source packets.
    """
    size = plan.stream.block_size
    assert size is not None
    order, blocks = (
        label_sequence(plan),
        int((plan.duration_s - plan.stream.playback_s) * RATE_PPS / M),
    )
    labels = np.array([order.label(k) for k in range(size * blocks)]).reshape(-1, size)
    parity = M - 1 + (np.arange(size - M) + 0.5) * M / max(1, size - M)
    due_s = (np.arange(blocks)[:, None] * M + np.concatenate([np.arange(M), parity])) / RATE_PPS
    gone = np.zeros(labels.shape, dtype=bool)
    for fault in plan.faults:
        failing = (due_s >= fault.start_s) & (due_s < fault.stop_s)
        for start, stop in fault_intervals(plan, fault):
            gone |= failing & (labels >= start) & (labels < stop)
    undecodable = (~gone).sum(axis=1) < M
    return int(gone[undecodable][:, :M].sum()), int(gone[:, :M].sum())


def judge(rows: Rows) -> Verdict:
    """Two paths double the failure that a fixed code repairs, and repair no long one; redundancy that adapts does."""
    checks = []
    for sender, rival in (("RS(30,23), single path", 0.0), ("RS(30,23), two paths", float(N - M))):
        own = where(rows, sender=sender)
        share = own[0]["heaviest"]
        checks.append(
            Claim(f"{sender}: longest failure without loss, source packets")
            .equal((N - M) / share, longest_without_loss(own), 1.5 / share)
            .against(rival, "on a single path" if rival else "without a code")
            .noting(f"7 losses a block are repaired; the most loaded cable carries {share:.2f}")
        )
    checks += [_prediction_check(sender, rows) for sender in SENDERS if sender.startswith("RS")]
    long = {row["sender"]: row for row in where(rows, packets=LONGEST)}
    static, adaptive = long["RS(30,23), two paths"], long["adaptive, capillary"]
    checks += [
        Claim("RS(30,23), two paths: lost while a cable is down for a second, share")
        .equal(0.5, static["lost"] / static["cables"] / LONGEST, 0.05)
        .against(0.0, "the code repairs it")
        .noting(f"either path carries half, more than 7 of 30; {_sent(static)}"),
        Claim(
            "adaptive, capillary: lost while a cable is down for a second, summed over the route's cables, shares"
        )
        .at_most(0.1 * static["lost"] / LONGEST, adaptive["lost"] / LONGEST)
        .against(static["lost"] / LONGEST, "RS(30,23) over two paths")
        .noting(f"{adaptive['cables']} cables instead of {static['cables']}; {_sent(adaptive)}"),
    ]
    return Verdict.of(checks)


def _sent(row: Row) -> str:
    return f"{row['sent_per_source']:.2f} packets sent for each source packet"


def _prediction_check(sender: str, rows: Rows) -> Check:
    """Over all lengths: what the failures took, against what the labels and the schedule say."""
    own = where(rows, sender=sender)
    total, uncoded = sum_of(own, "predicted"), sum_of(own, "uncoded")
    return (
        Claim(
            f"{sender}: source packets lost, all lengths together, over those that labels and schedule predict"
        )
        .equal(1.0, sum_of(own, "lost") / total, 0.01)
        .against(uncoded / total, "without a code")
        .noting(f"{total:.0f} predicted over {len(own)} lengths")
    )


def longest_without_loss(rows: Rows) -> float:
    """In source packets: the middle between the longest failure before which none lost a packet, and the next."""
    ordered = sorted(rows, key=lambda row: row["packets"])
    first = next((k for k, row in enumerate(ordered) if row["lost"] > 0), None)
    if first is None:
        return float(ordered[-1]["packets"])
    return (ordered[first - 1]["packets"] + ordered[first]["packets"]) / 2 if first else 0.0


def figures(rows: Rows) -> Figures:
    """What failures of one length cost, summed over the route's cables."""
    samples = {
        (row["sender"], 1000 * row["packets"] / RATE_PPS): (row["lost"] / row["packets"], 0.0)
        for row in rows
    }
    y = "lost or late, of the packets sent meanwhile, summed over cables"
    figure = draw_lines("Source packets lost or late", samples, x="length of a failure, ms", y=y)
    figure.axes[0].set_xscale("log")
    return {"static": figure}


STUDY = Study.of_module(
    __name__,
    title="RS(30,23) at a fixed rate over two paths, the baseline of the literature",
    answers="Gabrielyan 2007, section 4.1: "
    "static RS(30,23) over two paths has clear advantages over a single path [Nguyen03]; rival: it has none",
    deviations=(
        "Failures are cuts of one cable at a time; [Nguyen03] drew bursts of losses on the Internet.",
        "The single path is the network's shortest, as OSPF would choose.",
    ),
)
