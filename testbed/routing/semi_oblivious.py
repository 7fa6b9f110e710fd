"""Semi-oblivious routing of one flow (Kumar et al. 2018): a few paths of Raecke's trees, rates by linear programme, as
exact fractions."""

import numpy as np

from testbed.model.routes import SplitRoute
from testbed.routing.baselines import single_path
from testbed.routing.demands.link_graph import LinkGraph
from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.path_sets import PathSet, best_rates, shortest_path_set
from testbed.routing.demands.routing_trees import tree_path_set
from testbed.routing.flows.end_points import flow_problem
from testbed.routing.flows.exact_flow import exact_route
from topologies.network import Network

SEED = 1
"""Of the trees: a routing of one flow is given none."""
NOTHING = 1e-6
"""Of the flow: a share below it is the solver's rounding."""


def smore_route(network: Network, source: str, sink: str, paths: int) -> SplitRoute:
    """The flow over at most so many paths, those of the greatest weight over the trees, with the fullest link as empty
    as they allow.

    A host on a single cable goes by its switch, so that ends which only send or only receive can be routed. Where the
    ends cannot reach each other both ways there are no trees: the paths are then the shortest ones. Raises InputError
    and NoPathError.
    """
    problem = flow_problem(network, source, sink)
    single = single_path(network, source, sink)  # raises where no path leads
    start, first = _switch_of(network, source, outward=True)
    end, last = _switch_of(network, sink, outward=False)
    if start == end or sink in (start,) or source in (end,):
        return SplitRoute(network=network, source=source, sink=sink, method=f"smore:{paths}", loads=single.loads)
    shares = best_rates(_paths(network, start, end, paths), "smore").pair_shares(0)
    shares[[*first, *last]] = 1.0
    return exact_route(problem, f"smore:{paths}", shares[list(problem.links)].tolist(), least=NOTHING)


def _paths(network: Network, source: str, sink: str, most: int) -> PathSet:
    matrix = given_matrix(network, "one flow", {(source, sink): 1.0})
    index = network.node_index
    if not np.isfinite(LinkGraph(network).hops()[index[sink], index[source]]):
        return shortest_path_set(matrix, most)
    return tree_path_set(matrix, SEED).heaviest(most)


def _switch_of(network: Network, node: str, *, outward: bool) -> tuple[str, tuple[int, ...]]:
    """(switch, link) of a host on a single cable, going out or coming in; the node itself and no link for all
    others."""
    links = tuple(network.out_links(node) if outward else network.in_links(node))
    if network.node(node).kind != "host" or len(links) != 1:
        return node, ()
    link = network.links[links[0]]
    return (link.target if outward else link.source), links
