"""Judges a routing of the interconnect: paths of links, the same from every node on (or a relation), channel
dependencies, delivery."""

import functools
from collections.abc import Mapping
from itertools import pairwise

import networkx as nx
import numpy as np

from testbed.conformance.problem_checks import finding
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from testbed.model.verdict import Check
from topologies import Network, load_network
from topologies.errors import TopologyError
from topologies.network import LinkId
from topologies.routing_tables import Builder, find_relation, static_routing
from topologies.text.json_types import JsonObject

NETWORKS = ("mesh:3x3", "torus:4x4", "ring:5", "fat-tree:2,3", "swiss-t1:allocation=1-1-1-1-1-1-1-1")
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
        finding("it routes one of the networks at least", lambda: None if routed else f"none of {', '.join(NETWORKS)}")
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
        finding(f"{where}: every path is one, from host to host over switches", lambda: _broken_path(network, paths())),
        finding(
            f"{where}: the next link depends on node and destination alone",
            lambda: _forked(paths()) if relation is None else None,
        ),
        finding(
            f"{where}: every message is delivered, alone and against deadlocks",
            lambda: _undelivered(
                network, name, paths(), dependency_cycle(paths()) if relation is None else relation.may_deadlock
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
    parameters = SimulationParameters(model="thesis", routing=_SIMULATORS_NAME.get(name, name), **options)
    run = simulate(network, injections, parameters)
    if run.deadlocked:
        return "deadlock, " + ("with NAC" if options else "although no cycle of dependencies was found")
    return None if run.received == len(pairs) else f"{run.received} of {len(pairs)} messages arrived"
