"""Failures shorter and longer than the playback buffer, on a single path and on many: where each begins to lose
packets; in virtual time.

A packet sent at the beginning of a failure can be repaired on the same path only after its end. So no code and no
retransmission saves a single path once the failure lasts longer than the buffer, whatever is spent. Over many paths the
repair comes by another way.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from testbed.faults.fault import Fault
from testbed.model.studies.samples import grouped, mean_of
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import panels
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import PlanOptions, build_plan
from testbed.stream.simulated import SimulatedStreamFabric
from topologies import load_network

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
RATE_PPS, SHORT_BLOCK = 200.0, 10
SENDERS = {
    "single path, retransmission": "single",
    "single path, heavy code": "single",
    "two paths": "disjoint-2",
    "capillary": "capillary",
}
"""Name -> routing method. Retransmission: parity for what is reported lost, up to 240 packets a block of 10. Heavy
code: a block and its parity fill the buffer, and two parity packets are sent for each source packet. The other two: the
usual sender."""
REACTION_S = 2 * SHORT_BLOCK / RATE_PPS
"""Two blocks: the one that was being sent, and the one in which what is missing is heard of and sent again."""
OUTAGES, REST_S, PHASE_S = 5, 3.0, 0.013
"""Failures of a stream, the time between them, and how much later each begins within its block."""


def points(quick: bool, seed: int) -> Points:
    """Playback buffers, and failures as multiples of them, for every sender."""
    buffers = (0.4, 0.8) if quick else (0.2, 0.4, 0.8, 1.2)
    multiples = (0.5, 1.5, 3.0) if quick else (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    return [
        {"sender": sender, "playback_s": playback_s, "outage_s": round(multiple * playback_s, 3), "seed": seed}
        for sender, playback_s, multiple in product(SENDERS, buffers, multiples)
    ]


def stream_parameters(sender: str, playback_s: float) -> StreamParameters:
    """How each sender codes, for a buffer of that many seconds."""
    usual = StreamParameters(rate_pps=RATE_PPS, source_packets=SHORT_BLOCK, playback_s=playback_s)
    if sender == "single path, retransmission":
        return replace(usual, diagnosis=False, most_overhead=23.0)
    if sender == "single path, heavy code":
        m = round(RATE_PPS * playback_s / 2)
        return replace(usual, source_packets=m, block_size=min(255, 3 * m))
    return usual


def failing_plan(point: Row) -> StreamPlan:
    """The stream, the most loaded link of its route down for ``outage_s`` several times."""
    stream = stream_parameters(point["sender"], point["playback_s"])
    options = PlanOptions(method=SENDERS[point["sender"]], stream=stream, seed=point["seed"])
    plan, _ = build_plan(load_network(NETWORK), SOURCE, SINK, options)
    worst = max(plan.forward.loaded, key=lambda i: (plan.forward.load(i), -i))
    every_s = point["outage_s"] + point["playback_s"] + REST_S
    starts = [1.0 + k * (every_s + PHASE_S) for k in range(OUTAGES)]
    faults = tuple(Fault(link=plan.network.links[worst].id, start_s=at, stop_s=at + point["outage_s"]) for at in starts)
    return replace(plan, faults=faults, duration_s=starts[-1] + every_s)


def measure(point: Row) -> Results:
    """One stream: source packets lost or late for each failure, packets sent for each source packet, share of the
    failed link."""
    plan = failing_plan(point)
    run = SimulatedStreamFabric().run(plan)
    source = int((run.sent.symbol < plan.stream.source_packets).sum())
    return {
        "lost": float(run.blocks.late_source_packets.sum()) / OUTAGES,
        "sent_per_source": len(run.sent.symbol) / source,
        "load": float(plan.forward.load(plan.network.link_index[plan.faults[0].link])),
    }


def unavoidable(row: Row) -> float:
    """Source packets a failure takes from a single path, whatever is spent: those due before it ends."""
    return RATE_PPS * max(0.0, float(row["outage_s"] - row["playback_s"]))


def judge(rows: Rows) -> Verdict:
    """The single path's step is at the buffer; heavier codes do not move it; many paths have none."""
    checks = []
    table = {sender: where(rows, sender=sender) for sender in SENDERS}
    for playback_s, single in grouped(table["single path, retransmission"], "playback_s").items():
        longer = [row for row in single if row["outage_s"] > 1.2 * playback_s]
        survived = [row["outage_s"] - row["lost"] / RATE_PPS for row in longer]
        checks.append(
            Claim(f"buffer of {playback_s:g} s: longest failure without loss on a single path with retransmission, s")
            .equal(playback_s, float(np.mean(survived)), REACTION_S)
            .against(0.0, "every failure costs packets, as without a buffer")
            .noting(f"from what {len(longer)} longer failures lost; a block is {SHORT_BLOCK / RATE_PPS:g} s")
        )
        *_, short = (row for row in single if row["outage_s"] < playback_s - REACTION_S - 1e-9)
        checks.append(
            Claim(f"buffer of {playback_s:g} s: packets lost on it by a failure of {short['outage_s']:g} s")
            .equal(0.0, short["lost"], 1.0)
            .against(RATE_PPS * short["outage_s"], "all that are sent meanwhile")
        )
    heavy = [row for row in table["single path, heavy code"] if unavoidable(row)]
    sent = f"{mean_of(heavy, 'sent_per_source'):.1f} packets sent for each source packet"
    alone = max(row["lost"] for row in table["single path, retransmission"])
    checks += [
        Claim("single path, heavy code: packets lost over those that no code saves, least")
        .at_least(0.98, min(row["lost"] / unavoidable(row) for row in heavy))
        .against(0.0, "a code that outlasts the failure")
        .noting(f"{len(heavy)} failures longer than the buffer; {sent}"),
        *(
            Claim(f"{sender}: packets lost by a failure, worst of all lengths and buffers")
            .equal(0.0, max(row["lost"] for row in table[sender]), 1.0)
            .against(alone, "the single path's")
            .noting(f"{len(table[sender])} points, failures of up to {max(r['outage_s'] for r in table[sender]):g} s")
            for sender in ("two paths", "capillary")
        ),
    ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Packets lost for each failure over its length in buffers, a panel a buffer; the bound of any single path next to
    it."""
    buffers = list(dict.fromkeys(row["playback_s"] for row in rows))
    figure, every = panels(4.2 * len(buffers), 4.4, columns=len(buffers))
    for axes, playback_s in zip(every, buffers, strict=True):
        for sender, mark in zip(SENDERS, "osD^", strict=True):
            own = where(rows, sender=sender, playback_s=playback_s)
            at = [row["outage_s"] / playback_s for row in own]
            axes.plot(at, [row["lost"] for row in own], f"{mark}-", fillstyle="none", label=sender)
        at_least = np.linspace(0, max(row["outage_s"] for row in where(rows, playback_s=playback_s)), 200)
        bound = RATE_PPS * np.maximum(0.0, at_least - playback_s)
        axes.plot(at_least / playback_s, bound, "k--", label="any code on a single path")
        axes.axvline(1.0, color="0.7", linestyle=":")
        axes.set(xlabel="failure, playback buffers", title=f"buffer of {playback_s:g} s")
    every[0].set_ylabel("source packets late or lost for each failure")
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return {"step": figure}


STUDY = Study.of_module(
    __name__,
    title="Failures longer than the playback buffer, on a single path and on many",
    answers="Gabrielyan 2007, sections 4.1 and 4.5: "
    "FEC cannot protect a single path against failures longer than the buffer; with many paths it can",
    deviations=(
        "The document states the claim and has no figure of it.",
        "Failures of one link at a time, over Swiss-T1 from s1 to s6, 200 packets a second.",
    ),
)
