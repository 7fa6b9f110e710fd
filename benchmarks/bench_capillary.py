"""Measures capillary routes: exact, certified, in floats, and by the loop of the thesis.

    python benchmarks/bench_capillary.py [--quick]

The figures are medians over a few random geometric networks of each size, after compilation. The
loop of the thesis (layered maximum flow, and bottleneck hunting on HiGHS) runs on the first network
of the smaller sizes. The largest size, 10000 nodes and 100000 links, is one network. It is what one
of several machines must route if an emulated network is divided among them.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, TypeVar

from scipy.spatial import cKDTree

from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route
from testbed.routing.capillary import route as capillary_recursion
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.capillary.thesis_loop import hunt_layers
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

Result = TypeVar("Result")


class Size(NamedTuple):
    """A size of networks.

    Attributes:
        nodes: Number of nodes.
        links: Number of directed links.
        networks: Number of networks that are measured.
        with_thesis: Whether the loop of the thesis is run too.
    """

    nodes: int
    links: int
    networks: int
    with_thesis: bool


SIZES = (
    Size(115, 700, 9, True),
    Size(300, 2556, 9, True),
    Size(1000, 9000, 5, False),
    Size(3000, 30000, 3, False),
    Size(10000, 100000, 1, False),
)

# Number of networks of 300 nodes that are routed and certified one after another.
MANY = 200
QUICK_MANY = 20

# The shortest of this number of runs counts.
RUNS = 3


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Return a network of random points in the unit square.

    The ``links / 2`` nearest pairs of points are connected in both directions.
    """
    rng = random.Random(seed)
    positions = [(rng.random(), rng.random()) for _ in range(nodes)]
    # Only pairs within this distance are candidates. There are about 2.6 times as many as needed.
    max_distance = 1.6 * math.sqrt(links / (math.pi * nodes * nodes))
    pairs = []
    for second, first in cKDTree(positions).query_pairs(max_distance):
        pairs.append((math.dist(positions[first], positions[second]), first, second))
    network_links = []
    for _, first, second in sorted(pairs)[: links // 2]:
        network_links.append(Link(source=str(first), target=str(second)))
        network_links.append(Link(source=str(second), target=str(first)))
    network_nodes = []
    for index, position in enumerate(positions):
        network_nodes.append(Node(id=str(index), kind="switch", position=position))
    return Network(
        name=f"geometric-{nodes}-{seed}", nodes=tuple(network_nodes), links=tuple(network_links)
    )


def connected_networks(nodes: int, links: int, count: int) -> list[Network]:
    """Return the first networks, by seed, whose last node can be reached from the first."""
    networks: list[Network] = []
    seed = 0
    while len(networks) < count:
        seed += 1
        network = geometric_network(nodes, links, seed)
        try:
            capillary_route(network, "0", str(nodes - 1))
        except NoPathError:
            continue
        networks.append(network)
    return networks


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Return the duration of an action in seconds, and its result."""
    start_s = perf_counter()
    result = action()
    return perf_counter() - start_s, result


def shortest(action: Callable[[], object]) -> float:
    """Return the shortest duration of several runs, in seconds."""
    durations_s = []
    for _ in range(RUNS):
        duration_s, _ = timed(action)
        durations_s.append(duration_s)
    return min(durations_s)


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """The figures of a size: medians over the networks, times in seconds.

    Attributes:
        nodes: Number of nodes.
        links: Number of links.
        layers: Number of layers.
        exact: Time of the exact route.
        certified: Time of the exact route and its certificate.
        floats: Time of the route in floats.
        thesis: Time of the thesis' loop on the first network, or None.
        thesis_remark: Remark about the thesis' loop.
    """

    nodes: int
    links: int
    layers: float
    exact: float
    certified: float
    floats: float
    thesis: float | None
    thesis_remark: str = ""

    def line(self) -> str:
        times_s = (self.exact, self.certified, self.floats)
        row = f"{self.nodes:6d} {self.links:6d} {self.layers:7.0f} "
        row += " ".join(f"{time_s:9.4f}" for time_s in times_s)
        if self.thesis is None:
            return row
        ratios = " ".join(f"{self.thesis / time_s:8.0f}x" for time_s in times_s)
        return f"{row} {self.thesis:9.2f} {ratios}  {self.thesis_remark}"


def measure(size: Size) -> SizeFigures:
    """Measure the networks of a size."""
    exact_s = []
    certified_s = []
    floats_s = []
    layers = []
    networks = connected_networks(size.nodes, size.links, size.networks)
    sink = str(size.nodes - 1)
    for network in networks:
        exact_s.append(exact_time_s(network, sink))
        certified_s.append(certified_time_s(network, sink))
        floats_s.append(floats_time_s(network, sink))
        layers.append(len(capillary_route(network, "0", sink).layers))
    thesis_s = None
    remark = ""
    if size.with_thesis:
        thesis_s, remark = measure_thesis(networks[0], sink)
    return SizeFigures(
        nodes=size.nodes,
        links=size.links,
        layers=statistics.median(layers),
        exact=statistics.median(exact_s),
        certified=statistics.median(certified_s),
        floats=statistics.median(floats_s),
        thesis=thesis_s,
        thesis_remark=remark,
    )


def exact_time_s(network: Network, sink: str) -> float:
    return shortest(lambda: capillary_route(network, "0", sink))


def certified_time_s(network: Network, sink: str) -> float:
    return shortest(lambda: route_and_certify(network, sink))


def floats_time_s(network: Network, sink: str) -> float:
    def route() -> object:
        return FloatRouter(network).loads("0", sink)

    return shortest(route)


def measure_thesis(network: Network, sink: str) -> tuple[float, str]:
    """Return the time of the thesis' loop in seconds, and a remark."""

    def hunt() -> SplitRoute:
        return hunt_layers(network, "0", sink)

    thesis_s, thesis_route = timed(hunt)
    exact_route = capillary_route(network, "0", sink)
    error = 0.0
    for load, exact_load in zip(thesis_route.loads, exact_route.loads, strict=True):
        error = max(error, abs(load - float(exact_load)))
    return thesis_s, f"{thesis_route.linear_programs} programmes, loads agree to {error:.0e}"


def route_and_certify(network: Network, sink: str) -> SplitRoute:
    """Return the exact route, and exit if its certificate is invalid."""
    route = capillary_route(network, "0", sink)
    certificate = check_certificate(network, "0", sink, route.loads)
    if not certificate.valid:
        raise SystemExit(
            f"{network.name}: the certificate does not hold: {certificate.violations[0]}"
        )
    return route


def max_memory_bytes() -> int:
    """Return the most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_many(count: int) -> float:
    """Return the time in which networks of 300 nodes are routed and certified, in seconds."""
    networks = connected_networks(300, 2556, count)
    start_s = perf_counter()
    for network in networks:
        route_and_certify(network, "299")
    return perf_counter() - start_s


class Requirement(NamedTuple):
    """A requirement for a figure.

    Attributes:
        name: Name of the figure.
        limit: The limit.
        measured: The figure.
        is_minimum: Whether the limit is the smallest accepted value, and not the largest.
    """

    name: str
    limit: float
    measured: float
    is_minimum: bool = False

    def line(self) -> str:
        """Return the line of the requirement in the output."""
        if self.is_minimum:
            met = self.measured >= self.limit
            relation = "at least"
        else:
            met = self.measured <= self.limit
            relation = "at most"
        outcome = "met   " if met else "MISSED"
        return f"{outcome} {self.name}: {self.measured:.4g} ({relation} {self.limit:g})"


def requirements(
    figures_by_nodes: Mapping[int, SizeFigures], many_s: float | None
) -> list[Requirement]:
    """Return the requirements for figures that were measured."""
    result = []
    middle = figures_by_nodes.get(300)
    if middle is not None and middle.thesis is not None:
        certified_ratio = middle.thesis / middle.certified
        floats_ratio = middle.thesis / middle.floats
        times = "times the thesis' loop"
        result += [
            Requirement("300/2556 exact and certified, ms", 50.0, 1000 * middle.certified),
            Requirement(f"300/2556 exact and certified, {times}", 300.0, certified_ratio, True),
            Requirement("300/2556 in floats, ms", 10.0, 1000 * middle.floats),
            Requirement(f"300/2556 in floats, {times}", 1000.0, floats_ratio, True),
        ]
    if many_s is not None:
        result.append(Requirement(f"{MANY} networks of 300/2556, s", 15.0, many_s))
    if 3000 in figures_by_nodes:
        certified_s = figures_by_nodes[3000].certified
        result.append(Requirement("3000/30000 exact and certified, s", 2.0, certified_s))
    if 10000 in figures_by_nodes:
        exact_s = figures_by_nodes[10000].exact
        result.append(Requirement("10000/100000 exact, s", 3.5, exact_s))
    result.append(Requirement("most memory held, MB", 1000.0, max_memory_bytes() / 1e6))
    return result


def compile_routines() -> float:
    """Route a small network by each method, and return the time in seconds."""
    capillary_recursion.COMPILE_FROM_LINKS = 0
    network = geometric_network(30, 200, 1)
    start_s = perf_counter()
    capillary_route(network, "0", "29")
    FloatRouter(network).loads("0", "29")
    return perf_counter() - start_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the two largest sizes and most of the many networks",
    )
    quick = parser.parse_args().quick
    compile_s = compile_routines()
    print(f"numba and the kernel ready after {compile_s:.1f} s; all figures are seconds")
    print(
        f"{'nodes':>6} {'links':>6} {'layers':>7} {'exact':>9} {'certified':>9} {'float':>9} "
        f"{'thesis':>9} {'/exact':>9} {'/certif.':>9} {'/float':>9}"
    )
    figures_by_nodes = {}
    for size in SIZES[:-2] if quick else SIZES:
        figures = measure(size)
        figures_by_nodes[size.nodes] = figures
        print(
            f"{figures.line()}  {max_memory_bytes() / 1e6:.0f} MB held at most so far", flush=True
        )
    count = QUICK_MANY if quick else MANY
    many_s = measure_many(count)
    print(
        f"{count} networks of 300 nodes and 2556 links, exact and certified one after another: "
        f"{many_s:.2f} s"
    )
    for requirement in requirements(figures_by_nodes, None if quick else many_s):
        print(requirement.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
