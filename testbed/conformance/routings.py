"""Judges a routing of one flow, or of a demand matrix: conservation recomputed (by the independent checker), the
certified (multicommodity) optimum as a bound, repeatability, errors."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial

from testbed.conformance.problem_checks import apart, finding, must_raise
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.model.verdict import Check
from testbed.routing.capillary.route import capillary_route
from testbed.routing.demands.matrix import RoutedDemands, checked, given_matrix, gravity_matrix
from testbed.routing.demands.methods import DemandRouting
from testbed.routing.demands.optimum import optimal_demands
from testbed.routing.label_split.spraying import spray
from topologies import Network, load_network
from topologies.errors import NoPathError, TopologyError

OUT_OF_REACH = "a sink out of reach is a NoPathError"
Routing = Callable[[Network, str, str], SplitRoute]
CASES = (
    ("ring:4", "s0", "s2"),
    ("ring:5", "h0", "h2"),
    ("swiss-t1", "s1", "s6"),
    ("swiss-t1", "t0", "r31"),
    ("torus:3x3", "s0_0", "s1_1"),
    ("fat-tree:2,2", "h0", "h3"),
    ("two-switch", "t1", "r5"),
)
"""Networks and the ends of a flow: cycles, parallel links, links that go one way only, hosts and switches as ends."""
DEMAND_CASES = ("ring:5", "swiss-t1", "torus:3x3", "fat-tree:2,2")
"""Of matrices: hosts are ends on the fat tree, switches elsewhere."""


def routing_checks(routing: Routing) -> list[Check]:
    """One check a property and network."""
    found = []
    for name, source, sink in CASES:
        network = load_network(name)
        where = f"{name} {source} to {sink}"
        route = partial(routing, network, source, sink)
        once = cache(route)
        found += [
            finding(f"{where}: flow is conserved, in exact fractions", partial(_of, _unsound, once)),
            finding(f"{where}: it is read as label intervals", partial(_of, _unsprayable, once)),
            finding(f"{where}: the same twice", partial(_differs, once, route)),
            finding(f"{where}: no better than the certified optimum", partial(_of, _too_good, once)),
        ]
    lost, stray = partial(routing, apart(), "a", "c"), partial(routing, load_network("ring:4"), "s0", "nowhere")
    return [
        *found,
        finding(OUT_OF_REACH, partial(must_raise, (NoPathError,), lost)),
        finding(
            "an unknown node is an InputError or a TopologyError",
            partial(must_raise, (InputError, TopologyError), stray),
        ),
    ]


def demand_routing_checks(routing: DemandRouting) -> list[Check]:
    """One check a property and network."""
    found = []
    for name in DEMAND_CASES:
        network = load_network(name)
        ends = network.hosts if name.startswith("fat-tree") else network.switches
        make = partial(routing, gravity_matrix(network, [node.id for node in ends]), seed=1)
        once = cache(make)
        found += [
            finding(
                f"{name}: every pair's flow arrives whole, over links and switches only", partial(_violation, once)
            ),
            finding(f"{name}: no better than the proved optimum", partial(_better_than_proved, once)),
            finding(f"{name}: the same twice", partial(_two_routings, once, make)),
        ]
    lost = partial(routing, given_matrix(apart(), "to nowhere", {("a", "c"): 1e6}), seed=1)
    return [*found, finding(OUT_OF_REACH, partial(must_raise, (NoPathError,), lost))]


def _of(judge: Callable[[SplitRoute], str | None], route: Callable[[], SplitRoute]) -> str | None:
    return judge(route())


def _unsound(route: SplitRoute) -> str | None:
    """Kirchhoff's law at every node, recomputed from the loads alone."""
    if not all(isinstance(load, (Fraction, int)) for load in route.loads):
        return "loads must be Fractions"
    if any(not 0 <= load <= 1 for load in route.loads):
        return "a load is outside 0 to 1"
    for node in route.network.nodes:
        loads = list(zip(route.network.links, route.loads, strict=True))
        out = sum((load for link, load in loads if link.source == node.id), Fraction(0))
        into = sum((load for link, load in loads if link.target == node.id), Fraction(0))
        required = 1 if node.id == route.source else -1 if node.id == route.sink else 0
        if out - into != required:
            return f"node {node.id!r} sends out {out - into} more than it takes in; it should be {required}"
        if not node.forwards and node.id not in (route.source, route.sink) and out:
            return f"host {node.id!r} passes flow on"
    route.in_flow_order(route.loaded)  # raises where the flow runs in a cycle
    return None


def _unsprayable(route: SplitRoute) -> str | None:
    split = spray(route)
    worst = max(abs(float(split.load(i)) - float(load)) for i, load in enumerate(route.loads))
    return None if worst <= 0.01 else f"labels put {worst:.4f} more or less than the load on a link"


def _differs(once: Callable[[], SplitRoute], route: Callable[[], SplitRoute]) -> str | None:
    first, second = once(), route()
    return None if first.loads == second.loads else "two calls gave two routes; draw from a seed of your own"


def _too_good(route: SplitRoute) -> str | None:
    """No route loads its fullest link less than capillary routing's first layer, which its certificate proves to be the
    least."""
    least = max(capillary_route(route.network, route.source, route.sink).utilisations)
    greatest = max(route.utilisations)
    return (
        None if greatest >= least - 1e-12 else f"its fullest link carries {greatest:.6f}, less than the least there is"
    )


def _violation(make: Callable[[], RoutedDemands]) -> str | None:
    return next(iter(checked(make()).violations), None)


def _better_than_proved(make: Callable[[], RoutedDemands]) -> str | None:
    routed = make()
    least = checked(optimal_demands(routed.matrix)).bound
    greatest = checked(routed).utilisation
    return None if greatest >= least * (1 - 1e-6) else f"its fullest link carries {greatest:.6g}, less than {least:.6g}"


def _two_routings(once: Callable[[], RoutedDemands], make: Callable[[], RoutedDemands]) -> str | None:
    first, second = once(), make()
    return None if (first.shares != second.shares).nnz == 0 else "two calls with one seed gave two routings"
