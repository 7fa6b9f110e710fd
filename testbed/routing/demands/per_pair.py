"""Each pair routed by itself, without regard to the others: capillary routing in floats, or any method of one flow."""

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import FloatArray
from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, sparse_shares
from testbed.routing.methods import routing_method
from topologies import Network, reverse_of


def capillary_demands(matrix: DemandMatrix) -> RoutedDemands:
    """The full capillary route of every pair, to some nine digits (``FloatRouter``).

    The route is unique, so where each link has a twin the other way of the same capacity, the route back is the mirror
    image of the route there, and half of the pairs need not be computed. Cost: 0.5 ms a pair at 50 nodes and 176 links.
    Raises NoPathError.
    """
    router, mirror = FloatRouter(matrix.network), mirror_links(matrix.network)
    known: dict[tuple[str, str], FloatArray] = {}
    rows = []
    for source, sink in matrix.pairs:
        back = known.pop((sink, source), None) if mirror is not None else None
        if back is not None and mirror is not None:
            rows.append(back[mirror])
        else:
            known[source, sink] = router.loads(source, sink)
            rows.append(known[source, sink])
    return RoutedDemands(matrix=matrix, method="capillary", shares=sparse_shares(rows))


def mirror_links(network: Network) -> NDArray[np.int64] | None:
    """For each link the index of its other direction; None where one has none, or one of another capacity."""
    twins = [network.link_index.get(reverse_of(link.id)) for link in network.links]
    found = [at for at in twins if at is not None]
    if len(found) < len(twins):
        return None
    links = network.links
    same = all(
        link.capacity_bps == links[at].capacity_bps for link, at in zip(links, found, strict=True)
    )
    return np.array(found, dtype=np.int64) if same else None


def demands_by_method(matrix: DemandMatrix, method: str) -> RoutedDemands:
    """Every pair by a method of one flow (``testbed route``): exact, then in floats. Raises InputError and
    NoPathError."""
    route = routing_method(method)
    rows = [
        np.array([float(load) for load in route(matrix.network, source, sink).loads])
        for source, sink in matrix.pairs
    ]
    return RoutedDemands(matrix=matrix, method=method, shares=sparse_shares(rows))
