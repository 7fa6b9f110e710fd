"""Routing methods by name.

Commands, plans and experiments give a method by its name, such as single, ecmp, disjoint:k,
min-cost or capillary:K. The linear programmes (thesis-loop, least-fec:T, smore:K) load scipy when
they are first used.
"""

from collections.abc import Callable
from typing import Any

from testbed.errors import InputError, TestbedError, require_type
from testbed.model.routes import SplitRoute
from testbed.model.workload import lazily
from testbed.routing import baselines
from testbed.routing.capillary.route import capillary_route
from topologies import Network, TopologyError
from topologies.registry import PluginError, Registry, function_check

# Routes one flow from a source to a sink.
RoutingMethod = Callable[[Network, str, str], SplitRoute]

#: Routings of one flow: functions of network, source and sink. A name with a colon (``disjoint:k``)
#: stands for a function of the text after the colon that returns such a routing.
ROUTINGS: Registry[Callable[..., Any]] = Registry(
    "testbed.routings",
    "routing",
    function_check("network, source and sink"),
    (TestbedError, TopologyError),
    files=True,
)


def routing_method(method: str, layers: int | None = None) -> RoutingMethod:
    """Return the routing with this name.

    Args:
        method: Name of the method.
        layers: Number of layers of "capillary", as an alternative to ``capillary:K``.

    Raises:
        InputError: The name is unknown, a number in it is invalid, or ``layers`` is given for
            another method.
        PluginError: A plug-in cannot be used.
    """
    require_type(method, str, "method", "the name of a routing method")
    _, colon, text = method.partition(":")
    registered = ROUTINGS.find(method)
    if registered is None:
        raise InputError(f"routing method {method!r} is not known; {ROUTINGS.nearest(method)}")
    if layers is not None:
        if method != "capillary":
            raise InputError(f"routing method {method!r} takes no layers; only 'capillary' does")
        return routing_method(f"capillary:{layers}")
    if not colon or ROUTINGS.in_file(method):
        routing: RoutingMethod = registered
        return routing
    parametrised: RoutingMethod = registered(text)
    return parametrised


def _numbered(
    name: str, routing: Callable[[Network, str, str, int], SplitRoute]
) -> Callable[[str], RoutingMethod]:
    """Return a function that turns the text after the colon into a routing.

    Args:
        name: Name of the method before the colon.
        routing: Routing with the number as its fourth parameter.
    """

    def parse(text: str) -> RoutingMethod:
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise InputError(
                f"routing method '{name}:{text}': {text!r} must be a whole number of at least 1"
            )

        def numbered_routing(network: Network, source: str, sink: str) -> SplitRoute:
            return routing(network, source, sink, int(text))

        return numbered_routing

    return parse


def _least_fec(text: str) -> RoutingMethod:
    """Return the routing of minimum ROR for large blocks (Gabrielyan 2007, equation 29).

    Args:
        text: The static tolerance, at least 0 and below 1.
    """
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance < 1:
        raise InputError(
            f"routing method 'least-fec:{text}': give a static tolerance of at least 0 and below "
            "1, such as least-fec:0.05"
        )
    least_fec_route = lazily("testbed.routing.redundancy.least_fec:least_fec_route")

    def routing(network: Network, source: str, sink: str) -> SplitRoute:
        route: SplitRoute = least_fec_route(network, source, sink, tolerance).route
        return route

    return routing


def _two_disjoint_paths(network: Network, source: str, sink: str) -> SplitRoute:
    return baselines.disjoint_paths(network, source, sink, 2)


ROUTINGS.register("single", baselines.single_path)
ROUTINGS.register("ecmp", baselines.ecmp)
ROUTINGS.register("disjoint-2", _two_disjoint_paths)
ROUTINGS.register("disjoint-all", baselines.all_disjoint_paths)
ROUTINGS.register("max-flow", baselines.max_flow)
ROUTINGS.register("min-cost", baselines.cheapest_max_flow)
ROUTINGS.register("capillary", capillary_route)
# Imported on first use, because the solver takes a third of a second to import.
ROUTINGS.register("thesis-loop", lazily("testbed.routing.capillary.thesis_loop:thesis_route"))
ROUTINGS.register("disjoint:k", _numbered("disjoint", baselines.disjoint_paths))
ROUTINGS.register("capillary:K", _numbered("capillary", capillary_route))
ROUTINGS.register("least-fec:T", _least_fec)
ROUTINGS.register(
    "smore:K", _numbered("smore", lazily("testbed.routing.demands.path_sets:smore_route"))
)


def route_by_name(
    network: Network, source: str, sink: str, method: str = "capillary", layers: int | None = None
) -> SplitRoute:
    """Return the split route from one node to another by the method with this name.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        method: Name of the routing method.
        layers: Number of layers of "capillary", or None.

    Raises:
        InputError: The method, the layers or an end point is invalid.
        NoPathError: The sink cannot be reached.

    >>> from topologies.network import Link, Network, Node
    >>> nodes = (Node(id="a", kind="switch"), Node(id="b", kind="switch"))
    >>> links = (Link(source="a", target="b"), Link(source="a", target="b", key=1))
    >>> pair = Network(name="pair", nodes=nodes, links=links)
    >>> [str(load) for load in route_by_name(pair, "a", "b", "disjoint:3").loads]
    ['1/2', '1/2']
    """
    route = routing_method(method, layers)(network, source, sink)
    if not isinstance(route, SplitRoute) or (route.source, route.sink) != (source, sink):
        raise PluginError(
            f"routing method {method!r} gave {type(route).__name__}, no route from {source!r} to "
            f"{sink!r}"
        )
    return route
