"""What hosts with several cables, and hosts that forward, do with a plan's packets: walked label by label."""

from __future__ import annotations

import pytest

from testbed.model.label_split import LABELS
from testbed.model.wiring import wire
from testbed.openflow.rules import path_routes, step_of, stream_routes, stream_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import paths_split, spray
from tests.helpers.drawn_hosts import drawn_network
from tests.helpers.host_walks import RouteWalker
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

PORT = 5000


def triangle() -> Network:
    """p - r1 - r3 - q with the other way by r2: three routers without a switch."""
    hosts = [
        Node(id=n, kind="host", attributes={"forwarding": n[0] == "r"})
        for n in ("p", "r1", "r2", "r3", "q")
    ]
    pairs = [("p", "r1"), ("r1", "r3"), ("r1", "r2"), ("r2", "r3"), ("r3", "q")]
    links = [Link(source=s, target=t) for pair in pairs for s, t in (pair, pair[::-1])]
    return Network(name="triangle", nodes=tuple(hosts), links=tuple(links))


def test_a_network_whose_hosts_have_one_cable_gets_no_routes() -> None:
    network = load_network("swiss-t1")
    split = spray(route_by_name(network, "t0", "r31", "capillary"))
    assert stream_routes(wire(network), split, udp_port=PORT) == ()


def test_a_split_at_a_router_is_a_route_for_each_range_of_labels() -> None:
    network = triangle()
    split = spray(route_by_name(network, "p", "q", "capillary"))
    routes = stream_routes(wire(network), split, udp_port=PORT)
    at_fork = sorted((r.labels, r.node) for r in routes if r.host == "r1" and r.labels is not None)
    assert at_fork == [((0, 32768), "r3"), ((32768, 65535), "r2"), ((65535, 65536), "r3")]
    assert {r.node for r in routes if r.host == "r2"} == {"r3"}
    assert all(r.begins == (r.host == "p") for r in routes)


def test_last_label_follows_the_first_only_on_paths_through_a_host() -> None:
    network = triangle()
    assert spray(route_by_name(network, "p", "q", "capillary")).path_of(LABELS - 1).links == (
        0,
        2,
        8,
    )
    ring = load_network("ring:4")
    split = spray(route_by_name(ring, "s0", "s2", "capillary"))
    assert split.path_of(0).links != split.path_of(LABELS - 1).links


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_label_takes_the_links_of_its_path_in_drawn_networks(first: int) -> None:
    walked = forks = 0
    for seed in range(first, first + 50):
        network = drawn_network(seed)
        wiring = wire(network)
        for sink in network.hosts[1:]:
            try:
                split = spray(
                    route_by_name(network, network.hosts[0].id, sink.id, "capillary"), budget=20
                )
            except NoPathError:
                continue
            rules, routes = (
                stream_rules(wiring, split, udp_port=PORT),
                stream_routes(wiring, split, udp_port=PORT),
            )
            walker = RouteWalker(wiring, rules, routes)
            packet = walker.stream_packet(split.source, split.sink, PORT)
            forks += len(split.paths) > 1 and bool(routes)
            for label in {p.start for p in split.paths} | {p.stop - 1 for p in split.paths}:
                walk = walker.walk(split.source, {**packet, "udp_src": label})
                assert walk.host == split.sink, (network.name, split.sink, label, walk)
                assert [network.link_index[x] for x in walk.links] == list(
                    split.path_of(label).links
                )
                walked += 1
    assert walked > 100 and forks > 10


def test_everything_else_of_a_pair_takes_the_path_of_label_0() -> None:
    network = triangle()
    wiring = wire(network)
    paths = [((0, 4, 6, 8), 1), ((0, 2, 8), 1)]
    split = paths_split(network, "p", "q", paths)  # type: ignore[arg-type]
    routes = stream_routes(wiring, split, udp_port=PORT)
    assert step_of(routes, "r1", -1) == step_of(routes, "r1", 0)
    links = [network.links[i].id for i in split.path_of(0).links]
    assert set(path_routes(wiring, "p", "q", links)) <= set(routes)
    tcp = {
        "eth_type": 0x0800,
        "ip_proto": 6,
        "ipv4_src": wiring.host_at("p").ip,
        "ipv4_dst": wiring.host_at("q").ip,
    }
    assert RouteWalker(wiring, (), routes).walk("p", tcp).links == tuple(links)
