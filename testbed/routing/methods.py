"""Routing methods by name, as commands, plans and experiments give them: single, ecmp, disjoint:k, min-cost,
capillary:K.

The linear programmes (thesis-loop, least-fec:T, smore:K) load scipy when they are first requested.
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

RoutingMethod = Callable[[Network, str, str], SplitRoute]
ROUTINGS: Registry[Callable[..., Any]] = Registry(
    "testbed.routings",
    "routing",
    function_check("network, source and sink"),
    (TestbedError, TopologyError),
    files=True,
)
"""Routings of one flow: functions of network, source and sink; those named with a colon (``disjoint:k``) are functions
of the text after it that give one."""


def routing_method(method: str, layers: int | None = None) -> RoutingMethod:
    """The routing of that name; ``layers`` is another way to say the K of ``capillary:K``.

    Raises InputError for an unknown name, for a number that is none or below 1, and for layers of other methods;
    PluginError for a plug-in that cannot be used.
    """
    require_type(method, str, "method", "the name of a routing method")
    _, colon, text = method.partition(":")
    found = ROUTINGS.find(method)
    if found is None:
        raise InputError(f"routing method {method!r} is not known; {ROUTINGS.nearest(method)}")
    if layers is not None:
        if method != "capillary":
            raise InputError(f"routing method {method!r} takes no layers; only 'capillary' does")
        return routing_method(f"capillary:{layers}")
    if not colon or ROUTINGS.in_file(method):
        routing: RoutingMethod = found
        return routing
    made: RoutingMethod = found(text)
    return made


def _numbered(
    name: str, numbered: Callable[[Network, str, str, int], SplitRoute]
) -> Callable[[str], RoutingMethod]:
    """From the text after the colon to the routing; InputError where it is no whole number of at least 1."""

    def make(text: str) -> RoutingMethod:
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise InputError(
                f"routing method '{name}:{text}': {text!r} must be a whole number of at least 1"
            )
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


ROUTINGS.register("single", baselines.single_path)
ROUTINGS.register("ecmp", baselines.ecmp)
ROUTINGS.register(
    "disjoint-2", lambda network, source, sink: baselines.disjoint_paths(network, source, sink, 2)
)
ROUTINGS.register("disjoint-all", baselines.all_disjoint_paths)
ROUTINGS.register("max-flow", baselines.max_flow)
ROUTINGS.register("min-cost", baselines.cheapest_max_flow)
ROUTINGS.register("capillary", capillary_route)
# the solver takes a third of a second to import
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
