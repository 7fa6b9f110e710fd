"""Compares the wavelengths of all pairs, without conversion, with DSATUR (networkx) and CP-SAT.

All three work on the same lightpaths in the same run. Times are seconds; ours is the median of
several repetitions. A colour is a round and a wavelength. The bottleneck load is the fewest
possible number of colours.
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
    """Return the number of colours, and the median time in seconds."""
    times_s = []
    colours = 0
    for _ in range(repeats):
        start_s = time.perf_counter()
        colours = work()
        times_s.append(time.perf_counter() - start_s)
    return colours, statistics.median(times_s)


def dsatur_colours(paths: Sequence[Sequence[int]]) -> int:
    """Build the congestion graph, and return the number of its colours."""
    paths_over_link: dict[int, list[int]] = {}
    for index, path in enumerate(paths):
        for link in path:
            paths_over_link.setdefault(link, []).append(index)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(paths)))
    for indices in paths_over_link.values():
        graph.add_edges_from(combinations(indices, 2))
    return 1 + max(nx.greedy_color(graph, strategy="DSATUR").values())


def our_colours(network: Network, lightpaths: Sequence[Lightpath]) -> int:
    """Return the number of rounds with one wavelength."""
    return len(assign_wavelengths(network, lightpaths, wavelengths=1, switching="wsxc").rounds)


def row(network_name: str) -> str:
    """Return the row of a network."""
    network = load_network(network_name)
    lightpaths = lightpaths_between(network, all_to_all(network))
    paths = []
    load_of_link: Counter[int] = Counter()
    for lightpath in lightpaths:
        path = [network.link_index[link] for link in lightpath.links]
        paths.append(path)
        load_of_link.update(path)
    bound = max(load_of_link.values())
    ours, our_s = timed(partial(our_colours, network, lightpaths), 5)
    dsatur, dsatur_s = timed(partial(dsatur_colours, paths), 1)
    start_s = time.perf_counter()
    state = solve_packing(paths, bound, 1, time_limit_s=CP_SAT_LIMIT_S).state
    cp_sat_s = time.perf_counter() - start_s
    return (
        f"{network_name:26} {len(paths):6} {bound:6} | {ours:5} {our_s:8.4f} | "
        f"{dsatur:6} {dsatur_s:8.3f} {dsatur_s / our_s:6.1f} | "
        f"{state} at the bound, {cp_sat_s:.2f} s ({cp_sat_s / our_s:.0f} x)"
    )


def main() -> None:
    print(
        f"{'network':26} {'paths':>6} {'bound':>6} | {'ours':>5} {'s':>8} | {'DSATUR':>6} {'s':>8} "
        f"{'x':>6} | CP-SAT"
    )
    for network_name in NETWORKS:
        print(row(network_name))


if __name__ == "__main__":
    main()
