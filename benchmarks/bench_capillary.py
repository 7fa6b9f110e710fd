"""How long exact capillary routes of random geometric networks take: median seconds over a few networks of each size.

Run it as ``python benchmarks/bench_capillary.py [--quick]``; the kernel is compiled (or read from its cache) first.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from testbed.model.routes import SplitRoute
from testbed.routing import capillary_recursion, capillary_route
from testbed.routing.certificate import check_certificate
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

SIZES = ((115, 700, 9), (300, 2556, 9), (1000, 9000, 5), (3000, 30000, 3))
"""(nodes, directed links, networks measured)."""
Result = TypeVar("Result")


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Points in the unit square, the ``links / 2`` nearest pairs joined in both directions."""
    rng = random.Random(seed)
    places = [(rng.random(), rng.random()) for _ in range(nodes)]
    reach = 1.6 * math.sqrt(links / (math.pi * nodes * nodes))
    pairs = [(math.dist(places[i], places[j]), i, j) for i in range(nodes) for j in range(i)]
    nearest = sorted(pair for pair in pairs if pair[0] < reach)[: links // 2]
    ends = [way for _, i, j in nearest for way in ((i, j), (j, i))]
    return Network(
        name=f"geometric-{nodes}-{seed}",
        nodes=tuple(Node(id=str(i), kind="switch", position=place) for i, place in enumerate(places)),
        links=tuple(Link(source=str(a), target=str(b)) for a, b in ends),
    )


def connected_networks(nodes: int, links: int, wanted: int) -> list[Network]:
    """The first networks, by seed, in which the last node can be reached from the first."""
    found: list[Network] = []
    seed = 0
    while len(found) < wanted:
        seed += 1
        network = geometric_network(nodes, links, seed)
        try:
            capillary_route(network, "0", str(nodes - 1))
        except NoPathError:
            continue
        found.append(network)
    return found


def timed(action: Callable[[], Result]) -> tuple[float, Result]:
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def measure(nodes: int, links: int, wanted: int) -> str:
    """One row: the best of three runs of each network, then the median of the networks."""
    routing, certifying, layers, bits = [], [], [], []
    for network in connected_networks(nodes, links, wanted):

        def route(network: Network = network) -> SplitRoute:
            return capillary_route(network, "0", str(nodes - 1))

        runs = [timed(route) for _ in range(3)]
        routing.append(min(seconds for seconds, _ in runs))
        found = runs[0][1]
        seconds, certificate = timed(lambda: check_certificate(network, "0", str(nodes - 1), found.loads))  # noqa: B023
        if not certificate.valid:
            raise SystemExit(f"{network.name}: the certificate does not hold: {certificate.violations[0]}")
        certifying.append(seconds)
        layers.append(len(found.layers))
        bits.append(max(layer.load.denominator.bit_length() for layer in found.layers))
    return (
        f"{nodes:6d} {links:6d} {statistics.median(layers):7.0f} {max(bits):5d} "
        f"{statistics.median(routing):10.4f} {max(routing):8.4f} {statistics.median(certifying):10.4f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the largest size")
    arguments = parser.parse_args()
    capillary_recursion.COMPILE_FROM_LINKS = 0
    seconds, _ = timed(lambda: capillary_route(geometric_network(30, 200, 1), "0", "29"))
    print(f"numba and the kernel ready after {seconds:.1f} s")
    print(f"{'nodes':>6} {'links':>6} {'layers':>7} {'bits':>5} {'median s':>10} {'worst s':>8} {'certify s':>10}")
    for nodes, links, wanted in SIZES[:-1] if arguments.quick else SIZES:
        print(measure(nodes, links, wanted), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
