"""One pair of a routed demand matrix as a route of its own."""

from __future__ import annotations

from testbed.model.label_split import LabelSplit
from testbed.model.routes import SplitRoute
from testbed.routing.demands.pair_routes import flow_paths
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.label_split.spraying import paths_split


def pair_route(routed: RoutedDemands, pair: int) -> tuple[LabelSplit, SplitRoute]:
    """The labels of one pair (index) and the route with just these loads. Every path's labels lie side by side."""
    network, (source, sink) = routed.matrix.network, routed.matrix.pairs[pair]
    paths = flow_paths(network, (source, sink), routed.pair_shares(pair))
    split = paths_split(network, source, sink, paths)
    loads = tuple(split.load(i) for i in range(len(network.links)))
    return split, SplitRoute(network=network, source=source, sink=sink, method=routed.method, loads=loads)
