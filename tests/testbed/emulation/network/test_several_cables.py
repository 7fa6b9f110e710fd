"""Hosts with several cables, hosts that forward, cables between hosts: every pair that the network connects
communicates, on real switches and in real kernels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]


def network_of(
    cables: str, *, forwarding: str = "", addresses: dict[str, Any] | None = None
) -> Any:
    """Cables as "a-x b-x"; letters x, y, z are switches, all others hosts."""
    from topologies.network import Link, Network, Node

    pairs = [tuple(one.split("-")) for one in cables.split()]
    nodes = []
    for name in dict.fromkeys(end for pair in pairs for end in pair):
        own = {"ip": addresses[name]} if addresses and name in addresses else {}
        own |= {"forwarding": True} if name in forwarding.split() else {}
        nodes.append(Node(id=name, kind="switch" if name in "xyz" else "host", attributes=own))
    links = tuple(Link(source=s, target=t) for a, b in pairs for s, t in ((a, b), (b, a)))
    return Network(name=cables, nodes=tuple(nodes), links=links)


NETWORKS: dict[str, tuple[str, str]] = {
    "dual-homed": ("a-x a-y b-y b-z c-z x-y y-z", ""),
    "dual-homed to two islands": ("a-x a-y b-x c-y", ""),
    "cables between hosts, b forwards": ("a-x b-x a-b b-c", "b"),
    "three routers without a switch": ("r1-r2 r2-r3 r3-r1 p1-r1 p2-r2 p3-r3", "r1 r2 r3"),
    "router between two switches": ("a-x r-x r-y b-y", "r"),
    "two routers between two switches": ("a-x r-x r-y s-x s-y b-y", "r s"),
    "four hosts in a mesh": ("a-b a-c a-d b-c b-d c-d", ""),
    "two hosts": ("a-b", ""),
}


def answers(net: Any) -> dict[tuple[str, str], int]:
    """(source, sink) -> hosts that the echo of the sink's main address came back through, of those that answered."""
    hosts = net.wiring.hosts
    words = {
        (a.node, b.node): ["ping", "-c1", "-W2", b.ip] for a in hosts for b in hosts if a is not b
    }
    running = {
        pair: net.run_in_host(
            pair[0], argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for pair, argv in words.items()
    }
    said = {pair: one.communicate(timeout=60)[0] for pair, one in running.items()}
    return {
        pair: 64 - int(re.search(r"ttl=(\d+)", said[pair])[1])
        for pair in said
        if running[pair].returncode == 0
    }  # type: ignore[index]


def pinged(cables: str, forwarding: str) -> list[list[Any]]:
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(network_of(cables, forwarding=forwarding))
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        return [[*pair, through] for pair, through in answers(net).items()]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_pair_that_the_network_connects_answers(
    name: str, sandboxed: Callable[..., Any]
) -> None:
    from tests.helpers.drawn_hosts import connected_pairs

    found = sandboxed(pinged, *NETWORKS[name])
    assert {(a, b) for a, b, _ in found} == connected_pairs(
        network_of(NETWORKS[name][0], forwarding=NETWORKS[name][1])
    )
    if name.startswith("three routers"):
        assert {(a, b): n for a, b, n in found}["p1", "p3"] == 2


def drawn_pinged(seeds: list[int]) -> list[list[Any]]:
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from tests.helpers.drawn_hosts import connected_pairs, drawn_network

    found = []
    for seed in seeds:
        network = drawn_network(seed)
        wiring = wire(network)
        with EmulatedNetwork(wiring) as net:
            install_shortest_paths(wiring)
            answered, joined = set(answers(net)), connected_pairs(network)
            found.append([seed, len(joined), sorted(answered ^ joined)])
    return found


def test_every_pair_that_a_drawn_network_connects_answers(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(drawn_pinged, [3, 4, 8, 15, 16, 23, 42, 108])
    assert [one for one in found if one[2]] == []
    assert sum(one[1] for one in found) > 50


def with_own_addresses() -> dict[str, Any]:
    """A router with an address in each of three subnets, one host in each of two of them."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    own = {
        "h1": "192.168.1.100/24",
        "h2": "172.16.0.100/12",
        "r": ["192.168.1.1/24", "172.16.0.1/12", "10.9.9.9/8"],
    }
    wiring = wire(network_of("h1-x r-x r-y h2-y", forwarding="r", addresses=own))
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)

        def said(host: str, *words: str) -> str:
            return str(
                net.run_in_host(host, words, stdout=subprocess.PIPE, text=True).communicate(
                    timeout=60
                )[0]
            )

        return {
            "pings": [[*pair, through] for pair, through in answers(net).items()],
            "others": [
                " 0% packet loss" in said("h1", "ping", "-c1", "-W2", ip)
                for ip in ("172.16.0.1", "10.9.9.9")
            ],
            "addresses": said("r", "ip", "-4", "-br", "address"),
            "forwards": said("r", "cat", "/proc/sys/net/ipv4/ip_forward").strip(),
            "host forwards": said("h1", "cat", "/proc/sys/net/ipv4/ip_forward").strip(),
        }


def test_hosts_have_the_addresses_that_the_file_gives_them(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(with_own_addresses)
    assert len(found["pings"]) == 6 and ["h1", "h2", 1] in found["pings"]
    assert found["others"] == [True, True]
    assert "192.168.1.1/24" in found["addresses"] and "172.16.0.1/12" in found["addresses"]
    assert (found["forwards"], found["host forwards"]) == ("1", "0")


def cut_and_mended() -> list[bool]:
    """Whether a reaches b over their own cable and c through b, before, during and after that cable is cut."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(network_of("a-b b-c c-x", forwarding="b"))
    found = []
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        for change in (None, False, True):
            if change is not None:
                net.set_link(("a", "b", 0), change)
            for sink in "bc":
                argv = ["ping", "-c1", "-W1", net.host(sink).ip]
                found.append(net.run_in_host("a", argv, stdout=subprocess.DEVNULL).wait(60) == 0)
    return found


def test_a_cable_between_hosts_that_is_mended_carries_again(sandboxed: Callable[..., Any]) -> None:
    assert sandboxed(cut_and_mended) == [True, True, False, False, True, True]
