"""Liquid schedules: our fast method beside DSATUR (networkx), HiGHS, CP-SAT and the exhausted search, in one run on one
core.

    python benchmarks/bench_scheduling.py [--patterns N] [--all-allocations]

Rows: method, patterns, liquid, total, median and worst seconds, ratio of the medians over the fast method's.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import networkx
import numpy as np

from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule
from testbed.scheduling.theory_methods import dsatur, exact, milp
from testbed.scheduling.traffic.allocation import distinct_allocations
from testbed.scheduling.traffic.patterns import all_to_all
from topologies.catalog import load_network
from topologies.swiss_t1 import routing_table

LIMIT_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--patterns", type=int, default=12, help="of the 362 that the slow methods are given"
    )
    parser.add_argument(
        "--all-allocations",
        action="store_true",
        help="also schedule and check all 390,624 (a minute or two)",
    )
    args = parser.parse_args()
    names = ["swiss-t1:allocation=" + rated.name for rated in distinct_allocations()]
    traffics = [all_to_all(load_network(name)) for name in names]
    liquid_schedule(traffics[-1])
    fast = timed("classes, compiled", traffics, lambda t: liquid_schedule(t).liquid, None)
    some = traffics[:: max(1, len(traffics) // args.patterns)][: args.patterns]
    own = statistics.median(times(some, lambda t: liquid_schedule(t).liquid)[0])
    for name, method in (
        (
            "exhausted search",
            lambda t: exact(t, time_limit_s=LIMIT_S, now=time.perf_counter).liquid,
        ),
        ("DSATUR", lambda t: dsatur(t).liquid),
        ("DSATUR, networkx", lambda t: networkx_colours(t) == t.bottleneck_load),
        ("HiGHS", lambda t: milp(t, time_limit_s=LIMIT_S, now=time.perf_counter).liquid),
        (
            "CP-SAT on transfers",
            lambda t: cp_sat_schedule(t, time_limit_s=LIMIT_S, now=time.perf_counter).liquid,
        ),
    ):
        timed(name, some, method, own)
    print(
        f"all {len(traffics)} patterns by classes: {1000 * sum(fast):.1f} ms together, worst {1000 * max(fast):.2f} ms"
    )
    larger()
    if args.all_allocations:
        everything()


def networkx_colours(traffic: Traffic) -> int:
    graph = networkx.Graph(list(traffic.congestion_graph()))
    return 1 + max(networkx.greedy_color(graph, strategy="DSATUR").values(), default=0)


def times(traffics: list[Traffic], method: Callable[[Traffic], bool]) -> tuple[list[float], int]:
    taken, liquid = [], 0
    for traffic in traffics:
        began = time.perf_counter()
        liquid += method(traffic)
        taken.append(time.perf_counter() - began)
    return taken, liquid


def timed(
    name: str, traffics: list[Traffic], method: Callable[[Traffic], bool], own: float | None
) -> list[float]:
    taken, liquid = times(traffics, method)
    median = statistics.median(taken)
    ratio = f"{median / own:9.1f} x" if own else ""
    figures = f"{sum(taken):9.3f} s {1000 * median:10.3f} ms {1000 * max(taken):10.2f} ms"
    print(f"{name:22} {liquid:4}/{len(traffics):<4} liquid {figures} {ratio}", flush=True)
    return taken


def larger() -> None:
    for name in ("clos:6", "clos:10", "clos:12", "clos:16", "torus:8x8"):
        network = load_network(name)
        began = time.perf_counter()
        traffic = all_to_all(network)
        generated = time.perf_counter()
        schedule = liquid_schedule(traffic, now=time.perf_counter)
        ended = time.perf_counter()
        check_schedule(traffic, schedule)
        print(
            f"{name:32} {len(traffic):8} transfers, {schedule.length}/{traffic.bottleneck_load} frames, generated in "
            f"{generated - began:.2f} s, scheduled and checked in {ended - generated:.2f} s ({schedule.detail})",
            flush=True,
        )
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def everything() -> None:
    table = routing_table()
    names = [f"s{i}" for i in range(1, 9)]
    via = np.array(
        [[int(table.get(a, {}).get(b, "s0")[1:]) - 1 for b in names] for a in names], dtype=np.int64
    )
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.helpers.swiss_t1_sweep import sweep

    sweep(1, 2, via)
    began = time.perf_counter()
    found = sweep(1, 5**8, via)
    print(
        f"all {len(found.outcome)} allocations: {int((found.outcome == 1).sum())} liquid and checked in "
        f"{time.perf_counter() - began:.1f} s"
    )


if __name__ == "__main__":
    main()
