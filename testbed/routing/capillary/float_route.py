"""Capillary routing in floats: many times faster than exact fractions, where nine digits suffice.

The same recursion as ``testbed.routing.capillary.route``, in one call of the compiled kernel.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.routing.flows.end_points import flow_problem
from topologies.network import Network


class FloatRouter:
    """A network made ready once for many pairs of end points.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> FloatRouter(square).loads("a", "d").tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        index = network.node_index
        self._tail = np.array([index[link.source] for link in network.links], dtype=np.int32)
        self._head = np.array([index[link.target] for link in network.links], dtype=np.int32)
        self._capacity = np.array([link.capacity_bps for link in network.links], dtype=np.float64)
        self._is_host = np.array([node.kind == "host" for node in network.nodes], dtype=bool)

    def loads(self, source: str, sink: str) -> NDArray[np.float64]:
        """Fraction of the flow on each link, shape (links,): the full capillary route to some nine digits.

        Loads below some 1e-12 of the layer above may be lost. Hosts do not forward. Raises InputError (unknown node,
        source equal to sink) and NoPathError.
        """
        index = self._network.node_index
        if source not in index or sink not in index or source == sink:
            flow_problem(self._network, source, sink)  # raises
        start, end = index[source], index[sink]
        silent = self._is_host.copy()
        silent[[start, end]] = False
        usable = ~(silent[self._tail] | silent[self._head] | (self._tail == end) | (self._head == start))
        found = None
        if usable.any():
            from testbed.routing.capillary.kernel import float_loads

            ends = (self._tail[usable], self._head[usable])
            found = float_loads(len(index), ends, self._capacity[usable], start, end)
        if found is None:
            raise flow_problem(self._network, source, sink).no_path()
        loads = np.zeros(len(self._capacity))
        loads[usable] = found
        return loads


def capillary_loads(network: Network, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Float loads of many flows, each of one unit on its own: shape (pairs, links), rows in the order of ``pairs``."""
    if not pairs:
        raise InputError("capillary loads: give at least one pair of end points")
    router = FloatRouter(network)
    return np.array([router.loads(source, sink) for source, sink in pairs])
