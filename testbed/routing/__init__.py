"""Split routes: capillary routing, the routings it is compared with, and its certificate.

Importing this package imports neither numba nor numpy. Routing a large network does.
"""

from testbed.routing.capillary.route import capillary_route
from testbed.routing.methods import route_by_name, routing_method

__all__ = ["capillary_route", "route_by_name", "routing_method"]
