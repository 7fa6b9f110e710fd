"""Measures liquid schedules: our fast method beside DSATUR, HiGHS, CP-SAT and the exhausted search.

    python benchmarks/bench_scheduling.py [--patterns N] [--all-allocations]

All run on one core in one run. The columns are the method, the liquid schedules and the patterns,
total, median and longest time, and the ratio of the median to that of the fast method.
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

# Time after which a slow method is stopped.
LIMIT_S = 5.0
LARGE_NETWORKS = ("clos:6", "clos:10", "clos:12", "clos:16", "torus:8x8")

# Returns whether it finds a liquid schedule.
Method = Callable[[Traffic], bool]


def by_classes(traffic: Traffic) -> bool:
    return bool(liquid_schedule(traffic).liquid)


def by_exhausted_search(traffic: Traffic) -> bool:
    return bool(exact(traffic, time_limit_s=LIMIT_S, now=time.perf_counter).liquid)


def by_dsatur(traffic: Traffic) -> bool:
    return bool(dsatur(traffic).liquid)


def by_networkx(traffic: Traffic) -> bool:
    graph = networkx.Graph(list(traffic.congestion_graph()))
    colour_of = networkx.greedy_color(graph, strategy="DSATUR")
    colours = 1 + max(colour_of.values(), default=0)
    return colours == traffic.bottleneck_load


def by_highs(traffic: Traffic) -> bool:
    return bool(milp(traffic, time_limit_s=LIMIT_S, now=time.perf_counter).liquid)


def by_cp_sat(traffic: Traffic) -> bool:
    return bool(cp_sat_schedule(traffic, time_limit_s=LIMIT_S, now=time.perf_counter).liquid)


SLOW_METHODS: dict[str, Method] = {
    "exhausted search": by_exhausted_search,
    "DSATUR": by_dsatur,
    "DSATUR, networkx": by_networkx,
    "HiGHS": by_highs,
    "CP-SAT on transfers": by_cp_sat,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--patterns",
        type=int,
        default=12,
        help="number of the 362 patterns for the slow methods (default 12)",
    )
    parser.add_argument(
        "--all-allocations",
        action="store_true",
        help="also schedule and check all 390,624 allocations (a minute or two)",
    )
    arguments = parser.parse_args()
    traffics = []
    for allocation in distinct_allocations():
        network = load_network(f"swiss-t1:allocation={allocation.name}")
        traffics.append(all_to_all(network))
    # The first call compiles.
    liquid_schedule(traffics[-1])
    fast_times_s = print_row("classes, compiled", traffics, by_classes)
    step = max(1, len(traffics) // arguments.patterns)
    sample = traffics[::step][: arguments.patterns]
    sample_times_s, _ = measure(sample, by_classes)
    fast_median_s = statistics.median(sample_times_s)
    for name, method in SLOW_METHODS.items():
        print_row(name, sample, method, fast_median_s)
    print(
        f"all {len(traffics)} patterns by classes: {1000 * sum(fast_times_s):.1f} ms together, "
        f"worst {1000 * max(fast_times_s):.2f} ms"
    )
    schedule_large_networks()
    if arguments.all_allocations:
        schedule_all_allocations()


def measure(traffics: list[Traffic], method: Method) -> tuple[list[float], int]:
    """Return the time of each traffic in seconds, and the number of liquid schedules."""
    times_s = []
    liquid_count = 0
    for traffic in traffics:
        start_s = time.perf_counter()
        if method(traffic):
            liquid_count += 1
        times_s.append(time.perf_counter() - start_s)
    return times_s, liquid_count


def print_row(
    name: str, traffics: list[Traffic], method: Method, fast_median_s: float | None = None
) -> list[float]:
    """Measure a method, print its row, and return its times in seconds.

    Args:
        name: Name of the method.
        traffics: The traffics.
        method: The method.
        fast_median_s: Median time of the fast method, for the ratio.
    """
    times_s, liquid_count = measure(traffics, method)
    median_s = statistics.median(times_s)
    ratio = ""
    if fast_median_s is not None:
        ratio = f"{median_s / fast_median_s:9.1f} x"
    figures = f"{sum(times_s):9.3f} s {1000 * median_s:10.3f} ms {1000 * max(times_s):10.2f} ms"
    print(f"{name:22} {liquid_count:4}/{len(traffics):<4} liquid {figures} {ratio}", flush=True)
    return times_s


def schedule_large_networks() -> None:
    """Print the time of schedules of large networks, which are checked, and the memory."""
    for name in LARGE_NETWORKS:
        network = load_network(name)
        start_s = time.perf_counter()
        traffic = all_to_all(network)
        generated_s = time.perf_counter()
        schedule = liquid_schedule(traffic, now=time.perf_counter)
        scheduled_s = time.perf_counter()
        check_schedule(traffic, schedule)
        print(
            f"{name:32} {len(traffic):8} transfers, "
            f"{schedule.length}/{traffic.bottleneck_load} frames, generated in "
            f"{generated_s - start_s:.2f} s, scheduled and checked in "
            f"{scheduled_s - generated_s:.2f} s ({schedule.detail})",
            flush=True,
        )
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def schedule_all_allocations() -> None:
    """Print the time in which all allocations of Swiss-T1 are scheduled and checked."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tests.helpers.swiss_t1_sweep import sweep

    table = routing_table()
    switches = [f"s{number}" for number in range(1, 9)]
    # The index of the next switch between each two switches, or -1.
    next_switch = np.full((len(switches), len(switches)), -1, dtype=np.int64)
    for row, source in enumerate(switches):
        for column, target in enumerate(switches):
            if target in table.get(source, {}):
                next_switch[row, column] = int(table[source][target][1:]) - 1
    # The first call compiles.
    sweep(1, 2, next_switch)
    start_s = time.perf_counter()
    result = sweep(1, 5**8, next_switch)
    liquid_count = int((result.outcome == 1).sum())
    print(
        f"all {len(result.outcome)} allocations: {liquid_count} liquid and checked in "
        f"{time.perf_counter() - start_s:.1f} s"
    )


if __name__ == "__main__":
    main()
