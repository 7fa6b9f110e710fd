"""Part of the study of rings under tornado traffic: how long NAC takes to find a cycle.

It compares rings of different sizes, buffers, slack, virtual channels and loads with equations 4.8
and 4.9 and sections 4.3 and 6.2 of Zarza 2011. The rings have bursts in phase and Poisson traffic.
An 8x8 torus has failed links under FT-DRB.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.interconnect.runs import parameters_of
from experiments.interconnect.samples import at_least, mean
from experiments.interconnect.study_points import (
    LINK_BPS,
    Run,
    faults_of,
    network_of,
    traffic_of,
)
from testbed.arrays import BoolArray, FloatArray
from testbed.interconnect.options import NacOptions
from testbed.interconnect.results import NAC_EVENTS, SimulationResult
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections, build_pattern, burst_at
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, sum_of, where
from testbed.report.drawing.charts import Figure, draw_lines

PACKET_BYTES = 2048

# t_f of the document: the time of a control packet on a hop.
CONTROL_S = NacOptions().control_s

# Packets of PACKET_BYTES that a link carries per second.
LINK_PACKETS_PER_S = LINK_BPS / (8 * PACKET_BYTES)

# Numbers of routers of the rings, slots of a buffer, and values of ``NacOptions.slack``.
RINGS = (8, 12, 16, 24, 32)
SLOTS = (1, 2, 4, 8)
SLACKS = (0, 1, 2)

# Loads of a ring of 8, as fractions of a link per node. Under tornado traffic it carries a third.
LOADS = (0.2, 0.25, 0.3)
# Simulated time of a run on a ring.
RUN_S = 0.01

# Loads of the torus, its numbers of failed links, and the simulated time.
TORUS_LOADS = (0.2, 0.3, 0.4)
FAILED = (0, 4, 8, 12)
TORUS_S = 0.002

# Rings of the worst case. On rings of 24 and more the cycle dissolves before it is identified.
WORST_RINGS = (8, 12, 16)

# In the worst case each host sends this number of messages half-way round a ring of one-slot
# buffers. Successive hosts begin APART_TF control times (t_f) after each other, so that one router
# closes the cycle.
WORST_MESSAGES = 3
APART_TF = 13

# Retry time in the worst case. It is so long that all other routers identify the cycle before a
# router repeats its identification.
WORST_RETRY_S = 5e-3


def points(quick: bool, seed: int) -> Points:
    """Return the points.

    Parts "burst" and "worst" have bursts on rings. Part "ring" has Poisson traffic on a ring of 8,
    with NAC, without it, and with two virtual channels. Part "torus" has failures on a torus.
    """
    base: Results = {
        "slots": 2,
        "slack": 0,
        "deadlock": "nac",
        "load": 0.0,
        "faults": 0,
        "seed": seed,
    }
    result: Points = []
    for routers in RINGS:
        for slots in SLOTS:
            burst = {"part": "burst", "network": f"ring:{routers}", "slots": slots}
            result.append({**base, **burst})
    for routers in WORST_RINGS:
        for anew in (False, True):
            worst = {"part": "worst", "slots": 1, "network": f"ring:{routers}", "anew": anew}
            result.append({**base, **worst})
    seed_count = 2 if quick else 10
    loads = LOADS[-1:] if quick else LOADS
    for run_seed in range(seed, seed + seed_count):
        seeded = {**base, "seed": run_seed}
        result += _ring_points(seeded, loads)
        result += _torus_points(seeded)
    return result


def _ring_points(base: Row, loads: Sequence[float]) -> Points:
    """Return the points of a ring of 8 under Poisson traffic."""
    ring = {**base, "part": "ring", "network": "ring:8"}
    result: Points = [{**ring, "load": max(LOADS), "anew": True}]
    for load in loads:
        for slots in SLOTS:
            loaded = {**ring, "load": load, "slots": slots}
            for deadlock in ("none", "virtual-channels"):
                result.append({**loaded, "deadlock": deadlock})
            for slack in SLACKS:
                result.append({**loaded, "slack": slack})
    return result


def _torus_points(base: Row) -> Points:
    """Return the points of a torus with failed links."""
    torus = {**base, "part": "torus", "network": "torus:8x8"}
    result: Points = []
    for load in TORUS_LOADS:
        for faults in FAILED:
            for deadlock in ("none", "nac"):
                result.append({**torus, "load": load, "faults": faults, "deadlock": deadlock})
    return result


def measure(point: Row) -> Results:
    """Simulate one run.

    Returns:
        Whether and when it deadlocked, NAC's counters, and the times of identification and moves
        in t_f.
    """
    is_worst = point["part"] == "worst"
    run = _run_of(point)
    nac = NacOptions(
        slack=point["slack"],
        identify_anew=point.get("anew", False),
        retry_s=WORST_RETRY_S if is_worst else None,
    )
    parameters = replace(parameters_of(run), nac=nac, drain_s=0.1)
    network = network_of(run.network)
    messages = _messages(point, run, len(network.hosts))
    result = simulate(network, messages, parameters, faults_of(run))
    return {
        "sent": result.sent,
        "received": result.received,
        "deadlocked": result.deadlocked,
        "deadlock_s": result.deadlocked_at_s,
        "nac": {name: int(count) for name, count in result.nac_counters.items()},
        **_identification(result),
        "moves_tf": _moves(result) if is_worst else None,
    }


def _run_of(point: Row) -> Run:
    """Return the run of a point."""
    settings: Results = {
        **point,
        "bytes": PACKET_BYTES,
        "buffer_bytes": PACKET_BYTES * point["slots"],
        "rate": point["load"] * LINK_PACKETS_PER_S,
        "fault_kind": "start" if point["faults"] else "none",
    }
    if point["part"] == "torus":
        settings |= {"pattern": "uniform", "routing": "ft-drb", "seconds": TORUS_S}
    else:
        settings |= {"pattern": "tornado", "routing": "dor", "seconds": RUN_S}
    return Run.of(settings)


def _messages(point: Row, run: Run, nodes: int) -> Injections:
    """Return the messages of a run."""
    if point["part"] == "burst":
        messages = 2 * point["slots"] + 2
        return burst_at(build_pattern("tornado", nodes), time_s=0.0, messages=messages)
    if point["part"] == "worst":
        return _one_after_the_other(nodes)
    return traffic_of(run)


def _one_after_the_other(nodes: int) -> Injections:
    """Return messages half-way round a ring. Hosts begin one after the other (``APART_TF``)."""
    source = np.repeat(np.arange(nodes, dtype=np.int32), WORST_MESSAGES)
    time_ps = np.rint(source * APART_TF * CONTROL_S * 1e12).astype(np.int64)
    destination = ((source + nodes // 2) % nodes).astype(np.int32)
    return Injections(time_ps=time_ps, source=source, destination=destination)


def _event_times_tf(result: SimulationResult) -> FloatArray:
    """Return the time of each event of NAC, in t_f."""
    times_tf: FloatArray = result.nac_timeline[:, 0] / (result.ticks_per_s * CONTROL_S)
    return times_tf


def _is_event(result: SimulationResult, name: str) -> BoolArray:
    """Return a mask of the events of NAC with this name."""
    mask: BoolArray = result.nac_timeline[:, 1] == NAC_EVENTS.index(name)
    return mask


def _moves(result: SimulationResult) -> list[float]:
    """Return when each router moved a packet, in t_f after the input that closes the cycle blocked.

    The router that closed the cycle is the first.
    """
    times_tf = _event_times_tf(result)
    first_tf = times_tf[_is_event(result, "moved")][0]
    blocked_before = _is_event(result, "blocked") & (times_tf <= first_tf)
    blocked_tf = times_tf[blocked_before].max()
    nodes = int(result.destination.max()) + 1
    recovery_tf = times_tf[_is_event(result, "recovery-moved")][: nodes - 1]
    return [float(time_tf - blocked_tf) for time_tf in (first_tf, *recovery_tf)]


def _identification(result: SimulationResult) -> Results:
    """Return the times of identification, in t_f, or None if no cycle was identified.

    Returns:
        ``first_tf``: time from the moment when the last input blocked until the first cycle was
        identified. ``waits_tf``: the median and the longest time for which inputs had been blocked
        when they identified a cycle.
    """
    ticks = result.nac_timeline[:, 0]
    blocked = _is_event(result, "blocked")
    identified = _is_event(result, "identified")
    if not identified.any():
        return {"first_tf": None, "waits_tf": None}
    ticks_per_tf = result.ticks_per_s * CONTROL_S
    first_tick = ticks[identified][0]
    blocked_tick = ticks[blocked & (ticks <= first_tick)].max()
    waits_tf = _waits_tf(result)
    return {
        "first_tf": float((first_tick - blocked_tick) / ticks_per_tf),
        "waits_tf": [float(np.median(waits_tf)), float(np.max(waits_tf))] if waits_tf else None,
    }


def _waits_tf(result: SimulationResult) -> list[float]:
    """Return, for each identification, how long its input had been blocked, in t_f."""
    ticks_per_tf = result.ticks_per_s * CONTROL_S
    blocked = NAC_EVENTS.index("blocked")
    identified = NAC_EVENTS.index("identified")
    blocked_since: dict[int, int] = {}
    waits_tf = []
    for event in result.nac_timeline:
        tick = event[0]
        kind = event[1]
        link = event[3]
        if kind == blocked:
            blocked_since[link] = tick
        elif kind == identified and link in blocked_since:
            waits_tf.append((tick - blocked_since[link]) / ticks_per_tf)
    return waits_tf


def times_checks(rows: Rows) -> list[Check]:
    """Return all checks of this part.

    Identification should take n t_f. Deeper buffers, slack and virtual channels should help as in
    section 4.3, and failures should cause deadlocks.
    """
    checks = []
    for routers in RINGS:
        checks.append(_burst_check(rows, routers))
    for routers in WORST_RINGS:
        checks += _worst_checks(rows, routers)
    checks.append(_random_traffic_check(where(rows, part="ring")))
    checks += _improvement_checks(rows)
    checks += [_failures_check(rows), _delivery_check(rows)]
    return checks


def _burst_check(rows: Rows, routers: int) -> Check:
    """Check the longest time to identify the cycle after a burst, over all sizes of buffers.

    An input may block long before the cycle closes. The time begins with the last one that blocks.
    """
    runs = where(rows, network=f"ring:{routers}", part="burst")
    times_tf = [row["first_tf"] for row in runs if row["first_tf"] is not None]
    name = f"ring of {routers}, burst: time to identify the cycle, the longest of all buffers (t_f)"
    check = Claim(name).equal(routers, max(times_tf, default=0.0), 1.0)
    check = check.cites("n t_f a run round the cycle (equation 4.8)")
    check = check.against(routers * routers, "the worst case of equation 4.9")
    return check.noting(f"{len(times_tf)} of {len(runs)} buffers blocked at all")


def _worst_checks(rows: Rows, routers: int) -> list[Check]:
    """Check the worst case against equations 4.8 and 4.9.

    Equation 4.8 applies if the signal follows the recorded cycle. Equation 4.9 applies if each
    router identifies the cycle anew, one after the other.
    """
    runs = where(rows, part="worst", network=f"ring:{routers}")
    recorded_tf = _last_move_tf(runs, routers, anew=False)
    anew_tf = _last_move_tf(runs, routers, anew=True)
    signals = routers - 1
    equation_4_8_tf = 2.0 * routers
    equation_4_9_tf = routers * routers

    name = (
        f"ring of {routers}, one router closes the cycle, recorded: "
        "from then until the last router has moved (t_f)"
    )
    recorded = Claim(name).equal(equation_4_8_tf, recorded_tf, 1.0)
    recorded = recorded.cites("2 n t_f (equation 4.8)")
    recorded = recorded.against(equation_4_9_tf, "the worst case of equation 4.9")

    every_router = f"ring of {routers}, every router identifies it anew:"
    name = f"{every_router} identification, the signals' {signals} hops left out (t_f)"
    identification = Claim(name).equal(equation_4_9_tf, anew_tf - signals, 1.0)
    identification = identification.cites("n times n t_f (equation 4.9)")
    identification = identification.against(equation_4_8_tf, "equation 4.8")

    name = f"{every_router} until the last router has moved, over equation 4.9"
    bound = Claim(name).at_most(1.0, anew_tf / equation_4_9_tf)
    bound = bound.cites("the upper bound (equation 4.9)")
    bound = bound.against(
        1.0 + signals / equation_4_9_tf, "with one t_f more for each of the n - 1 signals"
    )
    return [recorded, identification, bound]


def _last_move_tf(runs: Rows, routers: int, *, anew: bool) -> float:
    """Return when the last router moved a packet, or NaN if not all routers moved one."""
    for row in runs:
        if bool(row["anew"]) == anew and len(row["moves_tf"]) == routers:
            return float(row["moves_tf"][-1])
    return math.nan


def _random_traffic_check(runs: Rows) -> Check:
    """Check the longest time to identify the first cycle under random traffic."""
    times_tf = [row["first_tf"] for row in runs if row["first_tf"] is not None]
    longest_wait_tf = max(row["waits_tf"][1] for row in runs if row["waits_tf"])
    with_identification_anew = sum(bool(row.get("anew")) for row in runs)
    name = (
        "ring of 8, random traffic: from the input that closes the first cycle "
        "until it is identified, the longest of all runs (t_f)"
    )
    check = Claim(name).at_most(64.0, max(times_tf, default=math.nan))
    check = check.cites("the upper bound (equation 4.9)")
    check = check.against(
        longest_wait_tf,
        "as long as an input is blocked at worst, the wait for the cycle to close included",
    )
    return check.noting(
        f"{len(times_tf)} runs, {with_identification_anew} of them with identification anew"
    )


def _improvement_checks(rows: Rows) -> list[Check]:
    """Check the proposals of section 4.3, on the ring at the highest load."""
    at_highest_load = where(rows, part="ring", load=max(LOADS))
    at_highest_load = [row for row in at_highest_load if not row.get("anew")]
    with_nac = where(at_highest_load, deadlock="nac")
    deepest = max(SLOTS)
    deep_blocked = _events_per_packet(where(with_nac, slots=deepest, slack=0), "blocked")
    shallow_blocked = _events_per_packet(where(with_nac, slots=1, slack=0), "blocked")
    buffers = Claim(f"blocked inputs a packet, {deepest} slots over one").at_most(
        0.9, deep_blocked / shallow_blocked
    )
    buffers = buffers.cites("deeper buffers reduce deadlock-prone situations (4.3)")

    slack_identified = _events_per_packet(where(with_nac, slots=2, slack=2), "identified")
    identified = _events_per_packet(where(with_nac, slots=2, slack=0), "identified")
    slack = Claim("cycles identified a packet, two slots of slack over none").at_most(
        0.9, slack_identified / identified
    )
    slack = slack.cites("reduces the number of identifications (4.3)")

    one_channel = where(at_highest_load, deadlock="none")
    two_channels = where(at_highest_load, deadlock="virtual-channels")
    channels = Claim("runs that deadlock with two virtual channels (dateline)").equal(
        0.0, sum_of(two_channels, "deadlocked")
    )
    channels = channels.against(
        sum_of(one_channel, "deadlocked"), "as with one channel and without NAC"
    )
    return [
        buffers.against(1.0, "deeper buffers change nothing"),
        slack.against(1.0, "the variant of condition 4.1 changes nothing"),
        channels.noting(f"{len(two_channels)} runs"),
    ]


def _events_per_packet(rows: Rows, counter: str) -> float:
    """Return the mean over runs of a counter of NAC per received packet."""
    return mean([row["nac"][counter] / row["received"] for row in rows])


def _failures_check(rows: Rows) -> Check:
    """Check that failures make deadlocks more frequent."""
    load = TORUS_LOADS[-1]
    runs = where(rows, part="torus", deadlock="none", load=load)
    without_failures = where(runs, faults=FAILED[0])
    with_most_failures = where(runs, faults=FAILED[-1])
    differences = []
    for row, row_without in zip(with_most_failures, without_failures, strict=True):
        differences.append(float(row["deadlocked"]) - float(row_without["deadlocked"]))
    check = at_least(
        f"8x8 torus at {load} of a link without NAC: share of runs that deadlock, "
        f"{FAILED[-1]} failed links less none",
        0.2,
        differences,
    )
    check = check.cites("the probability increases with failures (4.1)")
    return check.against(0.0, "failures change nothing")


def _delivery_check(rows: Rows) -> Check:
    """Check that runs with NAC, or with two channels, deliver all messages."""
    unprotected = where(rows, deadlock="none")
    protected = [row for row in rows if row["deadlock"] != "none"]
    check = Claim("runs with NAC or two channels that leave a message undelivered").equal(
        0.0, _incomplete_runs(protected)
    )
    check = check.against(_incomplete_runs(unprotected), "as without either")
    return check.noting(f"{len(protected)} runs")


def _incomplete_runs(rows: Rows) -> int:
    return sum(bool(row["received"] < row["sent"]) for row in rows)


def figures(rows: Rows) -> Figures:
    """Draw the share of runs that deadlock without NAC.

    On the ring it is drawn over slots by load, and on the torus over failures by load.
    """
    unprotected = where(rows, deadlock="none")
    return {
        "ring": _draw_deadlock_share(
            where(unprotected, part="ring"),
            "slots",
            "Ring of 8, tornado, 10 ms: runs that deadlock without avoidance",
            "slots a buffer",
        ),
        "failures": _draw_deadlock_share(
            where(unprotected, part="torus"),
            "faults",
            "8x8 torus, FT-DRB without NAC, 2 ms: runs that deadlock",
            "failed links",
        ),
    }


def _draw_deadlock_share(rows: Rows, field: str, title: str, x: str) -> Figure:
    """Draw the share of runs that deadlock over a field of the rows, one line per load."""
    samples: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        label = (f"{row['load']} of a link a node", float(row[field]))
        samples.setdefault(label, []).append(row["deadlocked"])
    return draw_lines(title, samples, x=x, y="share of runs", max_value=1.0)
