"""Routing methods by name, as commands, plans and experiments give them: single, ecmp, disjoint:k, min-cost, capillary:K.

The linear programmes (thesis-loop, least-fec:T) load scipy when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import (
    all_disjoint_paths,
    cheapest_max_flow,
    disjoint_paths,
    ecmp,
    max_flow,
    single_path,
)
from testbed.routing.capillary.route import capillary_route
from topologies.network import Network

RoutingMethod = Callable[[Network, str, str], SplitRoute]


def _two_disjoint_paths(network: Network, source: str, sink: str) -> SplitRoute:
    return disjoint_paths(network, source, sink, 2)


def _thesis_loop(network: Network, source: str, sink: str) -> SplitRoute:
    from testbed.routing.capillary.thesis_loop import thesis_route  # scipy's solver takes a third of a second to import

    return thesis_route(network, source, sink)


ROUTING_METHODS: Mapping[str, RoutingMethod] = {
    "single": single_path,
    "ecmp": ecmp,
    "disjoint-2": _two_disjoint_paths,
    "disjoint-all": all_disjoint_paths,
    "max-flow": max_flow,
    "min-cost": cheapest_max_flow,
    "capillary": capillary_route,
    "thesis-loop": _thesis_loop,
}
"""The methods without a number; ``disjoint:k`` and ``capillary:K`` (K layers) take one, ``least-fec:T`` a tolerance."""

NUMBERED_METHODS: Mapping[str, Callable[[Network, str, str, int], SplitRoute]] = {
    "disjoint": disjoint_paths,
    "capillary": capillary_route,
}

METHOD_NAMES = (*ROUTING_METHODS, "disjoint:k", "capillary:K", "least-fec:T")


def routing_method(method: str, layers: int | None = None) -> RoutingMethod:
    """The routing of that name; ``layers`` is another way to say the K of ``capillary:K``.

    Raises InputError for an unknown name, for a number that is none or below 1, and for layers of other methods.
    """
    name, colon, text = method.partition(":")
    if name == "least-fec" and layers is None:
        return _least_fec(text)
    if name not in (NUMBERED_METHODS if colon else ROUTING_METHODS):
        raise InputError(f"routing method {method!r} is not known; choose one of {', '.join(METHOD_NAMES)}")
    number = layers
    if layers is not None and (name != "capillary" or colon):
        raise InputError(f"routing method {method!r} takes no layers; only 'capillary' does")
    if colon:
        if not (text.isascii() and text.isdigit()) or int(text) < 1:
            raise InputError(f"routing method {method!r}: {text!r} must be a whole number of at least 1")
        number = int(text)
    if number is None:
        return ROUTING_METHODS[method]
    numbered = NUMBERED_METHODS[name]

    def route(network: Network, source: str, sink: str) -> SplitRoute:
        return numbered(network, source, sink, number)

    return route


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

    def route(network: Network, source: str, sink: str) -> SplitRoute:
        from testbed.routing.redundancy.least_fec import least_fec_route

        return least_fec_route(network, source, sink, value).route

    return route


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
    return routing_method(method, layers)(network, source, sink)
