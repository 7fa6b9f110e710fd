"""What holds for every capillary route: conservation, the certificate, the lexicographic optimum found another way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from testbed.model.routes import SplitRoute
from testbed.routing import capillary_route, route_by_name
from testbed.routing.capillary import kernel
from testbed.routing.capillary import route as capillary_recursion
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.capillary.pieces import Piece, Split
from testbed.routing.capillary.route import final_loads
from testbed.routing.flows.end_points import LinkArrays
from testbed.routing.flows.min_cost import fewest_links_flow
from tests.helpers.drawn import drawn
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

many = drawn(60)  # the machine's pace is no property of a route
few = drawn(25)


@st.composite
def networks(draw: st.DrawFn, *, equal: bool = True, most_nodes: int = 9) -> Network:
    """Random directed or undirected graphs, with parallel links; sometimes with a host that is not an end."""
    count = draw(st.integers(2, most_nodes))
    node = st.integers(0, count - 1)
    pairs = draw(
        st.lists(
            st.tuples(node, node).filter(lambda p: p[0] != p[1]), min_size=1, max_size=3 * count
        )
    )
    if draw(st.booleans()):
        pairs = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    capacity = st.just(1e7) if equal else st.sampled_from([1e6, 2e6, 3e6, 1e7, 1544000.0])
    links = tuple(
        Link(
            source=f"n{a}", target=f"n{b}", key=pairs[:i].count((a, b)), capacity_bps=draw(capacity)
        )
        for i, (a, b) in enumerate(pairs)
    )
    host = draw(st.integers(2, 30))
    nodes = tuple(Node(id=f"n{i}", kind="host" if i == host else "switch") for i in range(count))
    return Network(name="random", nodes=nodes, links=links)


def geometric_links(seed: int) -> LinkArrays:
    """24 nodes in the unit square, linked both ways where they are near: several pieces a wave."""
    places = np.random.default_rng(seed).random((24, 2))
    near = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) < 0.33
    tail, head = (ends.tolist() for ends in np.nonzero(near & ~np.eye(24, dtype=bool)))
    return LinkArrays(nodes=24, tail=tail, head=head, weight=[1] * len(tail))


def capillary_or_discard(network: Network, layers: int | None = None) -> SplitRoute:
    try:
        return capillary_route(network, "n0", "n1", layers)
    except NoPathError:
        assume(False)
        raise


@many
@given(networks() | networks(equal=False))
def test_every_route_conserves_flow_and_holds_its_certificate(network: Network) -> None:
    route = capillary_or_discard(network)  # SplitRoute itself refuses loads that are not conserved
    certificate = check_certificate(network, "n0", "n1", route.loads)
    assert certificate.violations == ()
    assert certificate.levels == tuple(layer.load for layer in route.layers)


@many
@given(networks() | networks(equal=False))
def test_layers_fall_and_their_bottlenecks_are_the_loaded_links(network: Network) -> None:
    route = capillary_or_discard(network)
    loads = [layer.load for layer in route.layers]
    assert loads == sorted(set(loads), reverse=True)
    bottlenecks = [link for layer in route.layers for link in layer.bottlenecks]
    assert sorted(bottlenecks) == sorted(network.links[i].id for i in route.loaded)
    assert [bool(layer) for layer in route.link_layers] == [load > 0 for load in route.loads]


@many
@given(networks(equal=False), st.integers(1, 4))
def test_more_layers_never_raise_the_sorted_utilisations(network: Network, layers: int) -> None:
    def profile(route: SplitRoute) -> list[Fraction]:
        top = max(Fraction(link.capacity_bps) for link in network.links)
        rows = zip(route.loads, network.links, strict=True)
        return sorted(
            (load * top / Fraction(link.capacity_bps) for load, link in rows), reverse=True
        )

    fewer, more = capillary_or_discard(network, layers), capillary_or_discard(network, layers + 1)
    assert profile(more) <= profile(fewer)
    assert max(profile(fewer)) == fewer.layers[0].load


@many
@given(networks() | networks(equal=False))
def test_integers_and_compiled_floats_give_the_same_route(network: Network) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capillary_recursion, "COMPILE_FROM_LINKS", 10**9)
        exact = capillary_or_discard(network)
        patch.setattr(capillary_recursion, "COMPILE_FROM_LINKS", 0)
        assert capillary_or_discard(network) == exact


@few
@given(networks(most_nodes=6) | networks(equal=False, most_nodes=6))
def test_loads_agree_with_a_linear_programme_for_each_layer(network: Network) -> None:
    route = capillary_or_discard(network)
    assert np.allclose(
        [float(load) for load in route.loads], lexicographic_loads(network, "n0", "n1"), atol=1e-6
    )


def lexicographic_loads(network: Network, source: str, sink: str) -> list[float]:
    """Minimise the greatest utilisation, fix the links that cannot be below it (one programme each), and again."""
    usable = [
        i
        for i, link in enumerate(network.links)
        if {link.source, link.target} - {source, sink} <= {n.id for n in network.switches}
    ]
    top = max(link.capacity_bps for link in network.links)
    ratio = np.array([network.links[i].capacity_bps / top for i in usable])
    balance = np.zeros((len(network.nodes), len(usable) + 1))
    for at, i in enumerate(usable):
        balance[network.node_index[network.links[i].source], at] += 1
        balance[network.node_index[network.links[i].target], at] -= 1
    wanted = np.zeros(len(network.nodes))
    wanted[network.node_index[source]], wanted[network.node_index[sink]] = 1, -1
    fixed: dict[int, float] = {}
    while len(fixed) < len(usable):
        free = [at for at in range(len(usable)) if at not in fixed]
        least = np.zeros((len(free), len(usable) + 1))
        for row, at in enumerate(free):
            least[row, at], least[row, -1] = 1, -ratio[at]
        bounds = [
            (fixed[at], fixed[at]) if at in fixed else (0, None) for at in range(len(usable))
        ] + [(0, None)]

        def solve(cost: np.ndarray, limit: float | None = None) -> float:
            ends = [*bounds[:-1], (0, limit)]  # noqa: B023
            found = linprog(
                cost,
                A_ub=least,  # noqa: B023
                b_ub=np.zeros(len(free)),  # noqa: B023
                A_eq=balance,
                b_eq=wanted,
                bounds=ends,
            )
            return float(found.fun)

        cost = np.zeros(len(usable) + 1)
        cost[-1] = 1
        level = solve(cost)
        for at in free:
            cost = np.zeros(len(usable) + 1)
            cost[at] = 1
            if solve(cost, level + 1e-9) > level * ratio[at] - 1e-7:
                fixed[at] = level * ratio[at]
        if level < 1e-7:
            fixed |= dict.fromkeys(free, 0.0)
    loads = np.zeros(len(network.links))
    loads[usable] = [fixed[at] for at in range(len(usable))]
    return list(loads)


@many
@given(networks() | networks(equal=False), st.data())
def test_the_certificate_refuses_a_route_that_was_moved(
    network: Network, data: st.DataObject
) -> None:
    route = capillary_or_discard(network)
    other = route_by_name(
        network,
        "n0",
        "n1",
        data.draw(st.sampled_from(["single", "ecmp", "max-flow", "capillary:1"])),
    )
    share = data.draw(st.fractions(Fraction(1, 10**12), 1))
    mixed = [a + (b - a) * share for a, b in zip(route.loads, other.loads, strict=True)]
    assert check_certificate(network, "n0", "n1", mixed).valid == (other.loads == route.loads)


@many
@given(networks(), st.data())
def test_the_certificate_refuses_loads_that_are_not_conserved(
    network: Network, data: st.DataObject
) -> None:
    loads = list(capillary_or_discard(network).loads)
    link = data.draw(st.integers(0, len(loads) - 1))
    loads[link] += Fraction(1, 10**15)
    found = check_certificate(network, "n0", "n1", loads)
    assert not found.valid
    assert any(
        end in " ".join(found.violations)
        for end in (network.links[link].source, network.links[link].target)
    )


@many
@given(networks(most_nodes=7), st.integers(1, 4))
def test_the_fewest_links_flow_costs_what_network_simplex_finds(
    network: Network, amount: int
) -> None:
    import networkx as nx

    index = network.node_index
    tail, head = (
        [index[getattr(link, end)] for link in network.links] for end in ("source", "target")
    )
    demand = [0] * len(network.nodes)
    demand[0], demand[1] = amount, -amount
    capacity = [1 + i % 3 for i in range(len(tail))]
    flow, unmet = fewest_links_flow(tail, head, capacity, demand)
    sent = amount - unmet[0]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(demand)))
    for i, (a, b) in enumerate(
        zip(tail, head, strict=True)
    ):  # a node in the middle keeps parallel links apart
        graph.add_edge(a, f"m{i}", capacity=capacity[i], weight=1)
        graph.add_edge(f"m{i}", b)
    assert sent == min(amount, nx.maximum_flow_value(graph, 0, 1))
    graph.nodes[0]["demand"], graph.nodes[1]["demand"] = -sent, sent
    assert sum(flow) == nx.network_simplex(graph)[0]


@many
@given(st.integers(0, 10**6))
def test_compiled_and_integer_recursion_agree_on_geometric_graphs(seed: int) -> None:
    links = geometric_links(seed)
    try:
        exact = final_loads(links, 0, 1, compiled=False)
    except capillary_recursion.DisconnectedError:
        assume(False)
        raise
    assert final_loads(links, 0, 1, compiled=True) == exact


@few
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_pieces_beyond_float_precision_are_split_in_integers(seed: int, doubts: int) -> None:
    """A kernel that gives up on pieces at random: the answer is the same, whichever part of it came from which
    solver."""
    doubt = random.Random(doubts)

    class DoubtfulSolver(kernel.CompiledSolver):
        def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
            return [None if doubt.random() < 0.4 else split for split in super().split(pieces)]

    links = geometric_links(seed)
    try:
        exact = final_loads(links, 0, 1, compiled=False)
    except capillary_recursion.DisconnectedError:
        assume(False)
        raise
    with mock.patch.object(kernel, "CompiledSolver", DoubtfulSolver):
        assert final_loads(links, 0, 1, compiled=True) == exact
