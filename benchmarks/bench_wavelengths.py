"""Compares methods that assign wavelengths to all pairs of a network, without conversion.

The method of the testbed, DSATUR (networkx) and CP-SAT colour the same lightpaths in the same run.
Times are medians of some repetitions. A colour is a pair of round and wavelength. At least as many
are needed as the bottleneck has lightpaths.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import networkx as nx

from testbed.scheduling.fast.packing import solve_packing
from testbed.wavelengths.assignment import all_to_all, assign_wavelengths, lightpaths_between
from testbed.wavelengths.plan import Lightpath
from topologies import load_network
from topologies.network import Network

NETWORKS = ("optical-cloud", "topohub:topozoo/Abilene", "mesh:5x5", "fat-tree:2,4")
CP_SAT_LIMIT_S = 20.0


def timed(work: Callable[[], int], repeats: int) -> tuple[int, float]:
    """Return the number of colours that a method needs, and the median of its seconds."""
    seconds = []
    colours = 0
    for _ in range(repeats):
        began = time.perf_counter()
        colours = work()
        seconds.append(time.perf_counter() - began)
    return colours, statistics.median(seconds)


def dsatur_colours(paths: Sequence[Sequence[int]]) -> int:
    """Build the congestion graph, and return the number of its colours by DSATUR."""
    users: dict[int, list[int]] = {}
    for i, path in enumerate(paths):
        for link in path:
            users.setdefault(link, []).append(i)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(paths)))
    for paths_of_link in users.values():
        graph.add_edges_from(combinations(paths_of_link, 2))
    return 1 + max(nx.greedy_color(graph, strategy="DSATUR").values())


def testbed_colours(network: Network, lightpaths: Sequence[Lightpath]) -> int:
    """Return the number of rounds with one wavelength."""
    return len(assign_wavelengths(network, lightpaths, wavelengths=1, switching="wsxc").rounds)


def main() -> None:
    """Print a row for each network."""
    print(
        f"{'network':26} {'paths':>6} {'bound':>6} | {'ours':>5} {'s':>8} | "
        f"{'DSATUR':>6} {'s':>8} {'x':>6} | CP-SAT"
    )
    for name in NETWORKS:
        network = load_network(name)
        lightpaths = lightpaths_between(network, all_to_all(network))
        paths = []
        load = Counter[int]()
        for lightpath in lightpaths:
            path = [network.link_index[link] for link in lightpath.links]
            paths.append(path)
            load.update(path)
        bound = max(load.values())
        colours, testbed_s = timed(partial(testbed_colours, network, lightpaths), 5)
        dsatur, dsatur_s = timed(partial(dsatur_colours, paths), 1)
        began = time.perf_counter()
        state = solve_packing(paths, bound, 1, time_limit_s=CP_SAT_LIMIT_S).state
        cp_s = time.perf_counter() - began
        print(
            f"{name:26} {len(paths):6} {bound:6} | {colours:5} {testbed_s:8.4f} | "
            f"{dsatur:6} {dsatur_s:8.3f} {dsatur_s / testbed_s:6.1f} | "
            f"{state} at the bound, {cp_s:.2f} s ({cp_s / testbed_s:.0f} x)"
        )


if __name__ == "__main__":
    main()
