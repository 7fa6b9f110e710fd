"""Split routes: capillary routing, the routings it is compared with, and its certificate.

Importing this package imports neither numba nor numpy; large networks do, when they are first routed.
"""

from testbed.routing.baselines import disjoint_paths, ecmp, max_flow, single_path
from testbed.routing.capillary.route import capillary_route
from testbed.routing.methods import METHOD_NAMES, route_by_name
from testbed.routing.named_routings import ROUTINGS, routing_method

__all__ = [
    "METHOD_NAMES",
    "ROUTINGS",
    "capillary_route",
    "disjoint_paths",
    "ecmp",
    "max_flow",
    "route_by_name",
    "routing_method",
    "single_path",
]
