"""What capillary routes promise at their limits: loads that halve sixty times, capacities just near enough, the first
layers alone, networks without links."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.routing import capillary_route
from testbed.routing.capillary import route as capillary_recursion
from testbed.routing.capillary.certificate import check_certificate
from testbed.routing.capillary.kernel import CompiledSolver, FloatRouter
from testbed.routing.capillary.pieces import IntegerSolver, Piece
from testbed.routing.capillary.route import DisconnectedError, final_loads
from testbed.routing.capillary.thesis_loop import hunt_layers, thesis_route
from testbed.routing.flows.end_points import LinkArrays
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.network import Link, Network, Node


def build(ends: str, *capacities: float, hosts: str = "") -> Network:
    """Links named by their two letters; all of 10 Mbit/s, or of these capacities."""
    names = ends.split()
    links = tuple(
        Link(
            source=n[0],
            target=n[1],
            key=names[:i].count(n),
            capacity_bps=capacities[i] if capacities else 1e7,
        )
        for i, n in enumerate(names)
    )
    letters = dict.fromkeys("".join(names))
    return Network(
        name="small",
        nodes=tuple(Node(id=n, kind="host" if n in hosts else "switch") for n in letters),
        links=links,
    )


def halving(stages: int) -> Network:
    """Every stage sends half of what reaches it to the sink."""
    chain = ["s", *(f"{i}" for i in range(stages)), "u"]
    pairs = [*pairwise(chain), *((n, "t") for n in chain)]
    return Network(
        name="halving",
        nodes=tuple(Node(id=n, kind="switch") for n in [*chain, "t"]),
        links=tuple(Link(source=a, target=b) for a, b in pairs),
    )


def test_floats_solve_loads_far_below_one_if_layers_are_near_the_last() -> None:
    network = halving(60)
    exact = [float(load) for load in capillary_route(network, "s", "t").loads]
    assert FloatRouter(network).loads("s", "t") == pytest.approx(exact, rel=1e-9)
    assert 0 < min(load for load in exact if load) < 1e-18


def test_floats_weigh_capacities_by_the_largest() -> None:
    network = build("st st sa at", 4e6, 1e6, 3e6, 5e6)
    assert FloatRouter(network).loads("s", "t").tolist() == pytest.approx(
        [4 / 8, 1 / 8, 3 / 8, 3 / 8]
    )
    route = capillary_route(network, "s", "t")
    assert list(route.loads) == [Fraction(4, 8), Fraction(1, 8), Fraction(3, 8), Fraction(3, 8)]
    # over the largest capacity of the network, which is that of a link that could take more
    assert [layer.load for layer in route.layers] == [Fraction(5, 8), Fraction(3, 8)]
    assert check_certificate(network, "s", "t", route.loads).levels == (
        Fraction(5, 8),
        Fraction(3, 8),
    )


def test_a_network_without_links_or_loads_is_named_node_by_node() -> None:
    apart = Network(name="apart", nodes=tuple(Node(id=n, kind="switch") for n in "ab"), links=())
    found = check_certificate(apart, "a", "b", [])
    assert found.violations == (
        "node a: sends out 0 more than it takes in instead of 1",
        "node b: sends out 0 more than it takes in instead of -1",
    )
    assert found.levels == () and not found.valid


def test_only_the_link_that_a_way_round_could_relieve_is_named() -> None:
    network = build("sa sb at bt ac cd ad db", *[1e7] * 8)
    loads = [Fraction(x) for x in ("1/2", "1/2", "0", "1", "1/4", "1/4", "1/4", "1/2")]
    found = check_certificate(network, "s", "t", loads).violations
    assert found == ("link b->t: its load 1 can be lowered",)


def test_a_host_with_load_and_a_negative_load_are_both_named() -> None:
    network = build("sa sh at ht", hosts="h")
    found = check_certificate(
        network, "s", "t", [Fraction(3, 2), Fraction(-1, 2), Fraction(3, 2), Fraction(1, 2)]
    )
    assert found.violations[:2] == (
        "link s->h: negative load -1/2",
        "link h->t: load 1/2 through a host, which does not forward",
    )
    through = check_certificate(
        network, "s", "t", [Fraction(0), Fraction(1), Fraction(0), Fraction(1)]
    )
    assert [line.split(":")[0] for line in through.violations] == ["link s->h", "link h->t"]


@pytest.mark.parametrize("basic", [None, "hunted"])
def test_thesis_loop_solves_capacities_in_a_ratio_of_ten_thousand(
    basic: None,
) -> None:
    near, far = (build("st sa at", 1e9, thin, thin) for thin in (1e5, 0.9e5))
    exact = [float(load) for load in capillary_route(near, "s", "t").loads]
    assert hunt_layers(near, "s", "t", basic=basic).loads == pytest.approx(exact, abs=1e-6)
    with pytest.raises(InputError, match="a factor of more than 10,000"):
        hunt_layers(far, "s", "t", basic=basic)


def test_the_thesis_loop_counts_its_programmes_and_says_what_it_suspected() -> None:
    network = load_network("capillary-layers")
    route = hunt_layers(network, "s", "t")
    assert route.failure is None
    # one programme a layer for its factor, and one for each turn of the hunt
    assert route.linear_programs == sum(len(layer.suspects) for layer in route.layers)
    assert [round(layer.factor, 6) for layer in route.layers] == [2, 1.5, round(4 / 3, 6), 3]
    assert [round(layer.load * layer.factor, 6) for layer in route.layers] == [
        1,
        0.5,
        round(1 / 3, 6),
        0.25,
    ]
    first = hunt_layers(network, "s", "t", layers=1)
    assert first.layers == route.layers[:1]
    assert [load > 0 for load in first.loads] == [x.source == "s" for x in network.links]
    for rule in ("full", "priced"):
        basic = hunt_layers(network, "s", "t", basic=rule)  # type: ignore[arg-type]
        assert all(layer.suspects == () for layer in basic.layers) and basic.linear_programs == len(
            basic.layers
        )
    assert thesis_route(network, "s", "t").method == "thesis-loop"


def test_the_first_layers_alone_hold_their_loads_at_unequal_capacities() -> None:
    """Two ways of 3 and 1 to b, from which a way of 2 and one of 8 over two links lead on."""
    network = build("sb sb bt ba at", 3e6, 1e6, 2e6, 8e6, 8e6)
    full, first = (capillary_route(network, "s", "t", layers) for layers in (None, 1))
    assert full.loads == tuple(Fraction(x) for x in ("3/4", "1/4", "1/5", "4/5", "4/5"))
    assert [layer.load for layer in full.layers] == [Fraction(2), Fraction(4, 5)]
    # the rest over the fewest links: as much over b-t as the first layer's load allows, 2 * 2/8
    assert first.loads == tuple(Fraction(x) for x in ("3/4", "1/4", "1/2", "1/2", "1/2"))
    assert (first.method, first.link_layers) == ("capillary:1", (1, 1, 0, 0, 0))
    assert (full.method, full.link_layers) == ("capillary", (1, 1, 2, 2, 2))
    assert [layer.factor for layer in full.layers] == [Fraction(1, 2), Fraction(5, 2)]


def test_large_networks_are_solved_by_the_compiled_solver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two_links = LinkArrays(nodes=2, tail=(0, 0), head=(1, 1), weight=(1, 1))
    three_links = LinkArrays(nodes=2, tail=(0,) * 3, head=(1,) * 3, weight=(1,) * 3)
    chosen: list[bool] = []
    solve = capillary_recursion._solve

    def noted(
        links: LinkArrays, source: int, sink: int, *, compiled: bool
    ) -> capillary_recursion.FinalLoads:
        chosen.append(compiled)
        return solve(links, source, sink, compiled=False)

    monkeypatch.setattr(capillary_recursion, "_solve", noted)
    monkeypatch.setattr(capillary_recursion, "COMPILE_FROM_LINKS", 3)
    for _ in range(4):
        assert final_loads(two_links, 0, 1).levels == (Fraction(1, 2),)
    assert final_loads(three_links, 0, 1).levels == (Fraction(1, 3),)
    assert chosen == [False] * 4 + [True], "the choice depends on nothing but the links"
    with pytest.raises(DisconnectedError):
        final_loads(LinkArrays(nodes=2, tail=(), head=(), weight=()), 0, 1)


@drawn(20)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.booleans())
def test_parallel_links_share_by_capacity_and_chains_fill_to_the_narrowest(
    capacities: list[int], chain: bool
) -> None:
    count, top = len(capacities), Fraction(max(capacities))
    if chain:
        network = build(
            " ".join(a + b for a, b in pairwise("abcdefg"[: count + 1])), *map(float, capacities)
        )
        expected, ends = [Fraction(1)] * count, ("a", "abcdefg"[count])
        levels = sorted({top / one for one in capacities}, reverse=True)
    else:
        network, ends = build(" ".join(["ab"] * count), *map(float, capacities)), ("a", "b")
        expected, levels = (
            [Fraction(one, sum(capacities)) for one in capacities],
            [top / sum(capacities)],
        )
    route = capillary_route(network, *ends)
    assert list(route.loads) == expected
    assert [layer.load for layer in route.layers] == levels
    assert check_certificate(network, *ends, route.loads).valid
    assert FloatRouter(network).loads(*ends).tolist() == pytest.approx(
        [float(load) for load in expected]
    )


@pytest.mark.parametrize("solver", [IntegerSolver, CompiledSolver])
def test_piece_without_useful_links_is_left_and_the_next_is_split(
    solver: type[IntegerSolver | CompiledSolver],
) -> None:
    cut_off, whole = (
        Piece(nodes=nodes, demand=[1, -1], denominator=1, bound=None, in_integers=True)
        for nodes in ([0, 1], [2, 3])
    )
    for pieces in ([cut_off, whole], [whole, cut_off]):
        found = solver(4, [2], [3], [1]).split(pieces)
        none, split = found[pieces.index(cut_off)], found[pieces.index(whole)]
        assert none is None and split is not None
        assert (split.parts, split.crossing, split.full) == (2, [0], [1])


@drawn(40)
@given(st.data())
def test_wave_of_pieces_splits_like_single_pieces_in_floats_and_integers(
    data: st.DataObject,
) -> None:
    size, tail, head, pieces = 4, [], [], []
    for first in (0, size, 2 * size):
        nodes = list(range(first, first + size))
        for a, b in data.draw(
            st.lists(st.permutations(nodes).map(lambda p: (p[0], p[1])), max_size=8)
        ):
            tail.append(a)
            head.append(b)
        wants = data.draw(
            st.lists(st.integers(-3, 3), min_size=size - 1, max_size=size - 1).filter(any)
        )
        pieces.append(
            Piece(
                nodes=nodes,
                demand=[*wants, -sum(wants)],
                denominator=1,
                bound=None,
                in_integers=True,
            )
        )
    tail, head = [*tail, 0], [*head, 1]
    weight = data.draw(st.lists(st.integers(1, 4), min_size=len(tail), max_size=len(tail)))
    exact = [IntegerSolver(3 * size, tail, head, weight).split([piece])[0] for piece in pieces]
    for solver in (IntegerSolver, CompiledSolver):
        found = solver(3 * size, tail, head, weight).split(pieces)
        assert [split and (split.parts, _parted(split.component)) for split in found] == [
            split and (split.parts, _parted(split.component)) for split in exact
        ]
        assert [
            split and dict(zip(split.crossing, split.full, strict=True)) for split in found
        ] == [split and dict(zip(split.crossing, split.full, strict=True)) for split in exact]


def _parted(component: list[int]) -> list[int]:
    """Components numbered in the order of their first nodes."""
    order = list(dict.fromkeys(component))
    return [order.index(one) for one in component]
