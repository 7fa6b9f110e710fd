"""Routing methods lead through hosts that forward, and through no others."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import pytest

from testbed.errors import InputError
from testbed.routing import route_by_name
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.demands.checker import price_distances
from testbed.routing.label_split.spraying import two_paths
from tests.helpers.drawn_hosts import drawn_network
from topologies.errors import NoPathError, TopologyError
from topologies.network import Link, Network, Node
from topologies.routing_tables import shortest_path_routing

METHODS = (
    "capillary",
    "capillary:1",
    "single",
    "ecmp",
    "disjoint:2",
    "disjoint-all",
    "max-flow",
    "min-cost",
    "smore:2",
)


@pytest.mark.parametrize("method", METHODS)
def test_routes_cross_only_hosts_that_forward(
    method: str,
) -> None:
    through = 0
    for seed in range(40):
        network = drawn_network(seed)
        source, sink = network.hosts[0].id, network.hosts[-1].id
        graph = nx.Graph((link.source, link.target) for link in network.links)
        own = graph.subgraph({n.id for n in network.nodes if n.forwards} | {source, sink})
        try:
            route = route_by_name(network, source, sink, method)
        except NoPathError:
            assert not (source in own and sink in own and nx.has_path(own, source, sink)), (
                seed,
                method,
            )
            continue
        assert source in own and sink in own and nx.has_path(own, source, sink)
        passed = {network.links[i].target for i in route.loaded} - {sink}
        assert not passed & network.silent_hosts
        assert sum((route.loads[i] for i in network.out_links(source)), Fraction(0)) == 1
        through += any(network.node(node).kind == "host" for node in passed)
        if method == "capillary":
            assert check_certificate(network, source, sink, route.loads).valid
    assert through > 5


def test_shortest_paths_and_two_paths_agree_on_who_is_passed() -> None:
    for seed in range(60):
        network = drawn_network(seed)
        source, sink = network.hosts[0].id, network.hosts[-1].id
        far = price_distances(network, source, [1.0] * len(network.links)).get(sink)
        try:
            path = shortest_path_routing(network)(source, sink)
        except NoPathError:
            assert far is None
            with pytest.raises(NoPathError):
                two_paths(network, source, sink)
            continue
        assert len(path) == far == len(two_paths(network, source, sink)[0]) or len(path) < len(
            two_paths(network, source, sink)[0]
        )


def test_a_host_that_does_not_forward_is_still_no_way() -> None:
    nodes = [Node(id=n, kind="host") for n in "abc"]
    links = tuple(Link(source=s, target=t) for s, t in ("ab", "ba", "bc", "cb"))
    with pytest.raises((NoPathError, InputError), match="forward"):
        route_by_name(Network(name="row", nodes=tuple(nodes), links=links), "a", "c", "capillary")
    nodes[1] = Node(id="b", kind="host", attributes={"forwarding": True})
    passing = Network(name="row", nodes=tuple(nodes), links=links)
    assert route_by_name(passing, "a", "c", "capillary").loads == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"forwarding": "yes"}, "node 'a': forwarding 'yes' must be true or false"),
        (
            {"ip": "10.0.0.300"},
            "node 'a': ip '10.0.0.300' is not an IPv4 address; write 10.0.0.1 or 10.0.0.1/24",
        ),
        ({"ip": "10.0.0.0/24"}, "node 'a': ip '10.0.0.0/24' cannot be the address of a host"),
        ({"ip": "127.0.0.1"}, "cannot be the address of a host"),
        ({"ip": ["10.0.0.1", "10.0.0.1/8"]}, "ip '10.0.0.1/8' is listed twice"),
        ({"ip": 7}, "ip 7 is not an address; write"),
        ({"mac": "01:00:00:00:00:01"}, "mac '01:00:00:00:00:01' is not a unicast MAC address"),
    ],
)
def test_a_wrong_attribute_of_a_host_is_refused_with_what_to_write(
    attributes: dict[str, object], said: str
) -> None:
    with pytest.raises(TopologyError) as refused:
        Node(id="a", kind="host", attributes=attributes)
    assert said in str(refused.value)


def test_two_hosts_with_one_address_are_refused() -> None:
    nodes = tuple(Node(id=n, kind="host", attributes={"ip": "10.0.0.1/8"}) for n in "ab")
    with pytest.raises(TopologyError, match=r"'a' and 'b' have the address 10.0.0.1; change one"):
        Network(name="twice", nodes=nodes, links=())
