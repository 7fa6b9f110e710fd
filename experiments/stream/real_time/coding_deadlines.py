"""Playback buffer against block length: which share of a stream is too late when a link dies, until the sender has
answered.

A shorter buffer, or a longer block, leaves less time for the parity that the sender adds once it has heard of the loss.
"""

from dataclasses import replace

from testbed.faults.fault import Fault
from testbed.model.studies.samples import grouped
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import panels
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

RATE_PPS = 500.0
FAIL_S, REPAIR_S = 2.0, 5.0
LINK = ("s1", "s2", 0)
REPORT_S = 0.05
"""From a loss to the report of it and the way of its answer, at most."""


def points(quick: bool, seed: int) -> Points:
    """M and playback buffers in seconds."""
    sizes = (5, 20, 80) if quick else (5, 10, 20, 40, 80)
    buffers = (0.1, 0.25, 0.6, 1.2) if quick else (0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.2)
    return grid(m=sizes, playback_s=buffers, seed=seed)


def measure(point: Row) -> Results:
    """One stream over Swiss-T1 in virtual time, its link s1->s2 (a quarter of the packets) down for three seconds."""
    failing: Results = {
        "faults": (Fault(link=LINK, start_s=FAIL_S, stop_s=REPAIR_S),),
        "duration_s": 8.0,
        "hold_s": 1.0,
    }
    sent: Results = {"rate_pps": RATE_PPS, "source_packets": point["m"], "seed": point["seed"]}
    plan = stream_plan("swiss-t1", "s1", "s6", **sent, **failing)
    # shorter buffers than a plan may have, too
    plan = replace(plan, stream=replace(plan.stream, playback_s=point["playback_s"]))
    session = run_and_judge(plan, SimulatedStreamFabric())
    (fault,) = session.analysis.faults
    return {
        "block_s": point["m"] / RATE_PPS,
        "loss": fault.measured_loss,
        "transient_blocks": fault.transient_blocks,
        "transient_late": fault.transient_late_packets,
        "steady_late": fault.late_packets,
        "undecodable": fault.undecodable_blocks,
        "reaction_s": fault.reaction_s,
        "carried": fault.predicted_loss * RATE_PPS * (REPAIR_S - FAIL_S),
        "block_size": fault.measured_block_size,
    }


def judge(rows: Rows) -> Verdict:
    """A buffer of two and a half blocks, and a report, loses nothing; one of less than two blocks loses: their parity
    comes too late."""
    checks = []
    for m, own in grouped(rows, "m").items():
        block_s, carried = own[0]["block_s"], own[0]["carried"]
        enough = [row for row in own if row["playback_s"] >= 2.5 * block_s + REPORT_S]
        short = [row for row in own if row["playback_s"] < 2 * block_s]
        least = min(row["playback_s"] for row in enough)
        checks.append(
            Claim(f"M = {m}: packets late or lost, buffers of two and a half blocks and a report or more, worst")
            .equal(0.0, max(map(_late, enough)))
            .against(carried, "all that the failed link carries")
            .noting(f"{len(enough)} buffers from {least:g} s; a block lasts {block_s:g} s")
        )
        if short:
            most = max(row["playback_s"] for row in short)
            checks.append(
                Claim(f"M = {m}: packets late or lost, buffers shorter than two blocks, least")
                .at_least(0.1 * carried, min(map(_late, short)))
                .against(0.0, "the buffer does not matter")
                .noting(f"{len(short)} buffers up to {most:g} s, {carried:.0f} packets on the failed link")
            )
    return Verdict.of(checks)


def _late(row: Row) -> float:
    return float(row["transient_late"] + row["steady_late"])


def figures(rows: Rows) -> Figures:
    """Late packets of the transient over the buffer, a line a block length; time to the answer next to it."""
    figure, (left, right) = panels(11, 4.6, columns=2)
    for (m, own), mark in zip(grouped(rows, "m").items(), "osD^v", strict=False):
        label = f"M = {m} ({1000 * own[0]['block_s']:.0f} ms a block)"
        at = [row["playback_s"] for row in own]
        left.plot(at, list(map(_late, own)), mark + "-", label=label)
        right.plot(at, [1000 * (row["reaction_s"] or 0) for row in own], mark + "-", label=label)
    left.set(title="A quarter of the packets lost for 3 s", ylabel="source packets late or lost")
    right.set(title="The sender's answer", ylabel="ms from failure to larger blocks")
    for axes in (left, right):
        axes.set_xlabel("playback buffer, s")
        axes.legend()
    return {"deadlines": figure}


STUDY = Study.of_module(
    __name__,
    title="Playback buffer against block length",
    answers="Gabrielyan 2007, section 4.3: "
    "a restricted playback buffer limits the block, and what a failure costs before the sender answers",
)
