"""One pair of a routed demand matrix as a route of its own: its flow taken apart into paths, and those laid out as
labels."""

from fractions import Fraction

from testbed.arrays import FloatArray
from testbed.model.label_split import LabelSplit
from testbed.model.routes import SplitRoute
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.label_split.spraying import paths_split
from topologies.network import Network

_LEAST = 1e-6
"""Of a pair's flow: what is below this is left over by the solver's rounding."""


def pair_route(routed: RoutedDemands, pair: int) -> tuple[LabelSplit, SplitRoute]:
    """The labels of one pair (index) and the route with just these loads. Every path's labels lie side by side."""
    network, (source, sink) = routed.matrix.network, routed.matrix.pairs[pair]
    paths = flow_paths(network, (source, sink), routed.pair_shares(pair))
    split = paths_split(network, source, sink, paths)
    loads = tuple(split.load(i) for i in range(len(network.links)))
    return split, SplitRoute(network=network, source=source, sink=sink, method=routed.method, loads=loads)


def flow_paths(network: Network, ends: tuple[str, str], shares: FloatArray) -> list[tuple[tuple[int, ...], Fraction]]:
    """(links, share) of each path into which a flow of one unit falls apart: the one of the greatest share first, then
    of what is left.

    What circles is left aside, and so are shares below a millionth. Cost: paths times links.
    """
    left, found = [float(share) for share in shares], []
    while (path := _widest(network, ends, left)) is not None:
        width = min(left[i] for i in path)
        for i in path:
            left[i] -= width
        found.append((path, Fraction(width)))
    return found


def _widest(network: Network, ends: tuple[str, str], left: list[float]) -> tuple[int, ...] | None:
    """The links of the path of which the narrowest is widest; None where no path has anything left."""
    widest: dict[str, tuple[float, tuple[int, ...]]] = {ends[0]: (1.0, ())}
    settled: set[str] = set()
    while True:
        waiting = [(wide, node) for node, (wide, _) in widest.items() if node not in settled]
        if not waiting:
            return None
        wide, node = max(waiting)
        if node == ends[1]:
            return widest[node][1]
        settled.add(node)
        for i, link in enumerate(network.links):
            through = min(wide, left[i])
            if link.source == node and through > max(_LEAST, widest.get(link.target, (0.0,))[0]):
                widest[link.target] = (through, (*widest[node][1], i))
