"""The flow of one pair of a routed demand matrix, taken apart into paths."""

from fractions import Fraction

from testbed.arrays import FloatArray
from topologies.network import Network

_LEAST = 1e-6
"""Of a pair's flow: what is below this is left over by the solver's rounding."""


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
