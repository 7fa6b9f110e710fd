"""Schedules of all-to-all exchanges by methods of other authors beside liquid ones: frames, and processor time.

Two questions apart. On the network's static routes: who needs how many frames (a flow taken apart into frames,
two-level rotation, round robin, DSATUR, liquid)? And what is gained when the routes are free: balanced paths, for whole
messages and for halves, then liquid frames over them. Every schedule is judged by the independent checker; the flow
bound is a lower bound of frames over any routes.
"""

import math
import statistics
import time

from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, where
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import draw_bars
from topologies import load_network

NETWORKS = ("swiss-t1", "optical-cloud", "torus:4x4", "torus:8x8", "fat-tree:4,2", "manet:nodes=30,seed=3")
HALVES = "liquid, messages in halves"
METHODS = ("liquid", "flow-frames", "two-level", "round-robin", "dsatur")
LIMIT_S = 10.0
GAIN = 0.9
"""Frames over free routes, over those of static ones, on the 8x8 torus: its longest dimension carries 80 of 64 that are
needed."""


def points(quick: bool, seed: int) -> Points:
    """One a network (quick: without the large torus and the mobile network)."""
    return [{"network": name, "seed": seed} for name in NETWORKS if not quick or name not in (NETWORKS[3], NETWORKS[5])]


def measure(point: Row) -> Results:
    """Every method on the static routes; the liquid method and the flow's own frames on balanced ones. Frames of whole
    messages."""
    from testbed.routing.demands.flow_bound import equal_links, flow_bound
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.traffic.patterns import all_to_all, routes_of

    network = load_network(point["network"])
    traffic = all_to_all(network)
    schedule_by_name(traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S)  # compiled code is warm
    static = {method: _scheduled(traffic, method, point["seed"]) for method in METHODS}
    began = time.process_time()
    free = all_to_all(network, *routes_of(network, "balanced"))
    bound = flow_bound(equal_links(network), free.ends, free.bottleneck_load)
    seconds = time.process_time() - began
    flow = {method: _scheduled(free, method, point["seed"]) for method in METHODS[:2]}
    flow[HALVES] = _scheduled(all_to_all(network, *routes_of(network, "balanced", 2)), "liquid", point["seed"])
    return {
        "transfers": len(traffic),
        "bottleneck_load": traffic.bottleneck_load,
        "static": static,
        "bound": bound,
        "flow_bottleneck_load": free.bottleneck_load,
        "flow_seconds": seconds,
        "flow": flow,
    }


def _scheduled(traffic: Traffic, method: str, seed: int) -> Results:
    from testbed.errors import InputError
    from testbed.scheduling.checker import check_frames
    from testbed.scheduling.methods import schedule_by_name

    schedule = schedule_by_name(traffic, method, seed=seed, time_limit_s=LIMIT_S, now=time.process_time)
    try:
        check_frames(traffic, schedule.frames)
        objection = ""
    except InputError as error:
        objection = str(error)
    timed = {"frames": schedule.length / traffic.parts, "seconds": schedule.seconds or 0.0}
    return timed | {"objection": objection, "detail": schedule.detail}


def judge(rows: Rows) -> Verdict:
    """Sound; liquid needs no more frames than the others; free routes need fewer where the static ones are no
    optimum."""
    every = [
        (row, kind, method, one) for row in rows for kind in ("static", "flow") for method, one in row[kind].items()
    ]
    least = [min(row["static"][method]["frames"] for method in METHODS[1:]) for row in rows]
    checks = [
        Claim("schedules to which the independent checker objects")
        .count(0, sum(bool(one["objection"]) for _, _, _, one in every), "none: a count of errors")
        .noting(f"{len(every)} schedules"),
        Claim("frames of liquid over the best comparer's on the same routes, worst network")
        .at_most(1.0, max(row["static"]["liquid"]["frames"] / frames for row, frames in zip(rows, least, strict=True)))
        .against(
            statistics.median(
                row["static"]["round-robin"]["frames"] / row["static"]["liquid"]["frames"] for row in rows
            ),
            "no method that minds the network (round robin, median)",
        ),
        Claim("frames over free routes over the proved least of any routes, least")
        .at_least(
            1.0,
            min(
                2 * one["frames"] / math.ceil(2 * row["bound"] - 1e-6) for row, kind, _, one in every if kind == "flow"
            ),
        )
        .against(0.9, "a bound that is none: a schedule below it by a tenth"),
    ]
    torus = next(iter(where(rows, network="torus:8x8")), None)
    if torus is not None:
        checks.append(
            Claim("8x8 torus: frames over the flow's routes, over liquid ones on the static routes")
            .at_most(GAIN, torus["flow"]["liquid"]["frames"] / torus["static"]["liquid"]["frames"])
            .against(1.0, "free routes gain nothing")
            .noting(f"bound {torus['bound']:.2f} frames, static bottleneck load {torus['bottleneck_load']}")
        )
    return Verdict.of(checks, _notes(rows))


def _notes(rows: Rows) -> list[str]:
    def listed(methods: Results) -> str:
        return "; ".join(f"{name} {one['frames']:g} frames, {one['seconds']:.3f} s" for name, one in methods.items())

    return [
        f"{row['network']}: {row['transfers']} transfers, load {row['bottleneck_load']}: {listed(row['static'])}; over "
        f"balanced routes (bound {row['bound']:.2f}, load {row['flow_bottleneck_load']}, {row['flow_seconds']:.2f} s): "
        f"{listed(row['flow'])}"
        for row in rows
    ]


def figures(rows: Rows) -> Figures:
    """Frames over the bottleneck load of the static routes, by network and method."""
    series = [(method, "static", method) for method in METHODS] + [("balanced routes, liquid", "flow", "liquid")]
    samples = {
        (label, row["network"]): [row[kind][method]["frames"] / row["bottleneck_load"]]
        for label, kind, method in series
        for row in rows
    }
    y, claim = "frames over the static routes' bottleneck load", (1.0, "the bottleneck load itself")
    return {"schedules": draw_bars("All-to-all: below 1 only other routes can go", samples, y=y, claim=claim)}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="comparers_scheduling",
    title="Schedulers of other authors beside liquid schedules",
    answers="not in the documents: Gabrielyan 2007 compares with round robin, random orders, DSATUR and MILP",
    deviations=(
        "Basu et al. 2023 cut a fractional flow into unequal steps; here frames are whole, no link twice in one.",
        "FLASH's groups are servers with several processors and a fast network inside; here they are the senders of "
        "one switch. Where each switch has one sender, two-level rotation is round robin.",
    ),
)
