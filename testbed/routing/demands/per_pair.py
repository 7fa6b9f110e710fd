"""Routings of each pair without regard to the other pairs.

They are capillary routing in floats, and any routing method of one flow.
"""

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import FloatArray
from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, sparse_shares
from testbed.routing.methods import routing_method
from topologies import Network, reverse_of


def capillary_demands(matrix: DemandMatrix) -> RoutedDemands:
    """Route every pair by its full capillary route, to about nine digits (``FloatRouter``).

    The capillary route is unique. Therefore, if every link has an opposite link of the same
    capacity, the route from b to a is the mirror image of the route from a to b, and only half of
    the pairs are computed. The cost is 0.5 ms per pair with 50 nodes and 176 links.

    Raises:
        NoPathError: A sink cannot be reached.
    """
    router = FloatRouter(matrix.network)
    opposite_links = mirror_links(matrix.network)
    # Routes whose mirror image may still be needed.
    routes: dict[tuple[str, str], FloatArray] = {}
    rows = []
    for source, sink in matrix.pairs:
        if opposite_links is not None and (sink, source) in routes:
            rows.append(routes.pop((sink, source))[opposite_links])
        else:
            routes[source, sink] = router.loads(source, sink)
            rows.append(routes[source, sink])
    return RoutedDemands(matrix=matrix, method="capillary", shares=sparse_shares(rows))


def mirror_links(network: Network) -> NDArray[np.int64] | None:
    """Return the index of each link's opposite link.

    Returns:
        Shape (links,); None if a link has no opposite link, or one of another capacity.
    """
    opposites = []
    for link in network.links:
        opposite = network.link_index.get(reverse_of(link.id))
        if opposite is None or network.links[opposite].capacity_bps != link.capacity_bps:
            return None
        opposites.append(opposite)
    return np.array(opposites, dtype=np.int64)


def demands_by_method(matrix: DemandMatrix, method: str) -> RoutedDemands:
    """Route every pair by a method of one flow (``testbed route``).

    The shares are exact, and then rounded to floats.

    Raises:
        InputError: The method is unknown.
        NoPathError: A sink cannot be reached.
    """
    routing = routing_method(method)
    rows = []
    for source, sink in matrix.pairs:
        loads = routing(matrix.network, source, sink).loads
        rows.append(np.array([float(load) for load in loads]))
    return RoutedDemands(matrix=matrix, method=method, shares=sparse_shares(rows))
