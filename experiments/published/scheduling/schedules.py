"""Schedules of all-to-all exchanges by methods of other authors beside liquid ones: frames, and processor time.

Two questions apart. On the network's static routes: who needs how many frames (a flow taken apart into frames,
two-level rotation, round robin, DSATUR, liquid)? And what is gained when the routes are free: paths by multicommodity
flow, then liquid frames over them. Every schedule is judged by the independent checker; the flow's programme is a lower
bound of frames over any routes.
"""

import math
import statistics
import time
from collections.abc import Mapping

from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.traffic import Traffic
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import GREY, chart
from topologies import Network, load_network

NETWORKS = ("swiss-t1", "optical-cloud", "torus:4x4", "torus:8x8", "fat-tree:4,2", "manet:nodes=30,seed=3")
METHODS = ("liquid", "flow-frames", "two-level", "round-robin", "dsatur")
LIMIT_S = 10.0
GAIN = 0.9
"""Frames over free routes, over those of static ones, on the 8x8 torus: its longest dimension carries 80 of 64 that are
needed."""


def points(quick: bool, seed: int) -> Points:
    """One a network (quick: without the large torus and the mobile network)."""
    return [{"network": name, "seed": seed} for name in NETWORKS if not quick or name not in (NETWORKS[3], NETWORKS[5])]


def measure(point: Row) -> Results:
    """Every method on the static routes; the liquid method and the flow's own frames on those of the flow."""
    from testbed.scheduling.methods import schedule_by_name
    from testbed.scheduling.traffic.patterns import all_to_all

    network = load_network(point["network"])
    traffic = all_to_all(network)
    schedule_by_name(traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S)  # compiled code is warm
    static = {method: _scheduled(traffic, method, point["seed"]) for method in METHODS}
    began = time.process_time()
    free, bound = _over_flow(network)
    seconds = time.process_time() - began
    flow = {method: _scheduled(free, method, point["seed"]) for method in METHODS[:2]}
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
    timed = {"frames": schedule.length, "seconds": schedule.seconds or 0.0}
    return timed | {"objection": objection, "detail": schedule.detail}


def _over_flow(network: Network) -> tuple[Traffic, float]:
    """The all-to-all traffic over paths of the multicommodity optimum made whole, and the least frames over any
    routes."""
    from testbed.scheduling.traffic.chosen_paths import whole_paths
    from testbed.scheduling.traffic.patterns import processors

    senders, receivers = processors(network)
    out = {node: network.links[network.out_links(node)[0]] for node in senders}
    into = {node: network.links[network.in_links(node)[0]] for node in receivers}
    pairs = [(a, b) for a in senders for b in receivers]
    units: dict[tuple[str, str], int] = {}
    for a, b in pairs:
        ends = out[a].target, into[b].source
        if ends[0] != ends[1]:
            units[ends] = units.get(ends, 0) + 1
    paths, greatest = _flow_paths(network, units)
    chosen = {ends: iter(own) for ends, own in whole_paths(units, paths).items()}
    transfers = [
        (out[a].label, *next(chosen.get((out[a].target, into[b].source), iter([()]))), into[b].label) for a, b in pairs
    ]
    ends_load = max(len(receivers), len(senders))
    return Traffic.from_transfers(transfers), max(greatest, float(ends_load))


def _flow_paths(
    network: Network, units: Mapping[tuple[str, str], int]
) -> tuple[dict[tuple[str, str], list[tuple[tuple[str, ...], float]]], float]:
    """Pair of switches -> [(links by name, weight)] of the optimum, and what its fullest link carries, in transfers."""
    from testbed.routing.demands.matrix import given_matrix
    from testbed.routing.demands.methods import route_demands

    capacity = network.links[0].capacity_bps
    matrix = given_matrix(network, "all to all", {ends: count * capacity for ends, count in units.items()})
    routed = route_demands(matrix, "optimum")
    found = {}
    for pair, ends in enumerate(matrix.pairs):
        shares = routed.pair_shares(pair)
        own = {int(link): float(shares[link]) for link in shares.nonzero()[0]}
        found[ends] = [
            (tuple(network.links[i].label for i in path), weight) for path, weight in _stripped(network, *ends, own)
        ]
    return found, routed.greatest_utilisation


def _stripped(
    network: Network, source: str, sink: str, shares: dict[int, float]
) -> list[tuple[tuple[int, ...], float]]:
    """The flow of one pair (no circulation) taken apart: again and again the path that follows the fullest links."""
    leaving: dict[str, list[int]] = {}
    for link in shares:
        leaving.setdefault(network.links[link].source, []).append(link)
    found: list[tuple[tuple[int, ...], float]] = []
    while True:
        path: list[int] = []
        node = source
        while node != sink:
            onward = [link for link in leaving.get(node, ()) if shares[link] > 1e-6]
            if not onward:
                return found
            path.append(max(onward, key=lambda link: shares[link]))
            node = network.links[path[-1]].target
        width = min(shares[link] for link in path)
        for link in path:
            shares[link] -= width
        found.append((tuple(path), width))


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
            1.0, min(one["frames"] / math.ceil(row["bound"] - 1e-6) for row, kind, _, one in every if kind == "flow")
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
    found = []
    for row in rows:
        cells = [f"{method} {one['frames']} frames, {one['seconds']:.3f} s" for method, one in row["static"].items()]
        flow = [f"{method} {one['frames']}, {one['seconds']:.3f} s" for method, one in row["flow"].items()]
        found.append(
            f"{row['network']}: {row['transfers']} transfers, load {row['bottleneck_load']}: "
            f"{'; '.join(cells)}; over the flow's "
            f"routes (bound {row['bound']:.2f}, load {row['flow_bottleneck_load']}, "
            f"{row['flow_seconds']:.2f} s): {'; '.join(flow)}"
        )
    return found


def figures(rows: Rows) -> Figures:
    """Frames over the bottleneck load of the static routes, by network and method."""
    figure, axes = chart(
        "All-to-all: below 1 only other routes can go",
        size=(10, 4.6),
        ylabel="frames over the static routes' bottleneck load",
    )
    series = [(f"{method}", "static", method) for method in METHODS] + [("flow's routes, liquid", "flow", "liquid")]
    for place, (label, kind, method) in enumerate(series):
        values = [row[kind][method]["frames"] / row["bottleneck_load"] for row in rows]
        axes.bar([x + (place - 2.5) * 0.14 for x in range(len(rows))], values, 0.13, label=label)
    axes.axhline(1, color=GREY, linewidth=1, linestyle=":")
    axes.set_xticks(range(len(rows)), [row["network"] for row in rows], fontsize=8)
    axes.legend()
    return {"schedules": figure}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="comparers_scheduling",
    title="Schedulers of other authors beside liquid schedules",
    answers="not in the documents: Gabrielyan 2007 compares with round robin, random orders, DSATUR and MILP",
    deviations=(
        "Basu et al. 2023 cut a fractional flow into unequal steps; here frames are whole, no link twice in one.",
        "FLASH's groups are servers with several processors and a fast network inside; "
        "here they are the senders of one switch. Where each "
        "switch has one sender, two-level rotation is round robin.",
    ),
)
