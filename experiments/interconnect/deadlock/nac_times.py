"""How often does it deadlock, and how long does NAC take to find the cycle: against buffers, slack, virtual channels,
load and failures (Zarza 2011, equations 4.8 and 4.9, sections 4.3 and 6.2)?

Rings under tornado traffic, bursts in phase and Poisson; an 8x8 torus with failed links under FT-DRB.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.runs import parameters_of
from experiments.interconnect.samples import at_least
from experiments.interconnect.study_points import Run, faults_of, network_of, traffic_of
from testbed.arrays import IntArray
from testbed.interconnect.options import NacOptions
from testbed.interconnect.results import NAC_EVENTS, SimulationResult
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections, build_pattern, burst_at
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    grouped,
    spread,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim
from testbed.report.drawing.charts import Figure, draw_lines

PACKET = 2048
CONTROL_S = NacOptions().control_s
"""t_f."""
LINK_PER_S = 2e9 / (8 * PACKET)
RINGS, SLOTS, SLACKS = (8, 12, 16, 24, 32), (1, 2, 4, 8), (0, 1, 2)
LOADS = (0.2, 0.25, 0.3)
"""Of a link a node; a ring of 8 under tornado traffic bears a third."""
RUN_S, TORUS_S, TORUS_LOADS, FAILED = 0.01, 0.002, (0.2, 0.3, 0.4), (0, 4, 8, 12)
WORST_RINGS, APART_TF, WORST_RETRY_S = (8, 12, 16), 13, 5e-3
"""Bursts of three messages half-way round a ring of one-slot buffers, each host's so many t_f after the last one's, so
that one router closes the cycle; no router tries again before the others have had their turn. On rings of 24 and more
the cycle dissolves first."""


def points(quick: bool, seed: int) -> Points:
    """Bursts on rings; Poisson traffic on a ring of 8 with NAC, without, with two virtual channels; failures on a
    torus."""
    seeds = range(seed, seed + (2 if quick else 10))
    base = {"slots": 2, "slack": 0, "deadlock": "nac", "load": 0.0, "faults": 0, "seed": seed}
    found = [
        base | {"part": "burst", "network": f"ring:{n}", "slots": k} for n in RINGS for k in SLOTS
    ]
    worst = base | {"part": "worst", "slots": 1}
    found += [
        worst | {"network": f"ring:{n}", "anew": again}
        for n in WORST_RINGS
        for again in (False, True)
    ]
    ring = base | {"part": "ring", "network": "ring:8"}
    for s in seeds:
        found.append(ring | {"load": LOADS[-1], "seed": s, "anew": True})
        for load in LOADS[-1:] if quick else LOADS:
            for slots in SLOTS:
                mine = ring | {"load": load, "slots": slots, "seed": s}
                found += [mine | {"deadlock": how} for how in ("none", "virtual-channels")]
                found += [mine | {"slack": slack} for slack in SLACKS]
        for load in TORUS_LOADS:
            for faults in FAILED:
                torus = base | {
                    "part": "torus",
                    "network": "torus:8x8",
                    "load": load,
                    "faults": faults,
                    "seed": s,
                }
                found += [torus | {"deadlock": how} for how in ("none", "nac")]
    return found


def measure(point: Row) -> Results:
    """One run: whether and when it deadlocked, what NAC saw, and how long identification took."""
    torus, worst = point["part"] == "torus", point["part"] == "worst"
    of = Run.of({
        **point, "pattern": "uniform" if torus else "tornado", "routing": "ft-drb" if torus else "dor",
        "bytes": PACKET, "buffer_bytes": PACKET * point["slots"], "rate": point["load"] * LINK_PER_S,
        "seconds": TORUS_S if torus else RUN_S, "fault_kind": "start" if point["faults"] else "none",
    })  # fmt: skip
    network = network_of(of.network)
    nodes = len(network.hosts)
    if point["part"] == "burst":
        messages = burst_at(
            build_pattern("tornado", nodes), time_s=0.0, messages=2 * point["slots"] + 2
        )
    else:
        messages = _one_after_the_other(nodes) if worst else traffic_of(of)
    retry_s = WORST_RETRY_S if worst else None
    nac = NacOptions(slack=point["slack"], identify_anew=point.get("anew", False), retry_s=retry_s)
    parameters = replace(parameters_of(of), nac=nac, drain_s=0.1)
    run = simulate(network, messages, parameters, faults_of(of))
    return {
        "sent": run.sent,
        "received": run.received,
        "deadlocked": run.deadlocked,
        "deadlock_s": run.deadlocked_at_s,
        "nac": {name: int(count) for name, count in run.nac_counters.items()},
        **_identification(run),
        "moves_tf": _moves(run) if worst else None,
    }


def _one_after_the_other(nodes: int) -> Injections:
    """Three messages of each host, half-way round, later by APART_TF than those of the host before it."""
    hosts = np.repeat(np.arange(nodes, dtype=np.int32), 3)
    born = np.rint(hosts * APART_TF * CONTROL_S * 1e12).astype(np.int64)
    return Injections(
        time_ps=born, source=hosts, destination=((hosts + nodes // 2) % nodes).astype(np.int32)
    )


def _timeline(run: SimulationResult) -> tuple[IntArray, float, dict[str, NDArray[np.bool_]]]:
    """The tick of each event of NAC, ticks of a t_f, and by kind which events are of it."""
    ticks, kinds = run.nac_timeline[:, 0], run.nac_timeline[:, 1]
    return (
        ticks,
        run.ticks_per_s * CONTROL_S,
        {name: kinds == number for number, name in enumerate(NAC_EVENTS)},
    )


def _moves(run: SimulationResult) -> list[float]:
    """When the routers moved a packet, the one that closed the cycle first, in t_f after its input was blocked."""
    ticks, scale, of = _timeline(run)
    times = ticks / scale
    first = times[of["moved"]][0]
    since = times[of["blocked"] & (times <= first)].max()
    nodes = int(run.destination.max()) + 1
    return [float(at - since) for at in (first, *times[of["recovery-moved"]][: nodes - 1])]


def _identification(run: SimulationResult) -> Results:
    """In t_f: from the last input blocked before the first cycle was identified until then; and of every
    identification, how long its input had been blocked (median, longest)."""
    ticks, scale, of = _timeline(run)
    blocked, identified = of["blocked"], of["identified"]
    if not identified.any():
        return {"first_tf": None, "waits_tf": None}
    first = ticks[identified][0]
    waits, since = [], {}
    for tick, is_blocked, is_identified, link in zip(
        ticks, blocked, identified, run.nac_timeline[:, 3], strict=True
    ):
        if is_blocked:
            since[link] = tick
        elif is_identified and link in since:
            waits.append((tick - since[link]) / scale)
    return {
        "first_tf": float((first - ticks[blocked & (ticks <= first)].max()) / scale),
        "waits_tf": [float(np.median(waits)), float(np.max(waits))] if waits else None,
    }


def times_checks(rows: Rows) -> list[Check]:
    """Identification takes n t_f; deeper buffers, slack and virtual channels help as section 4.3 has it; failures
    deadlock."""
    # an input may be blocked long before the cycle closes; equation 4.9 counts from then on
    return [*_times(rows), *_worst(rows), *_help(rows), *_failures(rows), _delivered(rows)]


def _times(rows: Rows) -> list[Check]:
    found = []
    for n in RINGS:
        mine = [row["first_tf"] for row in where(rows, network=f"ring:{n}", part="burst")]
        took = [value for value in mine if value is not None]
        found.append(
            Claim(
                f"ring of {n}, burst: time to identify the cycle, the longest of all buffers (t_f)"
            )
            .equal(n, max(took, default=0.0), 1.0)
            .cites("n t_f a run round the cycle (equation 4.8)")
            .against(n * n, "the worst case of equation 4.9")
            .noting(f"{len(took)} of {len(mine)} buffers blocked at all")
        )
    return found


def _worst(rows: Rows) -> list[Check]:
    """Equation 4.8 where the signal follows the recorded cycle; 4.9 where each router identifies it again, one after
    the other."""
    found = []
    for n in WORST_RINGS:
        last = {
            bool(row["anew"]): row["moves_tf"][-1] if len(row["moves_tf"]) == n else math.nan
            for row in where(rows, part="worst", network=f"ring:{n}")
        }
        found += [
            Claim(
                f"ring of {n}, one router closes the cycle, recorded: from then until the last router has moved (t_f)"
            )
            .equal(2.0 * n, last[False], 1.0)
            .cites("2 n t_f (equation 4.8)")
            .against(n * n, "the worst case of equation 4.9"),
            Claim(
                f"ring of {n}, every router identifies it anew: "
                f"identification, the signals' {n - 1} hops left out (t_f)"
            )
            .equal(n * n, last[True] - (n - 1), 1.0)
            .cites("n times n t_f (equation 4.9)")
            .against(2.0 * n, "equation 4.8"),
            Claim(
                f"ring of {n}, every router identifies it anew: until the last router has moved, over equation 4.9"
            )
            .at_most(1.0, last[True] / (n * n))
            .cites("the upper bound (equation 4.9)")
            .against(1.0 + (n - 1) / (n * n), "with one t_f more for each of the n - 1 signals"),
        ]
    ring = where(rows, part="ring")
    first = [row["first_tf"] for row in ring if row["first_tf"] is not None]
    random = "ring of 8, random traffic: from the input that closes the first cycle until it is identified"
    longest = max(row["waits_tf"][1] for row in ring if row["waits_tf"])
    found.append(
        Claim(f"{random}, the longest of all runs (t_f)")
        .at_most(64.0, max(first, default=math.nan))
        .cites("the upper bound (equation 4.9)")
        .against(
            longest,
            "as long as an input is blocked at worst, the wait for the cycle to close included",
        )
        .noting(
            f"{len(first)} runs, {sum(bool(row.get('anew')) for row in ring)} of them with identification anew"
        )
    )
    return found


def _help(rows: Rows) -> list[Check]:
    """What section 4.3 proposes, on the ring at the highest load."""
    busy = _busy(rows)

    def seen(name: str, **fixed: int) -> float:
        mine = where(busy, deadlock="nac", **fixed)
        return spread([row["nac"][name] / row["received"] for row in mine])[0]

    bare, lanes = (where(busy, deadlock=how) for how in ("none", "virtual-channels"))
    return [
        Claim(f"blocked inputs a packet, {max(SLOTS)} slots over one")
        .at_most(
            0.9, seen("blocked", slots=max(SLOTS), slack=0) / seen("blocked", slots=1, slack=0)
        )
        .cites("deeper buffers reduce deadlock-prone situations (4.3)")
        .against(1.0, "deeper buffers change nothing"),
        Claim("cycles identified a packet, two slots of slack over none")
        .at_most(0.9, seen("identified", slots=2, slack=2) / seen("identified", slots=2, slack=0))
        .cites("reduces the number of identifications (4.3)")
        .against(1.0, "the variant of condition 4.1 changes nothing"),
        Claim("runs that deadlock with two virtual channels (dateline)")
        .equal(0.0, sum_of(lanes, "deadlocked"))
        .against(sum_of(bare, "deadlocked"), "as with one channel and without NAC")
        .noting(f"{len(lanes)} runs"),
    ]


def _failures(rows: Rows) -> list[Check]:
    load = TORUS_LOADS[-1]

    def share(faults: int) -> list[float]:
        mine = where(rows, part="torus", deadlock="none", load=load, faults=faults)
        return [float(row["deadlocked"]) for row in mine]

    more = [many - none for many, none in zip(share(FAILED[-1]), share(0), strict=True)]
    name = f"8x8 torus at {load} of a link without NAC: share of runs that deadlock"
    return [
        at_least(f"{name}, {FAILED[-1]} failed links less none", 0.2, more)
        .cites("the probability increases with failures (4.1)")
        .against(0.0, "failures change nothing")
    ]


def _delivered(rows: Rows) -> Check:
    """Runs with NAC, or two channels, that leave a message undelivered."""
    retained, bare = (
        [row for row in rows if row["deadlock"] != "none"],
        where(rows, deadlock="none"),
    )
    left, rival = (sum(row["received"] < row["sent"] for row in some) for some in (retained, bare))
    check = Claim("runs with NAC or two channels that leave a message undelivered").equal(0.0, left)
    return check.against(rival, "as without either").noting(f"{len(retained)} runs")


def _busy(rows: Rows) -> list[Row]:
    """The ring at the highest load, without identification again."""
    return [row for row in where(rows, part="ring", load=max(LOADS)) if not row.get("anew")]


def figures(rows: Rows) -> Figures:
    """Share of runs that deadlock without NAC: by load and slots on the ring, by failures and load on the torus."""

    def shares(part: str, title: str, x: str, x_label: str) -> Figure:
        bare = where(rows, part=part, deadlock="none")
        found = grouped(
            bare, lambda row: (f"{row['load']} of a link a node", float(row[x])), "deadlocked"
        )
        return draw_lines(title, found, x=x_label, y="share of runs", max_value=1.0)

    ring = "Ring of 8, tornado, 10 ms: runs that deadlock without avoidance"
    torus = "8x8 torus, FT-DRB without NAC, 2 ms: runs that deadlock"
    return {
        "ring": shares("ring", ring, "slots", "slots a buffer"),
        "failures": shares("torus", torus, "faults", "failed links"),
    }
