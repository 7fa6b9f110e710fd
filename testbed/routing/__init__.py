"""Split routes: capillary routing, the routings it is compared with, and its certificate.

Importing this package imports neither numba nor numpy; large networks do, when they are first routed.
"""

from testbed.routing.capillary import capillary_route

__all__ = ["capillary_route"]
