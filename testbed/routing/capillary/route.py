"""Capillary routing: the split of one unit of flow whose link loads are lexicographically least, layer by layer.

Exact fractions for any network; large ones are cut up by a compiled kernel whose every answer is checked exactly.
"""

import math
from fractions import Fraction
from itertools import pairwise

from testbed.errors import InputError
from testbed.model.routes import Layer, SplitRoute
from testbed.routing.capillary.recursion import DisconnectedError, FinalLoads, LinkArrays, final_loads
from testbed.routing.flows.end_points import FlowProblem, flow_problem
from testbed.routing.flows.min_cost import fewest_links_flow
from topologies.network import LinkId, Network


def capillary_route(network: Network, source: str, sink: str, layers: int | None = None) -> SplitRoute:
    """The capillary route from ``source`` to ``sink``: exact, unique, with its layers and their bottleneck links.

    A link's load is the fraction of the flow that it carries; what is minimised, greatest first, is load over capacity
    relative to the network's largest capacity. Hosts pass nothing on unless they are ``forwarding``. ``layers=K`` keeps
    the loads that the first K layers fix and sends the rest, within the K-th layer's load, over as few links as
    possible in sum (ties: equally short ways are tried breadth first in the network's order of links); that part is not
    unique, the full route is.

    Time: 3000 nodes and 30000 links about a second; small networks need no numba. Raises InputError (unknown node,
    source equal to sink, layers below 1) and NoPathError (the sink cannot be reached).

    Source: Gabrielyan 2007, section 4.2, eq. 16 to 19 and Figures 44-53, as a recursion over the strongly connected
    components of the residual graph, with cuts found by Dinkelbach's iteration.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    >>> square = Network(name="square", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...                  links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> [str(load) for load in capillary_route(square, "a", "d").loads]
    ['1/2', '1/2', '1/2', '1/2']
    """
    if layers is not None and (isinstance(layers, bool) or not isinstance(layers, int) or layers < 1):
        raise InputError(f"capillary route: layers {layers!r} must be a whole number of at least 1, or None for all")
    problem = flow_problem(network, source, sink)
    arrays = LinkArrays(nodes=problem.nodes, tail=problem.tail, head=problem.head, weight=problem.weight)
    try:
        final = final_loads(arrays, problem.source, problem.sink)
    except DisconnectedError:
        raise problem.no_path() from None
    if layers is None or layers >= len(final.levels):
        return _with_layers(problem, final, _full_shares(problem, final), len(final.levels), "capillary")
    return _with_layers(problem, final, _shares_after(problem, final, layers), layers, f"capillary:{layers}")


def _full_shares(problem: FlowProblem, final: FinalLoads) -> list[Fraction]:
    nothing = Fraction(0)
    rows = zip(final.rank, final.saturated, problem.weight, strict=True)
    levels = final.levels
    return [(levels[at] if weight == 1 else levels[at] * weight) if full else nothing for at, full, weight in rows]


def _shares_after(problem: FlowProblem, final: FinalLoads, layers: int) -> list[Fraction]:
    """What links carry when only the first ``layers`` levels are fixed and the rest goes over the fewest links."""
    shares = _full_shares(problem, final)
    lowest = final.levels[layers - 1]
    free = [i for i, rank in enumerate(final.rank) if rank >= layers]
    scale = math.lcm(*(level.denominator for level in final.levels[:layers]))
    demand = [0] * problem.nodes
    demand[problem.source], demand[problem.sink] = scale, -scale
    for i, rank in enumerate(final.rank):
        if rank < layers and final.saturated[i]:
            demand[problem.tail[i]] -= int(shares[i] * scale)
            demand[problem.head[i]] += int(shares[i] * scale)
    flow, _ = fewest_links_flow(
        [problem.tail[i] for i in free],
        [problem.head[i] for i in free],
        [int(lowest * problem.weight[i] * scale) for i in free],
        demand,
    )
    for i, amount in zip(free, flow, strict=True):
        shares[i] = Fraction(amount, scale)
    return shares


def _with_layers(
    problem: FlowProblem, final: FinalLoads, shares: list[Fraction], layers: int, method: str
) -> SplitRoute:
    link_layers = [0] * len(problem.network.links)
    bottlenecks: list[list[LinkId]] = [[] for _ in range(layers)]
    for link, rank, full in zip(problem.links, final.rank, final.saturated, strict=True):
        if full and rank < layers:
            link_layers[link] = rank + 1
            bottlenecks[rank].append(problem.network.links[link].id)
    loads = [level * problem.largest_weight for level in final.levels[:layers]]
    factors = [1 / loads[0], *(before / after for before, after in pairwise(loads))]
    found = tuple(
        Layer(load=load, factor=factor, bottlenecks=tuple(part))
        for load, factor, part in zip(loads, factors, bottlenecks, strict=True)
    )
    return problem.route(method, shares, found, tuple(link_layers))
