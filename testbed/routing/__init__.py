"""Split routes: capillary routing, the routings it is compared with, and its certificate.

Importing this package imports neither numba nor numpy; large networks do, when they are first routed.
"""

from testbed.routing.capillary.route import capillary_route
from testbed.routing.methods import route_by_name, routing_method

__all__ = ["capillary_route", "route_by_name", "routing_method"]
