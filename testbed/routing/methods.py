"""Routing methods by name, as commands, plans and experiments give them: single, ecmp, disjoint:k, min-cost,
capillary:K.

The linear programmes (thesis-loop, least-fec:T, smore:K) load scipy when they are first requested.
"""

from collections.abc import Callable

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.model.workload import lazily
from testbed.routing.baselines import (
    all_disjoint_paths,
    cheapest_max_flow,
    disjoint_paths,
    ecmp,
    max_flow,
    single_path,
)
from testbed.routing.capillary.route import capillary_route
from testbed.routing.named_routings import ROUTINGS as ROUTINGS
from testbed.routing.named_routings import RoutingMethod as RoutingMethod
from testbed.routing.named_routings import routing_method as routing_method
from topologies.network import Network
from topologies.registry import PluginError


def _numbered(name: str, numbered: Callable[[Network, str, str, int], SplitRoute]) -> Callable[[str], RoutingMethod]:
    """From the text after the colon to the routing; InputError where it is no whole number of at least 1."""

    def make(text: str) -> RoutingMethod:
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise InputError(f"routing method '{name}:{text}': {text!r} must be a whole number of at least 1")
        return lambda network, source, sink: numbered(network, source, sink, int(text))

    return make


def _least_fec(tolerance: str) -> RoutingMethod:
    """The route of least ROR for large blocks (Gabrielyan 2007, eq. 29) at that tolerance."""
    try:
        value = float(tolerance)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise InputError(
            f"routing method 'least-fec:{tolerance}': give the tolerance it is least for, 0 or more and below 1, "
            "such as least-fec:0.05"
        )

    least_fec_route = lazily("testbed.routing.redundancy.least_fec:least_fec_route")
    return lambda network, source, sink: least_fec_route(network, source, sink, value).route


ROUTINGS.register("single", single_path)
ROUTINGS.register("ecmp", ecmp)
ROUTINGS.register("disjoint-2", lambda network, source, sink: disjoint_paths(network, source, sink, 2))
ROUTINGS.register("disjoint-all", all_disjoint_paths)
ROUTINGS.register("max-flow", max_flow)
ROUTINGS.register("min-cost", cheapest_max_flow)
ROUTINGS.register("capillary", capillary_route)
# the solver takes a third of a second to import
ROUTINGS.register("thesis-loop", lazily("testbed.routing.capillary.thesis_loop:thesis_route"))
ROUTINGS.register("disjoint:k", _numbered("disjoint", disjoint_paths))
ROUTINGS.register("capillary:K", _numbered("capillary", capillary_route))
ROUTINGS.register("least-fec:T", _least_fec)
ROUTINGS.register("smore:K", _numbered("smore", lazily("testbed.routing.semi_oblivious:smore_route")))


def route_by_name(
    network: Network, source: str, sink: str, method: str = "capillary", layers: int | None = None
) -> SplitRoute:
    """The split route from ``source`` to ``sink`` by the method of that name.

    Raises InputError (method, layers, end points) and NoPathError where the sink cannot be reached.

    >>> from topologies.network import Link, Node
    >>> pair = Network(name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
    ...                links=(Link(source="a", target="b"), Link(source="a", target="b", key=1)))
    >>> [str(load) for load in route_by_name(pair, "a", "b", "disjoint:3").loads]
    ['1/2', '1/2']
    """
    route = routing_method(method, layers)(network, source, sink)
    if not isinstance(route, SplitRoute) or (route.source, route.sink) != (source, sink):
        raise PluginError(
            f"routing method {method!r} gave {type(route).__name__}, no route from {source!r} to {sink!r}"
        )
    return route
