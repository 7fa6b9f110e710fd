"""Measures how long capillary routes of random geometric networks take.

    python benchmarks/bench_capillary.py [--quick]

Routes are exact, exact with a certificate, in floats, and by the loop of the thesis. Figures are
medians over a few networks of each size, all in one run. The kernel is compiled first, or read from
its cache. The loop of the thesis (layered maximum flow and bottleneck hunting on HiGHS) runs on the
first network of the smaller sizes. The largest size, 10000 nodes and 100000 links, is one network:
the work of one machine when an emulated network is distributed over several.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

from scipy.spatial import cKDTree

from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route
from testbed.routing.capillary import route as capillary_recursion
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.capillary.thesis_loop import hunt_layers
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

# Nodes, directed links, number of networks, and whether the loop of the thesis runs, too.
SIZES = (
    (115, 700, 9, True),
    (300, 2556, 9, True),
    (1000, 9000, 5, False),
    (3000, 30000, 3, False),
    (10000, 100000, 1, False),
)

# Number of networks of 300 nodes that are routed and certified in a row; ``--quick`` measures a
# tenth.
MANY = 200

Result = TypeVar("Result")


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Return points in the unit square, of which the nearest pairs are connected.

    Args:
        nodes: Number of points.
        links: Number of links; a pair has one in each direction.
        seed: Seed of the positions.
    """
    rng = random.Random(seed)
    positions = [(rng.random(), rng.random()) for _ in range(nodes)]
    # Far enough that there are more pairs than needed.
    reach = 1.6 * math.sqrt(links / (math.pi * nodes * nodes))
    pairs = []
    for j, i in cKDTree(positions).query_pairs(reach):
        pairs.append((math.dist(positions[i], positions[j]), i, j))
    link_list = []
    for _, i, j in sorted(pairs)[: links // 2]:
        link_list.append(Link(source=str(i), target=str(j)))
        link_list.append(Link(source=str(j), target=str(i)))
    node_list = []
    for i, position in enumerate(positions):
        node_list.append(Node(id=str(i), kind="switch", position=position))
    return Network(name=f"geometric-{nodes}-{seed}", nodes=tuple(node_list), links=tuple(link_list))


def connected_networks(nodes: int, links: int, wanted: int) -> list[Network]:
    """Return the first networks, by seed, in which the last node can be reached from the first."""
    networks: list[Network] = []
    seed = 0
    while len(networks) < wanted:
        seed += 1
        network = geometric_network(nodes, links, seed)
        try:
            capillary_route(network, "0", str(nodes - 1))
        except NoPathError:
            continue
        networks.append(network)
    return networks


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    """Return the seconds that an action takes, and its result."""
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """Medians in seconds over the networks of one size.

    Attributes:
        nodes: Number of nodes.
        links: Number of directed links.
        layers: Number of layers.
        exact: Exact route.
        certified: Exact route with its certificate.
        floats: Route in floats.
        thesis: The loop of the thesis on the first network, or None.
        peer_text: Remarks about this loop.
    """

    nodes: int
    links: int
    layers: float
    exact: float
    certified: float
    floats: float
    thesis: float | None
    peer_text: str = ""

    def line(self) -> str:
        """Return the row of the table."""
        row = f"{self.nodes:6d} {self.links:6d} {self.layers:7.0f} "
        row += " ".join(f"{each:9.4f}" for each in (self.exact, self.certified, self.floats))
        if self.thesis is None:
            return row
        ratios = " ".join(
            f"{self.thesis / each:8.0f}x" for each in (self.exact, self.certified, self.floats)
        )
        return f"{row} {self.thesis:9.2f} {ratios}  {self.peer_text}"


def measure(nodes: int, links: int, wanted: int, with_peer: bool) -> SizeFigures:
    """Return the medians over networks of one size; of each network the best of three runs counts.

    Args:
        nodes: Number of nodes.
        links: Number of directed links.
        wanted: Number of networks.
        with_peer: Whether the loop of the thesis runs, too.
    """
    exact = []
    certified = []
    floats = []
    layers = []
    networks = connected_networks(nodes, links, wanted)
    sink = str(nodes - 1)
    for network in networks:

        def certify(network: Network = network) -> SplitRoute:
            return route_and_certify(network, sink)

        def route(network: Network = network) -> SplitRoute:
            return capillary_route(network, "0", sink)

        def in_floats(network: Network = network) -> object:
            return FloatRouter(network).loads("0", sink)

        exact.append(min(timed(route)[0] for _ in range(3)))
        certified.append(min(timed(certify)[0] for _ in range(3)))
        floats.append(min(timed(in_floats)[0] for _ in range(3)))
        layers.append(len(route().layers))
    peer_s = None
    peer_text = ""
    if with_peer:
        peer_s, hunted = timed(partial(hunt_layers, networks[0], "0", sink))
        true = capillary_route(networks[0], "0", sink)
        error = max(abs(a - float(b)) for a, b in zip(hunted.loads, true.loads, strict=True))
        peer_text = f"{hunted.linear_programs} programmes, loads agree to {error:.0e}"
    return SizeFigures(
        nodes=nodes,
        links=links,
        layers=statistics.median(layers),
        exact=statistics.median(exact),
        certified=statistics.median(certified),
        floats=statistics.median(floats),
        thesis=peer_s,
        peer_text=peer_text,
    )


def route_and_certify(network: Network, sink: str) -> SplitRoute:
    """Return the exact route; exit if its certificate does not hold."""
    route = capillary_route(network, "0", sink)
    certificate = check_certificate(network, "0", sink, route.loads)
    if not certificate.valid:
        raise SystemExit(
            f"{network.name}: the certificate does not hold: {certificate.violations[0]}"
        )
    return route


def peak_memory_bytes() -> int:
    """Return the largest amount of memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_many(count: int) -> float:
    """Return the seconds in which networks of 300 nodes are routed and certified in a row."""
    networks = connected_networks(300, 2556, count)
    began = perf_counter()
    for network in networks:
        route_and_certify(network, "299")
    return perf_counter() - began


def bars(
    figures: dict[int, SizeFigures], many_s: float | None, memory_bytes: float
) -> list[tuple[str, float, float, bool]]:
    """Return the targets of the figures that were measured.

    Returns:
        Name, limit, measured value, and whether the limit is a minimum.
    """
    rows = []
    middle = figures.get(300)
    if middle is not None and middle.thesis is not None:
        rows += [
            ("300/2556 exact and certified, ms", 50.0, 1000 * middle.certified, False),
            (
                "300/2556 exact and certified, times the thesis' loop",
                300.0,
                middle.thesis / middle.certified,
                True,
            ),
            ("300/2556 in floats, ms", 10.0, 1000 * middle.floats, False),
            (
                "300/2556 in floats, times the thesis' loop",
                1000.0,
                middle.thesis / middle.floats,
                True,
            ),
        ]
    if many_s is not None:
        rows.append((f"{MANY} networks of 300/2556, s", 15.0, many_s, False))
    large = figures.get(3000)
    if large is not None:
        rows.append(("3000/30000 exact and certified, s", 2.0, large.certified, False))
    largest = figures.get(10000)
    if largest is not None:
        rows.append(("10000/100000 exact, s", 3.5, largest.exact, False))
    return [*rows, ("most memory held, MB", 1000.0, memory_bytes / 1e6, False)]


def route_small_network() -> None:
    """Route a small network, so that the kernel is compiled."""
    network = geometric_network(30, 200, 1)
    capillary_route(network, "0", "29")
    FloatRouter(network).loads("0", "29")


def main() -> int:
    """Print the figures and whether they meet their targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the two largest sizes and most of the many networks",
    )
    arguments = parser.parse_args()
    capillary_recursion.COMPILE_FROM_LINKS = 0
    ready_s, _ = timed(route_small_network)
    print(f"numba and the kernel ready after {ready_s:.1f} s; all figures are seconds")
    print(
        f"{'nodes':>6} {'links':>6} {'layers':>7} {'exact':>9} {'certified':>9} {'float':>9} "
        f"{'thesis':>9} {'/exact':>9} {'/certif.':>9} {'/float':>9}"
    )
    sizes = SIZES[:-2] if arguments.quick else SIZES
    count = MANY // 10 if arguments.quick else MANY
    figures = {}
    for size in sizes:
        row = measure(*size)
        figures[row.nodes] = row
        print(f"{row.line()}  {peak_memory_bytes() / 1e6:.0f} MB held at most so far", flush=True)
    many_s = measure_many(count)
    print(
        f"{count} networks of 300 nodes and 2556 links, exact and certified one after another: "
        f"{many_s:.2f} s"
    )
    judged_many_s = None if arguments.quick else many_s
    for name, limit, measured, is_minimum in bars(figures, judged_many_s, peak_memory_bytes()):
        met = measured <= limit
        relation = "at most"
        if is_minimum:
            met = measured >= limit
            relation = "at least"
        verdict = "met   " if met else "MISSED"
        print(f"{verdict} {name}: {measured:.4g} ({relation} {limit:g})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
