"""Playback buffer against block length: which share of a stream is too late when a link dies, until the sender has answered.

A shorter buffer, or a longer block, leaves less time for the parity that the sender adds once it has heard of the loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.commands.studies.study import Study
from testbed.faults.fault import Fault
from testbed.model.verdict import Check, Verdict
from testbed.stream.plan import StreamParameters
from testbed.stream.session import SessionRequest, plan_session, run_session
from testbed.stream.simulated import SimulatedStreamFabric

Row = Mapping[str, Any]
RATE_PPS = 500.0
FAIL_S, MEND_S = 2.0, 5.0
LINK = ("s1", "s2", 0)


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """M and playback buffers in seconds."""
    sizes = (5, 20, 80) if quick else (5, 10, 20, 40, 80)
    buffers = (0.1, 0.25, 0.6, 1.2) if quick else (0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.2)
    return [{"m": m, "playback_s": playback, "seed": seed} for m in sizes for playback in buffers]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """One stream over Swiss-T1 in virtual time, its link s1->s2 (a quarter of the packets) down for three seconds."""
    stream = StreamParameters(rate_pps=RATE_PPS, source_packets=point["m"], playback_s=point["playback_s"], hold_s=1.0)
    request = SessionRequest(
        network="swiss-t1",
        source="s1",
        sink="s6",
        stream=stream,
        faults=(Fault(link=LINK, start_s=FAIL_S, stop_s=MEND_S),),
        duration_s=8.0,
        seed=point["seed"],
    )
    session = run_session(*plan_session(request), SimulatedStreamFabric())
    (fault,) = session.analysis.faults
    return {
        "block_s": point["m"] / RATE_PPS,
        "loss": fault.measured_loss,
        "transient_blocks": fault.transient_blocks,
        "transient_late": fault.transient_late_packets,
        "steady_late": fault.late_packets,
        "undecodable": fault.undecodable_blocks,
        "reaction_s": fault.reaction_s,
        "block_size": fault.measured_block_size,
        "base": session.analysis.policy.base if hasattr(session.analysis, "policy") else None,
    }


def judge(rows: Sequence[Row]) -> Verdict:
    """Once the sender has answered, nothing is late; before that, longer buffers lose no more than shorter ones."""
    checks = []
    for m in dict.fromkeys(row["m"] for row in rows):
        own = [row for row in rows if row["m"] == m]
        enough = [row for row in own if row["playback_s"] >= 2 * row["block_s"] + 0.05]
        checks.append(
            Check(
                name=f"M = {m}: packets late after the answer, buffers of two blocks and more",
                predicted=0.0,
                measured=float(sum(row["steady_late"] for row in enough)),
                tolerance=0.0,
                passed=all(row["steady_late"] == 0 for row in enough),
                detail=f"{len(enough)} of {len(own)} buffers are so long",
            )
        )
        late = [row["transient_late"] for row in own]
        checks.append(
            Check.at_most(
                f"M = {m}: packets late before the answer, the longest buffer against the shortest",
                float(late[0]),
                float(late[-1]),
                detail="no more",
            )
        )
    return Verdict(checks=tuple(checks))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Late packets of the transient over the buffer, a line a block length; time to the answer beside it."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    for m, mark in zip(dict.fromkeys(row["m"] for row in rows), "osD^v", strict=False):
        own = [row for row in rows if row["m"] == m]
        label = f"M = {m} ({1000 * own[0]['block_s']:.0f} ms a block)"
        left.plot(
            [r["playback_s"] for r in own],
            [r["transient_late"] + r["steady_late"] for r in own],
            mark + "-",
            label=label,
        )
        right.plot(
            [r["playback_s"] for r in own], [1000 * (r["reaction_s"] or 0) for r in own], mark + "-", label=label
        )
    left.set(
        xlabel="playback buffer, s", ylabel="source packets late or lost", title="A quarter of the packets lost for 3 s"
    )
    right.set(xlabel="playback buffer, s", ylabel="ms from failure to larger blocks", title="The sender's answer")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.tight_layout()
    return {"deadlines": figure}


STUDY = Study.of_module(
    __name__,
    name="coding_deadlines",
    does="late packets and the sender's reaction for several block lengths and playback buffers, in virtual time",
    answers="Gabrielyan 2007, section 4.3: a restricted playback buffer limits the block, and what a failure costs before the sender answers",
)
