"""Measures whether NAC frees real packets of software routers (Zarza 2011, chapter 4).

The routers have credits, are one process each, and exchange Ethernet frames. The networks are a
ring under tornado traffic and the two failed links of Figure 4.2. They run without avoidance, with
NAC, and (ring) with bubble flow control. A run ends when all messages have arrived or nothing has
moved for a second.
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

RING = "ring of 8"
FAILURES = "two failed links"

# Routers of the ring, and the distance over which each host sends.
ROUTERS = 8
HOPS = 3

# Messages of each source: 1200 altogether on either network.
MESSAGES = {RING: 150, FAILURES: 300}

# The number of full inputs in the cycle of a deadlock.
CYCLE_LENGTHS = {RING: ROUTERS, FAILURES: 8}

# Slots of a buffer.
SLOTS = (1, 2, 4)

# Time between two points of a figure.
SHOWN_S = 0.02

# Networks, and how deadlock is avoided.
CASES = ((RING, "none"), (RING, "nac"), (RING, "bubble"), (FAILURES, "none"), (FAILURES, "nac"))

AVOIDANCE_NAMES = {"none": "no avoidance", "nac": "NAC", "bubble": "bubble flow control"}


def points(quick: bool, seed: int) -> Points:
    """Return the points: each network, avoidance, number of slots and seed."""
    seed_count = 1 if quick else 3
    all_slots = (2,) if quick else SLOTS
    result = []
    for run_seed, slots in product(range(seed, seed + seed_count), all_slots):
        for network, avoidance in CASES:
            point = {"network": network, "avoidance": avoidance, "slots": slots, "seed": run_seed}
            result.append(point)
    return result


def plan_of(point: Row) -> RouterPlan:
    """Return the plan of a point."""
    settings = {name: point[name] for name in ("avoidance", "slots", "seed")}
    if point["network"] == FAILURES:
        return two_failures_plan(messages=MESSAGES[FAILURES], **settings)
    return ring_plan(ROUTERS, HOPS, messages=MESSAGES[RING], **settings)


def measure(point: Row) -> Results:
    """Run the routers of a point as processes with virtual cables."""
    # Only a measurement needs the emulation, which runs processes in namespaces.
    from testbed.routers.emulated.processes import run_routers

    plan = plan_of(point)
    return row_of(plan, run_routers(plan))


def row_of(plan: RouterPlan, run: RouterRun) -> Results:
    """Return the results of a run that are stored."""
    expected_hops = {}
    for flow in plan.flows:
        expected_hops[flow.source, flow.destination] = len(flow.path) - 1
    wrong_hops = 0
    latencies_s = []
    arrivals_s = []
    messages = set()
    for source, sink, number, hops, latency_s, arrival_s in run.log:
        if hops != expected_hops[source, sink]:
            wrong_hops += 1
        latencies_s.append(latency_s)
        arrivals_s.append(arrival_s)
        messages.add((source, sink, number))
    shown_s = np.arange(0.0, run.seconds + SHOWN_S, SHOWN_S)
    return {
        "made": run.made,
        "received": run.delivered,
        "held": run.in_use,
        "wrong_hops": wrong_hops,
        "twice": len(run.log) - len(messages),
        "seconds": run.seconds,
        "stuck_for_s": run.stuck_for_s,
        "deadlock_cycle": [list(channel) for channel in find_cycle(plan, run.snapshots)],
        "latency_s": float(np.mean(latencies_s)) if latencies_s else 0.0,
        "nac": run.nac,
        "received_by": np.searchsorted(sorted(arrivals_s), shown_s).tolist(),
        "frames_dropped": sum(report.frames_dropped for report in run.reports),
    }


def judge(rows: Rows) -> Verdict:
    """Check that the routers deadlock without avoidance, and that NAC frees them.

    With NAC all messages should arrive, nearly as fast as with bubble flow control. The run is
    invalid if the machine could not keep up.
    """
    checks: list[Check] = []
    for network in (RING, FAILURES):
        checks += _deadlock_checks(where(rows, network=network, avoidance="none"), network)
        checks += _nac_checks(rows, network)
    checks += [_bubble_check(rows), _both_failures_check(), _integrity_check(rows)]
    dropped = sum_of(rows, "frames_dropped")
    invalid = None
    if dropped:
        invalid = f"{dropped} frames found a socket full: the machine could not keep up"
    return Verdict(checks=tuple(checks), invalid=invalid)


def _deadlock_checks(runs: Rows, network: str) -> list[Check]:
    """Check that runs without avoidance end with a cycle of full buffers."""
    stuck = 0
    for row in runs:
        if row["stuck_for_s"] >= 1.0 and row["held"] > 0:
            stuck += 1
    name = f"{network}: runs without avoidance in which nothing moves any more for a second"
    stuck_check = Claim(name).equal(len(runs), stuck).against(0.0, "none, as with NAC")
    stuck_check = stuck_check.noting(
        f"{sum_of(runs, 'held')} packets in full buffers of {len(runs)} runs"
    )

    shortest = min(len(row["deadlock_cycle"]) for row in runs)
    name = (
        f"{network}: full inputs that wait for each other in a cycle then, the shortest of all runs"
    )
    cycle_check = Claim(name).equal(CYCLE_LENGTHS[network], shortest)
    if network == FAILURES:
        cycle_check = cycle_check.cites("full buffers of the communication cycle (4.1)")
    return [stuck_check, cycle_check.against(0.0, "no cycle: they only wait")]


def _nac_checks(rows: Rows, network: str) -> list[Check]:
    """Check that NAC delivers all messages, and puts packets aside for that."""
    runs = where(rows, network=network, avoidance="nac")
    bare = where(rows, network=network, avoidance="none")
    check = Claim(f"{network}: messages undelivered with NAC").equal(0.0, _undelivered(runs))
    check = check.against(_undelivered(bare), "as without")
    moves_check = at_least(
        f"{network}: packets that NAC put aside, the mean run",
        1.0,
        [_moves(row) for row in runs],
    )
    return [
        check.noting(f"{sum_of(runs, 'made')} messages in {len(runs)} runs"),
        moves_check.against(0.0, "it would not have deadlocked"),
    ]


def _undelivered(rows: Rows) -> int:
    return sum(row["made"] - row["received"] for row in rows)


def _moves(row: Row) -> float:
    """Return the number of packets that NAC moved to avoidance buffers in a run."""
    return float(row["nac"].get("moves", 0) + row["nac"].get("recovery moves", 0))


def _bubble_check(rows: Rows) -> Check:
    """Check the time that NAC takes for all messages over that of bubble flow control."""
    nac_runs = where(rows, network=RING, avoidance="nac")
    bubble_runs = where(rows, network=RING, avoidance="bubble")
    ratios = []
    for nac, bubble in zip(nac_runs, bubble_runs, strict=True):
        # The check is about buffers of two slots or more.
        if nac["slots"] > 1:
            ratios.append(nac["seconds"] / bubble["seconds"])
    check = at_most(
        "ring of 8: time until all have arrived, NAC over bubble flow control", 1.25, ratios
    )
    check = check.against(2.0, "twice as slow, as if cycles were treated one packet after another")
    return check.noting(f"{len(ratios)} runs of 2 slots or more")


def _both_failures_check() -> Check:
    """Check that channels may wait for each other in a cycle only if both links fail."""
    fewer = 0
    for dead in ((), (1,), (2,)):
        fewer += _cycle_count(two_failures_plan(messages=1, dead=dead))
    both = _cycle_count(two_failures_plan(messages=1))
    name = "two failed links: cycles of channels with neither or only one of them failed (computed)"
    check = Claim(name).equal(0.0, fewer)
    check = check.cites("cyclic dependency by two link failures (4.1, Figure 4.2)")
    return check.against(both, "as with both")


def _cycle_count(plan: RouterPlan) -> int:
    return len(dependency_cycles(flow.path for flow in plan.flows))


def _integrity_check(rows: Rows) -> Check:
    """Check that no message arrived twice or over another number of cables than planned.

    A changed payload would have ended the run.
    """
    wrong = sum_of(rows, "wrong_hops") + sum_of(rows, "twice")
    check = Claim("messages that arrived twice or by another way than theirs").count(
        0.0, wrong, "none: each is counted, and carries a check sum"
    )
    return check.noting(f"{sum_of(rows, 'received')} messages received")


def figures(rows: Rows) -> Figures:
    """Draw received messages over time by avoidance, for two slots and the first seed."""
    first = min(row["seed"] for row in rows)
    shown = where(rows, seed=first, slots=2)
    return {
        "ring": _draw(where(shown, network=RING), RING),
        "4.2": _draw(where(shown, network=FAILURES), FAILURES),
    }


def _draw(rows: Rows, network: str) -> Figure:
    samples = {}
    for row in rows:
        line = f"{AVOIDANCE_NAMES[row['avoidance']]}: {row['received']} of {row['made']}"
        for index, count in enumerate(row["received_by"]):
            # A count has no confidence interval.
            samples[line, SHOWN_S * index] = (count, 0.0)
    return draw_lines(
        f"{network}: real packets between software routers",
        samples,
        x="time (s)",
        y="messages received",
    )


STUDY = Study.of_module(
    __name__,
    name="interconnect_routers",
    title="NAC with real packets: software routers with credits deadlock, and NAC frees them",
    deviations=(
        "The document simulates. Here a router is a process in a namespace, and packets are "
        "Ethernet frames over veth.",
        "A packet occupies a link for 2 ms of the sender's clock, and then crosses it. Control "
        "packets take the time that the machine needs.",
        "Figure 4.2 has one source per pair, and this study has two. One source could not fill "
        "the cycle, because arbitration is fair.",
        "Detours of Figure 4.2 are fixed paths. The recovery signal follows the cycle that was "
        "identified first.",
    ),
    answers="Zarza 2011, chapter 4 and Figures 4.1 and 4.2: the deadlock of two failed links, and "
    "NAC, with real packets",
    emulation=True,
)
