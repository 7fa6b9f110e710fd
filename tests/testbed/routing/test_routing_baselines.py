"""The routings that capillary routing is compared with, and their names."""

from __future__ import annotations

from fractions import Fraction

import pytest

from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route, route_by_name, routing_method
from testbed.routing.baselines import disjoint_paths, ecmp, max_flow, single_path
from testbed.routing.methods import ROUTINGS
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node


def network(*ends: str, hosts: str = "", capacities: dict[str, float] | None = None) -> Network:
    """Links named by their two letters, "ab"; a repeated name is a parallel link."""
    links: list[Link] = []
    for name in ends:
        key = sum(1 for link in links if (link.source, link.target) == (name[0], name[1]))
        links.append(
            Link(
                source=name[0],
                target=name[1],
                key=key,
                capacity_bps=(capacities or {}).get(name, 1e7),
            )
        )
    nodes = dict.fromkeys("".join(ends) + hosts)
    return Network(
        name="small",
        nodes=tuple(Node(id=n, kind="host" if n in hosts else "switch") for n in nodes),
        links=tuple(links),
    )


def loads(route: SplitRoute) -> dict[str, str]:
    return {
        route.network.links[i].label.replace("->", ""): str(route.loads[i]) for i in route.loaded
    }


def test_single_path_takes_the_fewest_links_and_the_earliest_of_equals() -> None:
    net = network("ac", "ab", "cd", "bd", "ae", "ef", "fd")
    assert loads(single_path(net, "a", "d")) == {"ac": "1", "cd": "1"}


def test_ecmp_splits_equally_at_every_node_on_shortest_paths() -> None:
    net = network("ab", "ac", "bd", "ce", "cd", "dt", "et", "at")
    assert loads(ecmp(net, "a", "t")) == {"at": "1"}
    assert loads(ecmp(network("ab", "ac", "bd", "ce", "cd", "dt", "et"), "a", "t")) == {
        "ab": "1/2", "ac": "1/2", "bd": "1/2", "ce": "1/4", "cd": "1/4", "dt": "3/4", "et": "1/4",
    }  # fmt: skip


def test_ecmp_uses_parallel_links_as_links_of_their_own() -> None:
    assert loads(ecmp(network("ab", "ab", "bc"), "a", "c")) == {
        "ab": "1/2",
        "ab#1": "1/2",
        "bc": "1",
    }


def test_disjoint_paths_avoid_the_trap_of_the_shortest_path() -> None:
    # the shortest path a-b-e-t blocks both others; two disjoint paths exist only around it
    net = network("ab", "be", "et", "ac", "ce", "bd", "dt")
    assert loads(single_path(net, "a", "t")) == {"ab": "1", "be": "1", "et": "1"}
    assert loads(disjoint_paths(net, "a", "t", 2)) == {
        "ab": "1/2", "bd": "1/2", "dt": "1/2", "ac": "1/2", "ce": "1/2", "et": "1/2",
    }  # fmt: skip


def test_disjoint_paths_say_when_fewer_exist() -> None:
    route = disjoint_paths(network("ab", "bd", "ac", "cd"), "a", "d", 5)
    assert route.method == "disjoint:2"
    assert set(route.loads) == {Fraction(1, 2)}


def test_max_flow_fills_links_in_proportion_to_capacity() -> None:
    net = network("ab", "bd", "ac", "cd", capacities={"ab": 3e6, "bd": 9e6, "ac": 2e6, "cd": 1e6})
    assert loads(max_flow(net, "a", "d")) == {"ab": "3/4", "bd": "3/4", "ac": "1/4", "cd": "1/4"}


def test_max_flow_is_as_wide_as_the_first_capillary_layer() -> None:
    net = network("sa", "sb", "sc", "ab", "bc", "ad", "be", "cf", "de", "ef", "dt", "et", "ft")
    widest = max(max_flow(net, "s", "t").utilisations)
    assert widest == pytest.approx(float(capillary_route(net, "s", "t").layers[0].load))


@pytest.mark.parametrize(
    "method", ["single", "ecmp", "disjoint-2", "disjoint:3", "max-flow", "capillary", "capillary:1"]
)
def test_hosts_do_not_forward_in_any_method(method: str) -> None:
    net = network("ah", "hd", "ab", "bc", "cd", hosts="hd")
    route = route_by_name(net, "a", "d", method)
    assert loads(route) == {"ab": "1", "bc": "1", "cd": "1"}


@pytest.mark.parametrize(
    "method", ["single", "ecmp", "disjoint-2", "max-flow", "capillary", "capillary:2"]
)
def test_an_unreachable_sink_is_one_clear_line_in_every_method(method: str) -> None:
    with pytest.raises(NoPathError, match="no path leads from 'a' to 'd'"):
        route_by_name(network("ab", "da", "cd"), "a", "d", method)


@pytest.mark.parametrize("method", ["single", "ecmp", "disjoint-2", "max-flow", "capillary"])
def test_wrong_end_points_are_refused_in_every_method(method: str) -> None:
    net = network("ab", "ba")
    with pytest.raises(InputError, match="no node 'x'"):
        route_by_name(net, "a", "x", method)
    with pytest.raises(InputError, match="both 'a'; choose two"):
        route_by_name(net, "a", "a", method)


@pytest.mark.parametrize(
    "method",
    [
        "",
        "shortest",
        "disjoint",
        "disjoint:",
        "disjoint:0",
        "disjoint:-1",
        "capillary:x",
        "ecmp:2",
        "single:1",
    ],
)
def test_an_unknown_method_or_number_is_refused(method: str) -> None:
    with pytest.raises(InputError, match="routing method"):
        routing_method(method)


@pytest.mark.parametrize("method", ["single", "disjoint:2", "capillary:2", "max-flow"])
def test_layers_are_for_capillary_routing_only(method: str) -> None:
    with pytest.raises(InputError, match="takes no layers"):
        routing_method(method, layers=2)


def test_capillary_with_a_number_is_capillary_with_layers() -> None:
    net = network("sa", "sb", "ac", "ad", "bc", "bd", "bt", "ct", "dt")
    assert route_by_name(net, "s", "t", "capillary:2") == route_by_name(
        net, "s", "t", "capillary", layers=2
    )


def test_every_named_method_can_be_called() -> None:
    net = network("ab", "bd", "ac", "cd")
    for name in ROUTINGS.builtin_names():
        assert (
            route_by_name(
                net, "a", "d", name.replace(":k", ":2").replace(":K", ":2").replace(":T", ":0.05")
            ).network
            is net
        )
