"""Wavelengths for all pairs, without conversion: ours against DSATUR (networkx) and CP-SAT on the same lightpaths, in
the same run.

Median seconds of some repetitions; colours are (round, wavelength) pairs, the fewest possible being the bottleneck
load.
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
    """The colours found, and the median of the seconds."""
    seconds, colours = [], 0
    for _ in range(repeats):
        began = time.perf_counter()
        colours = work()
        seconds.append(time.perf_counter() - began)
    return colours, statistics.median(seconds)


def dsatur_colours(paths: Sequence[Sequence[int]]) -> int:
    """Colours of the congestion graph, its building included."""
    users: dict[int, list[int]] = {}
    for i, path in enumerate(paths):
        for link in path:
            users.setdefault(link, []).append(i)
    graph = nx.Graph()
    graph.add_nodes_from(range(len(paths)))
    graph.add_edges_from(pair for listed in users.values() for pair in combinations(listed, 2))
    return 1 + max(nx.greedy_color(graph, strategy="DSATUR").values())


def own_colours(network: Network, lightpaths: Sequence[Lightpath]) -> int:
    """Rounds of one wavelength."""
    return len(assign_wavelengths(network, lightpaths, wavelengths=1, switching="wsxc").rounds)


def main() -> None:
    print(
        f"{'network':26} {'paths':>6} {'bound':>6} | {'ours':>5} {'s':>8} | {'DSATUR':>6} {'s':>8} {'x':>6} | CP-SAT"
    )
    for name in NETWORKS:
        network = load_network(name)
        lightpaths = lightpaths_between(network, all_to_all(network))
        paths = [[network.link_index[link] for link in path.links] for path in lightpaths]
        bound = max(Counter(link for path in paths for link in path).values())
        found, own_s = timed(partial(own_colours, network, lightpaths), 5)
        coloured, dsatur_s = timed(partial(dsatur_colours, paths), 1)
        began = time.perf_counter()
        state = solve_packing(paths, bound, 1, time_limit_s=CP_SAT_LIMIT_S).state
        cp_s = time.perf_counter() - began
        print(
            f"{name:26} {len(paths):6} {bound:6} | {found:5} {own_s:8.4f} | {coloured:6} {dsatur_s:8.3f} "
            f"{dsatur_s / own_s:6.1f} | {state} at the bound, {cp_s:.2f} s ({cp_s / own_s:.0f} x)"
        )


if __name__ == "__main__":
    main()
