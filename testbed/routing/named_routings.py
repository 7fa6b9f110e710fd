"""Routings of one flow by name: the table that ``testbed.routing.methods`` fills, and plug-ins."""

from collections.abc import Callable
from typing import Any

from testbed.errors import InputError, TestbedError, require_type
from testbed.model.routes import SplitRoute
from topologies.errors import TopologyError
from topologies.network import Network
from topologies.registry import Registry, function_check

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
