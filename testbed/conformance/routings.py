"""Checks of routings.

- A routing of one flow or of a demand matrix must conserve flow, and must not claim a smaller
  maximum load than the proven optimum (the certificate of capillary routing, or the multicommodity
  optimum). Equal calls must give equal routes, and bad arguments the right errors.
- A static routing of the interconnect must give valid paths. The next link must depend on node and
  destination alone, unless the routing is a relation. All messages must be delivered, with NAC if
  the channel dependencies have a cycle.
"""

import functools
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise

import networkx as nx
import numpy as np

from testbed.conformance.problem_checks import apart, finding, must_raise
from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.routes import SplitRoute
from testbed.model.verdict import Check
from testbed.routing.capillary.route import capillary_route
from testbed.routing.demands.matrix import RoutedDemands, checked, given_matrix, gravity_matrix
from testbed.routing.demands.methods import DemandRouting
from testbed.routing.demands.optimum import optimal_demands
from testbed.routing.label_split.spraying import spray
from topologies import JsonObject, LinkId, Network, NoPathError, TopologyError, load_network
from topologies.routing_tables import Builder, find_relation, static_routing

# Name of a check.
OUT_OF_REACH = "a sink out of reach is a NoPathError"
Routing = Callable[[Network, str, str], SplitRoute]
Paths = Mapping[tuple[str, str], tuple[LinkId, ...]]

# Networks with source and sink of a flow. They have cycles, parallel links, and links in one
# direction only. Hosts and switches are sources and sinks.
CASES = (
    ("ring:4", "s0", "s2"),
    ("ring:5", "h0", "h2"),
    ("swiss-t1", "s1", "s6"),
    ("swiss-t1", "t0", "r31"),
    ("torus:3x3", "s0_0", "s1_1"),
    ("fat-tree:2,2", "h0", "h3"),
    ("two-switch", "t1", "r5"),
)
# Networks of demand matrices. Demands are between hosts on the fat tree, else between switches.
DEMAND_CASES = ("ring:5", "swiss-t1", "torus:3x3", "fat-tree:2,2")
# Networks of static routings.
NETWORKS = (
    "mesh:3x3",
    "torus:4x4",
    "ring:5",
    "fat-tree:2,3",
    "swiss-t1:allocation=1-1-1-1-1-1-1-1",
)
# The name of a routing in the router simulator by its name in the registry, if the two differ.
_SIMULATORS_NAME = {"dimension-order": "dor"}
# Largest accepted difference between the load of a link by label intervals and its load by the
# route. There are finitely many labels, so the intervals are rounded.
_MAX_LABEL_ERROR = 0.01


def routing_checks(routing: Routing) -> list[Check]:
    """Return the checks of a routing of one flow: one for each property and network."""
    checks = []
    for name, source, sink in CASES:
        network = load_network(name)
        where = f"{name} {source} to {sink}"
        make_route = partial(routing, network, source, sink)
        # The checks of a network share one route.
        shared_route = cache(make_route)
        checks += [
            finding(
                f"{where}: flow is conserved, in exact fractions",
                partial(_apply, _unsound, shared_route),
            ),
            finding(
                f"{where}: it is read as label intervals",
                partial(_apply, _unsprayable, shared_route),
            ),
            finding(f"{where}: the same twice", partial(_differs, shared_route, make_route)),
            finding(
                f"{where}: no better than the certified optimum",
                partial(_apply, _too_good, shared_route),
            ),
        ]
    to_isolated_node = partial(routing, apart(), "a", "c")
    to_unknown_node = partial(routing, load_network("ring:4"), "s0", "nowhere")
    checks.append(finding(OUT_OF_REACH, partial(must_raise, (NoPathError,), to_isolated_node)))
    checks.append(
        finding(
            "an unknown node is an InputError or a TopologyError",
            partial(must_raise, (InputError, TopologyError), to_unknown_node),
        )
    )
    return checks


def demand_routing_checks(routing: DemandRouting) -> list[Check]:
    """Return the checks of a routing of demand matrices: one for each property and network."""
    checks = []
    for name in DEMAND_CASES:
        network = load_network(name)
        ends = network.hosts if name.startswith("fat-tree") else network.switches
        make = partial(routing, gravity_matrix(network, [node.id for node in ends]), seed=1)
        # The checks of a network share one result.
        shared = cache(make)
        checks += [
            finding(
                f"{name}: every pair's flow arrives whole, over links and switches only",
                partial(_violation, shared),
            ),
            finding(
                f"{name}: no better than the proved optimum", partial(_better_than_proved, shared)
            ),
            finding(f"{name}: the same twice", partial(_two_routings, shared, make)),
        ]
    isolated_matrix = given_matrix(apart(), "to nowhere", {("a", "c"): 1e6})
    to_isolated_node = partial(routing, isolated_matrix, seed=1)
    checks.append(finding(OUT_OF_REACH, partial(must_raise, (NoPathError,), to_isolated_node)))
    return checks


def _apply(
    judge: Callable[[SplitRoute], str | None], make_route: Callable[[], SplitRoute]
) -> str | None:
    return judge(make_route())


def _unsound(route: SplitRoute) -> str | None:
    """Return how the loads of the links violate flow conservation, or None.

    The check uses the loads alone, not the routing's statements about them.
    """
    if not all(isinstance(load, (Fraction, int)) for load in route.loads):
        return "loads must be Fractions"
    if any(not 0 <= load <= 1 for load in route.loads):
        return "a load is outside 0 to 1"
    for node in route.network.nodes:
        outflow = Fraction(0)
        inflow = Fraction(0)
        for link, load in zip(route.network.links, route.loads, strict=True):
            if link.source == node.id:
                outflow += load
            if link.target == node.id:
                inflow += load
        required = {route.source: 1, route.sink: -1}.get(node.id, 0)
        if outflow - inflow != required:
            return (
                f"node {node.id!r} sends out {outflow - inflow} more than it takes in; "
                f"it should be {required}"
            )
        if not node.forwards and node.id not in (route.source, route.sink) and outflow:
            return f"host {node.id!r} passes flow on"
    # It raises an error if the flow runs in a cycle.
    route.in_flow_order(route.loaded)
    return None


def _unsprayable(route: SplitRoute) -> str | None:
    """Return how the label intervals of the route contradict its loads, or None."""
    split = spray(route)
    error = max(abs(float(split.load(i)) - float(load)) for i, load in enumerate(route.loads))
    if error <= _MAX_LABEL_ERROR:
        return None
    return f"labels put {error:.4f} more or less than the load on a link"


def _differs(
    make_first: Callable[[], SplitRoute], make_second: Callable[[], SplitRoute]
) -> str | None:
    if make_first().loads == make_second().loads:
        return None
    return "two calls gave two routes; draw from a seed of your own"


def _too_good(route: SplitRoute) -> str | None:
    """Return a message if the maximum load is below the proven minimum, else None.

    The first layer of capillary routing minimises the maximum load, and its certificate proves it.
    """
    minimum = max(capillary_route(route.network, route.source, route.sink).utilisations)
    largest = max(route.utilisations)
    # The utilisations are rounded to floats.
    if largest >= minimum - 1e-12:
        return None
    return f"its fullest link carries {largest:.6f}, less than the least there is"


def _violation(make: Callable[[], RoutedDemands]) -> str | None:
    """Return the first violation that the independent checker finds in a routing, or None.

    Args:
        make: Computes the routing.
    """
    return next(iter(checked(make()).violations), None)


def _better_than_proved(make: Callable[[], RoutedDemands]) -> str | None:
    """Return a message if the maximum load is below that of the proven optimum, else None."""
    routed = make()
    bound = checked(optimal_demands(routed.matrix)).bound
    largest = checked(routed).utilisation
    # The optimum is known to the tolerance of the solver.
    if largest >= bound * (1 - 1e-6):
        return None
    return f"its fullest link carries {largest:.6g}, less than {bound:.6g}"


def _two_routings(
    make_first: Callable[[], RoutedDemands], make_second: Callable[[], RoutedDemands]
) -> str | None:
    # The shares are sparse matrices, whose comparison is a sparse matrix of differences.
    differences = make_first().shares != make_second().shares
    if differences.nnz == 0:
        return None
    return "two calls with one seed gave two routings"


def static_routing_checks(name: str, build: Builder) -> list[Check]:
    """Return the checks of a static routing: one for each property and network.

    Networks that the routing refuses by a TopologyError are skipped, but it must accept one.

    Args:
        name: Name of the routing.
        build: The plug-in, which builds the routing of a network.
    """
    checks = []
    accepted = 0
    for network_name in NETWORKS:
        network = load_network(network_name)
        try:
            build(network)
        except TopologyError:
            continue
        except Exception:  # noqa: BLE001 - the first check on this network reports the error
            pass
        accepted += 1
        checks += _checks_on(network, network_name, name)

    def refuses_all() -> str | None:
        if accepted:
            return None
        return f"none of {', '.join(NETWORKS)}"

    checks.append(finding("it routes one of the networks at least", refuses_all))
    return checks


def _checks_on(network: Network, where: str, name: str) -> list[Check]:
    relation = find_relation(network, name)

    @functools.cache
    def paths() -> Paths:
        return _all_paths(network, name)

    def broken() -> str | None:
        return _broken_path(network, paths())

    def ambiguous() -> str | None:
        # A relation may have several next links.
        if relation is not None:
            return None
        return _forked(paths())

    def undelivered() -> str | None:
        if relation is None:
            may_deadlock = dependency_cycle(paths())
        else:
            may_deadlock = relation.may_deadlock
        return _undelivered(network, name, paths(), may_deadlock)

    return [
        finding(f"{where}: every path is one, from host to host over switches", broken),
        finding(f"{where}: the next link depends on node and destination alone", ambiguous),
        finding(f"{where}: every message is delivered, alone and against deadlocks", undelivered),
    ]


def _all_paths(network: Network, name: str) -> Paths:
    """Return the path of each pair of a sending and a receiving host."""
    routing = static_routing(network, name)
    senders = [host.id for host in network.hosts if host.attributes.get("role") != "receiver"]
    receivers = [host.id for host in network.hosts if host.attributes.get("role") != "sender"]
    paths = {}
    for source in senders:
        for sink in receivers:
            if source != sink:
                paths[source, sink] = tuple(routing(source, sink))
    return paths


def _broken_path(network: Network, paths: Paths) -> str | None:
    for (source, sink), path in paths.items():
        node = source
        for link in path:
            if link not in network.link_index or link[0] != node:
                return f"{source} to {sink}: {link} does not start at {node}"
            node = link[1]
            if node != sink and not network.node(node).forwards:
                return f"{source} to {sink}: it leads through host {node}"
        if node != sink:
            return f"{source} to {sink}: it ends at {node}"
        if len({link[1] for link in path}) < len(path):
            return f"{source} to {sink}: it visits a node twice"
    return None


def _forked(paths: Paths) -> str | None:
    """Return a message if a node has two next links to a destination, else None.

    The tables of the router simulator have one next link for each router and destination.
    """
    table: dict[tuple[str, str], LinkId] = {}
    for (_, sink), path in paths.items():
        for link in path:
            if table.setdefault((link[0], sink), link) != link:
                return f"at {link[0]} towards {sink}: {link} here, {table[link[0], sink]} elsewhere"
    return None


def dependency_cycle(paths: Paths) -> bool:
    """Return whether channel dependencies have a cycle.

    Only then can waiting packets deadlock (Dally and Seitz 1987).
    """
    dependencies = nx.DiGraph()
    for path in paths.values():
        dependencies.add_edges_from(pairwise(path))
    return not nx.is_directed_acyclic_graph(dependencies)


def _undelivered(network: Network, name: str, paths: Paths, may_deadlock: bool) -> str | None:
    """Return why the router simulator does not deliver messages between all pairs, or None.

    The messages are injected in a burst.

    Args:
        network: The network.
        name: Name of the routing.
        paths: The path of each pair.
        may_deadlock: Whether packets that wait can deadlock. Then the simulation uses NAC.
    """
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    pairs = list(paths) * 2
    injections = Injections(
        time_ps=np.arange(len(pairs), dtype=np.int64) * 1000,
        source=np.array([hosts[a] for a, _ in pairs], dtype=np.int32),
        destination=np.array([hosts[b] for _, b in pairs], dtype=np.int32),
    )
    options: JsonObject = {}
    if may_deadlock:
        options["deadlock"] = "nac"
    parameters = SimulationParameters(
        model="thesis", routing=_SIMULATORS_NAME.get(name, name), **options
    )
    run = simulate(network, injections, parameters)
    if run.deadlocked:
        if may_deadlock:
            return "deadlock, with NAC"
        return "deadlock, although no cycle of dependencies was found"
    if run.received != len(pairs):
        return f"{run.received} of {len(pairs)} messages arrived"
    return None
