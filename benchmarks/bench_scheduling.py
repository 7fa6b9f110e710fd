"""Compares the methods for liquid schedules, in one run on one core.

    python benchmarks/bench_scheduling.py [--patterns N] [--all-allocations]

The methods are the fast method, DSATUR (also that of networkx), HiGHS, CP-SAT and the exhaustive
search. A row has the method, the number of liquid schedules and of patterns, the total, median and
largest time, and the ratio of the median to that of the fast method.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx
import numpy as np

from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule
from testbed.scheduling.theory_methods import dsatur, exact, milp
from testbed.scheduling.traffic.allocation import distinct_allocations
from testbed.scheduling.traffic.patterns import all_to_all
from topologies.catalog import load_network
from topologies.swiss_t1 import routing_table

# Time limit of a slow method for one pattern.
LIMIT_S = 5.0


def main() -> None:
    """Print a row for each method, and schedules of larger networks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--patterns", type=int, default=12, help="number of the 362 patterns for the slow methods"
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
    fast = timed("classes, compiled", traffics, is_liquid_fast, None)
    sample = traffics[:: max(1, len(traffics) // args.patterns)][: args.patterns]
    fast_median_s = statistics.median(times(sample, is_liquid_fast)[0])
    methods: dict[str, Callable[[Traffic], bool]] = {
        "exhausted search": partial(is_liquid, exact),
        "DSATUR": lambda traffic: dsatur(traffic).liquid,
        "DSATUR, networkx": is_liquid_by_networkx,
        "HiGHS": partial(is_liquid, milp),
        "CP-SAT on transfers": partial(is_liquid, cp_sat_schedule),
    }
    for name, method in methods.items():
        timed(name, sample, method, fast_median_s)
    print(
        f"all {len(traffics)} patterns by classes: {1000 * sum(fast):.1f} ms together, "
        f"worst {1000 * max(fast):.2f} ms"
    )
    schedule_larger_networks()
    if args.all_allocations:
        schedule_all_allocations()


def is_liquid_fast(traffic: Traffic) -> bool:
    """Return whether the fast method finds a liquid schedule."""
    return liquid_schedule(traffic).liquid


def is_liquid(method: Callable[..., Schedule], traffic: Traffic) -> bool:
    """Return whether a method finds a liquid schedule within LIMIT_S."""
    return method(traffic, time_limit_s=LIMIT_S, now=time.perf_counter).liquid


def is_liquid_by_networkx(traffic: Traffic) -> bool:
    """Return whether DSATUR of networkx finds a liquid schedule."""
    return networkx_colours(traffic) == traffic.bottleneck_load


def networkx_colours(traffic: Traffic) -> int:
    """Return the number of colours that DSATUR of networkx needs for the congestion graph."""
    graph = networkx.Graph(list(traffic.congestion_graph()))
    return 1 + max(networkx.greedy_color(graph, strategy="DSATUR").values(), default=0)


def times(traffics: list[Traffic], method: Callable[[Traffic], bool]) -> tuple[list[float], int]:
    """Return the seconds for each traffic, and the number of liquid schedules."""
    taken_s = []
    liquid = 0
    for traffic in traffics:
        began = time.perf_counter()
        if method(traffic):
            liquid += 1
        taken_s.append(time.perf_counter() - began)
    return taken_s, liquid


def timed(
    name: str,
    traffics: list[Traffic],
    method: Callable[[Traffic], bool],
    fast_median_s: float | None,
) -> list[float]:
    """Print the row of a method, and return the seconds for each traffic."""
    taken_s, liquid = times(traffics, method)
    median_s = statistics.median(taken_s)
    ratio = f"{median_s / fast_median_s:9.1f} x" if fast_median_s else ""
    figures = f"{sum(taken_s):9.3f} s {1000 * median_s:10.3f} ms {1000 * max(taken_s):10.2f} ms"
    print(f"{name:22} {liquid:4}/{len(traffics):<4} liquid {figures} {ratio}", flush=True)
    return taken_s


def schedule_larger_networks() -> None:
    """Print how long the fast method takes for larger networks."""
    for name in ("clos:6", "clos:10", "clos:12", "clos:16", "torus:8x8"):
        network = load_network(name)
        began = time.perf_counter()
        traffic = all_to_all(network)
        generated = time.perf_counter()
        schedule = liquid_schedule(traffic, now=time.perf_counter)
        ended = time.perf_counter()
        check_schedule(traffic, schedule)
        print(
            f"{name:32} {len(traffic):8} transfers, "
            f"{schedule.length}/{traffic.bottleneck_load} frames, "
            f"generated in {generated - began:.2f} s, "
            f"scheduled and checked in {ended - generated:.2f} s ({schedule.detail})",
            flush=True,
        )
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def schedule_all_allocations() -> None:
    """Print how long it takes to schedule and check all allocations of Swiss-T1."""
    table = routing_table()
    names = [f"s{i}" for i in range(1, 9)]
    # Index of the next switch from each switch (rows) to each other one (columns); -1: none.
    via = np.full((8, 8), -1, dtype=np.int64)
    for row, source in enumerate(names):
        for column, sink in enumerate(names):
            next_switch = table.get(source, {}).get(sink, "s0")
            via[row, column] = int(next_switch.removeprefix("s")) - 1
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.helpers.swiss_t1_sweep import sweep

    sweep(1, 2, via)
    began = time.perf_counter()
    outcome = sweep(1, 5**8, via).outcome
    print(
        f"all {len(outcome)} allocations: {int((outcome == 1).sum())} liquid and checked in "
        f"{time.perf_counter() - began:.1f} s"
    )


if __name__ == "__main__":
    main()
