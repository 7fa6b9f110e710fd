"""Names of routings: every built-in one has a description, and pages use it."""

from testbed.model.route_names import ROUTE_NAMES, describe_route, list_routes
from testbed.routing.methods import ROUTINGS


def test_every_built_in_routing_has_a_description() -> None:
    assert tuple(ROUTE_NAMES) == ROUTINGS.builtin_names()


def test_descriptions_contain_the_parameter() -> None:
    assert describe_route("least-fec:0.05").endswith("at the tolerance 0.05")
    assert describe_route("disjoint-2") == "two disjoint paths"
    assert describe_route("ecmp:3") == "the route of 'ecmp:3'"
    assert "{}" not in list_routes()
