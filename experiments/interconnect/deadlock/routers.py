"""Does NAC free real packets? Software routers with credits, one process each, that exchange Ethernet frames (Zarza
2011, chapter 4).

A ring under tornado traffic, and the two failed links of Figure 4.2: without avoidance, with NAC, and (ring) with
bubble flow control, each until all has arrived or nothing has moved for a second.
"""

from itertools import product

import numpy as np

from experiments.interconnect.samples import at_least, at_most
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
    sum_of,
    where,
)
from testbed.report.drawing.charts import Figure, draw_lines
from testbed.routers.measurements import RouterRun, find_cycle
from testbed.routers.plan import RouterPlan, dependency_cycles, ring_plan, two_failures_plan

RING, FAILURES = "ring of 8", "two failed links"
ROUTERS, HOPS = 8, 3
MESSAGES = {RING: 150, FAILURES: 300}
"""Of each source: 1200 altogether on either network."""
SLOTS = (1, 2, 4)
SHOWN_S = 0.02


def points(quick: bool, seed: int) -> Points:
    """Both networks by avoidance, number of slots and seed (quick: two slots, one seed)."""
    runs = product(range(1 if quick else 3), (2,) if quick else SLOTS, _CASES)
    return [
        {"network": name, "avoidance": how, "slots": slots, "seed": seed + k}
        for k, slots, (name, how) in runs
    ]


_CASES = ((RING, "none"), (RING, "nac"), (RING, "bubble"), (FAILURES, "none"), (FAILURES, "nac"))


def plan_of(point: Row) -> RouterPlan:
    """The plan that a point stands for."""
    common = {name: point[name] for name in ("avoidance", "slots", "seed")}
    if point["network"] == FAILURES:
        return two_failures_plan(messages=MESSAGES[FAILURES], **common)
    return ring_plan(ROUTERS, HOPS, messages=MESSAGES[RING], **common)


def measure(point: Row) -> Results:
    """One run on processes and cables of its own."""
    from testbed.routers.emulated.processes import run_routers

    plan = plan_of(point)
    return row_of(plan, run_routers(plan))


def row_of(plan: RouterPlan, run: RouterRun) -> Results:
    """What is kept of a run."""
    hops = {(flow.source, flow.destination): len(flow.path) - 1 for flow in plan.flows}
    log = run.log
    slots = np.arange(0.0, run.seconds + SHOWN_S, SHOWN_S)
    return {
        "made": run.made,
        "received": run.delivered,
        "held": run.in_use,
        "wrong_hops": sum(hops[source, sink] != crossed for source, sink, _, crossed, _, _ in log),
        "twice": len(log) - len({arrival[:3] for arrival in log}),
        "seconds": run.seconds,
        "stuck_for_s": run.stuck_for_s,
        "deadlock_cycle": [list(each) for each in find_cycle(plan, run.snapshots)],
        "latency_s": float(np.mean([arrival[4] for arrival in log])) if log else 0.0,
        "nac": run.nac,
        "received_by": np.searchsorted(sorted(arrival[5] for arrival in log), slots).tolist(),
        "frames_dropped": sum(report.frames_dropped for report in run.reports),
    }


def judge(rows: Rows) -> Verdict:
    """Without avoidance a cycle of full buffers in which nothing moves; with NAC everything arrives, as fast as with
    bubbles."""
    checks: list[Check] = []
    for network, length in ((RING, ROUTERS), (FAILURES, 8)):
        bare, nac = (
            where(rows, network=network, avoidance=avoidance) for avoidance in ("none", "nac")
        )
        left = sum(row["made"] - row["received"] for row in bare)
        checks += [
            Claim(f"{network}: runs without avoidance in which nothing moves any more for a second")
            .equal(len(bare), sum(row["stuck_for_s"] >= 1.0 and row["held"] > 0 for row in bare))
            .against(0.0, "none, as with NAC")
            .noting(f"{sum_of(bare, 'held')} packets in full buffers of {len(bare)} runs"),
            Claim(
                f"{network}: full inputs that wait for each other in a cycle then, the shortest of all runs"
            )
            .equal(length, min(len(row["deadlock_cycle"]) for row in bare))
            .cites("full buffers of the communication cycle (4.1)" if network == FAILURES else None)
            .against(0.0, "no cycle: they only wait"),
            Claim(f"{network}: messages undelivered with NAC")
            .equal(0.0, sum(row["made"] - row["received"] for row in nac))
            .against(left, "as without")
            .noting(f"{sum_of(nac, 'made')} messages in {len(nac)} runs"),
            at_least(
                f"{network}: packets that NAC put aside, the mean run", 1.0, list(map(_moves, nac))
            ).against(0.0, "it would not have deadlocked"),
        ]
    checks += [_compare_with_bubble(rows), _cycles_need_both(), _retained(rows)]
    dropped = sum_of(rows, "frames_dropped")
    invalid = (
        f"{dropped} frames found a socket full: the machine could not keep up" if dropped else None
    )
    return Verdict(checks=tuple(checks), invalid=invalid)


def _compare_with_bubble(rows: Rows) -> Check:
    """How long NAC takes for all messages over how long bubble flow control takes, seed by seed."""
    nac, bubble = (
        where(rows, network=RING, avoidance=avoidance) for avoidance in ("nac", "bubble")
    )
    ratio = [
        a["seconds"] / b["seconds"] for a, b in zip(nac, bubble, strict=True) if a["slots"] > 1
    ]
    check = at_most(
        "ring of 8: time until all have arrived, NAC over bubble flow control", 1.25, ratio
    )
    check = check.against(2.0, "twice as slow, as if cycles were treated one packet after another")
    return check.noting(f"{len(ratio)} runs of 2 slots or more")


def _cycles_need_both() -> Check:
    """Cycles of channels that may wait for each other with one of the failures, or none: none, so both are needed."""
    fewer = [two_failures_plan(messages=1, dead=dead) for dead in ((), (1,), (2,))]
    found = sum(len(dependency_cycles(flow.path for flow in plan.flows)) for plan in fewer)
    both = len(dependency_cycles(flow.path for flow in two_failures_plan(messages=1).flows))
    return (
        Claim(
            "two failed links: cycles of channels with neither or only one of them failed (computed)"
        )
        .equal(0.0, found)
        .cites("cyclic dependency by two link failures (4.1, Figure 4.2)")
        .against(both, "as with both")
    )


def _retained(rows: Rows) -> Check:
    """Messages that arrived twice, or over another number of cables; changed payloads end a run."""
    wrong, why = (
        sum_of(rows, "wrong_hops") + sum_of(rows, "twice"),
        "none: each is counted, and carries a check sum",
    )
    check = Claim("messages that arrived twice or by another way than theirs").count(
        0.0, wrong, why
    )
    return check.noting(f"{sum_of(rows, 'received')} messages received")


def _moves(row: Row) -> float:
    return float(row["nac"].get("moves", 0) + row["nac"].get("recovery moves", 0))


def figures(rows: Rows) -> Figures:
    """Messages received over time, two slots, the first seed, by avoidance."""
    first = min(row["seed"] for row in rows)
    return {
        name: _draw(network, where(rows, network=network, seed=first, slots=2))
        for name, network in (("ring", RING), ("4.2", FAILURES))
    }


_DRAWN = {"none": "no avoidance", "nac": "NAC", "bubble": "bubble flow control"}


def _draw(network: str, rows: Rows) -> Figure:
    title, y = f"{network}: real packets between software routers", "messages received"
    samples = {
        (f"{_DRAWN[row['avoidance']]}: {row['received']} of {row['made']}", SHOWN_S * k): (
            count,
            0.0,
        )
        for row in rows
        for k, count in enumerate(row["received_by"])
    }
    return draw_lines(title, samples, x="time (s)", y=y)


STUDY = Study.of_module(
    __name__,
    name="interconnect_routers",
    title="NAC with real packets: software routers with credits that deadlock, and that NAC frees",
    deviations=(
        "The document simulates; here a router is a process in a namespace, packets are Ethernet frames over veth.",
        "A packet occupies a link for 2 ms of the sender's clock, then crosses it; control packets take their time.",
        "Figure 4.2 has one source a pair, here two: fair arbitration keeps one alone from filling the cycle.",
        "Detours of Figure 4.2 are fixed paths; the recovery signal follows the cycle first identified.",
    ),
    answers="Zarza 2011, chapter 4 and Figures 4.1, 4.2: the deadlock of two failed links, and NAC, on real packets",
    emulation=True,
)
