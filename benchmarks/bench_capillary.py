"""How long capillary routes of random geometric networks take: exact, certified, in floats, and by the thesis' own
loop.

Medians over a few networks of each size, all in one run: ``python benchmarks/bench_capillary.py [--quick]``; the kernel
is compiled (or read from its cache) first. The thesis' loop (layered maximum flow and bottleneck hunting on HiGHS) runs
on the first network of the smaller sizes. The largest size, 10000 nodes and 100000 links, is one network: what one
machine of several has to route when an emulated network is spread over them.
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

SIZES = (
    (115, 700, 9, True),
    (300, 2556, 9, True),
    (1000, 9000, 5, False),
    (3000, 30000, 3, False),
    (10000, 100000, 1, False),
)
"""(nodes, directed links, networks measured, is the thesis' loop run too)."""
MANY = 200
"""Networks of 300 nodes that are to be routed and certified in a row; ``--quick`` measures a tenth."""
Result = TypeVar("Result")


def geometric_network(nodes: int, links: int, seed: int) -> Network:
    """Points in the unit square, the ``links / 2`` nearest pairs joined in both directions."""
    rng = random.Random(seed)
    places = [(rng.random(), rng.random()) for _ in range(nodes)]
    reach = 1.6 * math.sqrt(links / (math.pi * nodes * nodes))
    pairs = [(math.dist(places[i], places[j]), i, j) for j, i in cKDTree(places).query_pairs(reach)]
    nearest = sorted(pairs)[: links // 2]
    ends = [way for _, i, j in nearest for way in ((i, j), (j, i))]
    return Network(
        name=f"geometric-{nodes}-{seed}",
        nodes=tuple(
            Node(id=str(i), kind="switch", position=place) for i, place in enumerate(places)
        ),
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


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """Medians over the networks of one size, seconds; ``thesis``: the loop on the first network (None: not run)."""

    nodes: int
    links: int
    layers: float
    exact: float
    certified: float
    floats: float
    thesis: float | None
    peer_words: str = ""

    def line(self) -> str:
        row = f"{self.nodes:6d} {self.links:6d} {self.layers:7.0f} "
        row += " ".join(f"{each:9.4f}" for each in (self.exact, self.certified, self.floats))
        if self.thesis is None:
            return row
        ratios = " ".join(
            f"{self.thesis / each:8.0f}x" for each in (self.exact, self.certified, self.floats)
        )
        return f"{row} {self.thesis:9.2f} {ratios}  {self.peer_words}"


def measure(nodes: int, links: int, wanted: int, with_peer: bool) -> SizeFigures:
    """The best of three runs of each network, then the median of the networks."""
    exact, certified, floats, layers = [], [], [], []
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
    seconds, words = None, ""
    if with_peer:
        seconds, hunted = timed(lambda: hunt_layers(networks[0], "0", sink))
        true = capillary_route(networks[0], "0", sink)
        error = max(abs(a - float(b)) for a, b in zip(hunted.loads, true.loads, strict=True))
        words = f"{hunted.linear_programs} programmes, loads agree to {error:.0e}"
    return SizeFigures(
        nodes=nodes,
        links=links,
        layers=statistics.median(layers),
        exact=statistics.median(exact),
        certified=statistics.median(certified),
        floats=statistics.median(floats),
        thesis=seconds,
        peer_words=words,
    )


def route_and_certify(network: Network, sink: str) -> SplitRoute:
    """The exact route; the bench ends where its certificate does not hold."""
    found = capillary_route(network, "0", sink)
    certificate = check_certificate(network, "0", sink, found.loads)
    if not certificate.valid:
        raise SystemExit(
            f"{network.name}: the certificate does not hold: {certificate.violations[0]}"
        )
    return found


def held_bytes() -> int:
    """The most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_many(count: int) -> float:
    networks = connected_networks(300, 2556, count)
    return timed(lambda: [route_and_certify(network, "299") for network in networks])[0]


def bars(
    found: dict[int, SizeFigures], many_s: float | None, memory_bytes: float
) -> list[tuple[str, float, float, bool]]:
    """(what is to hold, bar, measured, is the bar the least that will do); what was not measured is left out."""
    rows = []
    if (middle := found.get(300)) is not None and middle.thesis is not None:
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
    if (large := found.get(3000)) is not None:
        rows.append(("3000/30000 exact and certified, s", 2.0, large.certified, False))
    if (largest := found.get(10000)) is not None:
        rows.append(("10000/100000 exact, s", 3.5, largest.exact, False))
    return [*rows, ("most memory held, MB", 1000.0, memory_bytes / 1e6, False)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the two largest sizes and most of the many networks",
    )
    arguments = parser.parse_args()
    capillary_recursion.COMPILE_FROM_LINKS = 0
    small = geometric_network(30, 200, 1)
    seconds, _ = timed(
        lambda: (capillary_route(small, "0", "29"), FloatRouter(small).loads("0", "29"))
    )
    print(f"numba and the kernel ready after {seconds:.1f} s; all figures are seconds")
    print(
        f"{'nodes':>6} {'links':>6} {'layers':>7} {'exact':>9} {'certified':>9} {'float':>9} {'thesis':>9} "
        f"{'/exact':>9} {'/certif.':>9} {'/float':>9}"
    )
    found = {}
    for size in SIZES[:-2] if arguments.quick else SIZES:
        found[size[0]] = measure(*size)
        print(
            f"{found[size[0]].line()}  {held_bytes() / 1e6:.0f} MB held at most so far", flush=True
        )
    count = MANY // 10 if arguments.quick else MANY
    many_s = measure_many(count)
    print(
        f"{count} networks of 300 nodes and 2556 links, exact and certified one after another: {many_s:.2f} s"
    )
    for name, bar, measured, least in bars(
        found, None if arguments.quick else many_s, held_bytes()
    ):
        met = measured >= bar if least else measured <= bar
        print(
            f"{'met   ' if met else 'MISSED'} {name}: {measured:.4g} ({'at least' if least else 'at most'} {bar:g})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
