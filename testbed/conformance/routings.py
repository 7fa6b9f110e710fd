"""Judges a routing of one flow, or of a demand matrix (conservation recomputed by the independent checker, the
certified or multicommodity optimum as a bound, repeatability, errors), and one of the interconnect: paths of links, the
same from every node on (or a relation), channel dependencies, delivery."""

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
            finding(
                f"{where}: flow is conserved, in exact fractions", partial(_of, _unsound, once)
            ),
            finding(f"{where}: it is read as label intervals", partial(_of, _unsprayable, once)),
            finding(f"{where}: the same twice", partial(_differs, once, route)),
            finding(
                f"{where}: no better than the certified optimum", partial(_of, _too_good, once)
            ),
        ]
    lost, stray = (
        partial(routing, apart(), "a", "c"),
        partial(routing, load_network("ring:4"), "s0", "nowhere"),
    )
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
                f"{name}: every pair's flow arrives whole, over links and switches only",
                partial(_violation, once),
            ),
            finding(
                f"{name}: no better than the proved optimum", partial(_better_than_proved, once)
            ),
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
    return (
        None
        if first.loads == second.loads
        else "two calls gave two routes; draw from a seed of your own"
    )


def _too_good(route: SplitRoute) -> str | None:
    """No route loads its fullest link less than capillary routing's first layer, which its certificate proves to be the
    least."""
    least = max(capillary_route(route.network, route.source, route.sink).utilisations)
    greatest = max(route.utilisations)
    return (
        None
        if greatest >= least - 1e-12
        else f"its fullest link carries {greatest:.6f}, less than the least there is"
    )


def _violation(make: Callable[[], RoutedDemands]) -> str | None:
    return next(iter(checked(make()).violations), None)


def _better_than_proved(make: Callable[[], RoutedDemands]) -> str | None:
    routed = make()
    least = checked(optimal_demands(routed.matrix)).bound
    greatest = checked(routed).utilisation
    return (
        None
        if greatest >= least * (1 - 1e-6)
        else f"its fullest link carries {greatest:.6g}, less than {least:.6g}"
    )


def _two_routings(
    once: Callable[[], RoutedDemands], make: Callable[[], RoutedDemands]
) -> str | None:
    first, second = once(), make()
    return (
        None
        if (first.shares != second.shares).nnz == 0
        else "two calls with one seed gave two routings"
    )


NETWORKS = (
    "mesh:3x3",
    "torus:4x4",
    "ring:5",
    "fat-tree:2,3",
    "swiss-t1:allocation=1-1-1-1-1-1-1-1",
)
_SIMULATORS_NAME = {"dimension-order": "dor"}
Paths = Mapping[tuple[str, str], tuple[LinkId, ...]]


def static_routing_checks(name: str, build: Builder) -> list[Check]:
    """One check a property and network; a network that the routing refuses by TopologyError is passed over, one must be
    left."""
    found, routed = [], 0
    for known in NETWORKS:
        network = load_network(known)
        try:
            build(network)
        except TopologyError:
            continue
        except Exception:  # noqa: BLE001 - the first check below says what
            pass
        routed += 1
        found += _checks_on(network, known, name)
    found.append(
        finding(
            "it routes one of the networks at least",
            lambda: None if routed else f"none of {', '.join(NETWORKS)}",
        )
    )
    return found


def _checks_on(network: Network, where: str, name: str) -> list[Check]:
    relation = find_relation(network, name)

    @functools.cache
    def paths() -> Paths:
        routing = static_routing(network, name)
        senders = [n.id for n in network.hosts if n.attributes.get("role") != "receiver"]
        receivers = [n.id for n in network.hosts if n.attributes.get("role") != "sender"]
        return {(a, b): tuple(routing(a, b)) for a in senders for b in receivers if a != b}

    return [
        finding(
            f"{where}: every path is one, from host to host over switches",
            lambda: _broken_path(network, paths()),
        ),
        finding(
            f"{where}: the next link depends on node and destination alone",
            lambda: _forked(paths()) if relation is None else None,
        ),
        finding(
            f"{where}: every message is delivered, alone and against deadlocks",
            lambda: _undelivered(
                network,
                name,
                paths(),
                dependency_cycle(paths()) if relation is None else relation.may_deadlock,
            ),
        ),
    ]


def _broken_path(network: Network, paths: Paths) -> str | None:
    for (source, sink), path in paths.items():
        at = source
        for link in path:
            if link not in network.link_index or link[0] != at:
                return f"{source} to {sink}: {link} does not start at {at}"
            at = link[1]
            if at != sink and not network.node(at).forwards:
                return f"{source} to {sink}: it leads through host {at}"
        if at != sink:
            return f"{source} to {sink}: it ends at {at}"
        if len({link[1] for link in path}) < len(path):
            return f"{source} to {sink}: it visits a node twice"
    return None


def _forked(paths: Paths) -> str | None:
    """The simulator's tables have one next link a router and destination."""
    table: dict[tuple[str, str], LinkId] = {}
    for (_, sink), path in paths.items():
        for link in path:
            if table.setdefault((link[0], sink), link) != link:
                return f"at {link[0]} towards {sink}: {link} here, {table[link[0], sink]} elsewhere"
    return None


def dependency_cycle(paths: Paths) -> bool:
    """Whether channel dependencies have a cycle: only then can packets that wait deadlock (Dally and Seitz 1987)."""
    waits = nx.DiGraph()
    for path in paths.values():
        waits.add_edges_from(pairwise(path))
    return not nx.is_directed_acyclic_graph(waits)


def _undelivered(network: Network, name: str, paths: Paths, cyclic: bool) -> str | None:
    """Bursts of messages through the router simulator; where dependencies have a cycle, with NAC against deadlocks."""
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    pairs = list(paths) * 2
    injections = Injections(
        time_ps=np.arange(len(pairs), dtype=np.int64) * 1000,
        source=np.array([hosts[a] for a, _ in pairs], dtype=np.int32),
        destination=np.array([hosts[b] for _, b in pairs], dtype=np.int32),
    )
    options: JsonObject = {"deadlock": "nac"} if cyclic else {}
    parameters = SimulationParameters(
        model="thesis", routing=_SIMULATORS_NAME.get(name, name), **options
    )
    run = simulate(network, injections, parameters)
    if run.deadlocked:
        return "deadlock, " + (
            "with NAC" if options else "although no cycle of dependencies was found"
        )
    return (
        None if run.received == len(pairs) else f"{run.received} of {len(pairs)} messages arrived"
    )
