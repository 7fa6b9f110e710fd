"""Capillary routes of small networks, worked by hand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from testbed.errors import InputError
from testbed.routing import capillary_route
from testbed.routing.capillary import route as capillary_recursion
from testbed.routing.capillary.pieces import Piece, Split
from testbed.routing.capillary.route import settle
from testbed.routing.flows.end_points import LinkArrays
from topologies.network import Link, Network, Node


def build(ends: str, capacities: dict[int, float] | None = None) -> Network:
    """A network of switches; links named by their two letters and in that order, repeated for parallel ones."""
    names = ends.split()
    links = tuple(
        Link(
            source=n[0],
            target=n[1],
            key=names[:i].count(n),
            capacity_bps=(capacities or {}).get(i, 1e7),
        )
        for i, n in enumerate(names)
    )
    nodes = tuple(Node(id=n, kind="switch") for n in dict.fromkeys("".join(names)))
    return Network(name="small", nodes=nodes, links=links)


THESIS = "sa sb ac ad bc bd bt ct dt"
"""Figures 44-53: two links leave the sender, three reach the receiver."""


def fractions(*texts: str) -> list[Fraction]:
    return [Fraction(text) for text in texts]


def test_thesis_figures_44_to_53_come_out_layer_by_layer() -> None:
    route = capillary_route(build(THESIS), "s", "t")
    assert list(route.loads) == fractions(
        "1/2", "1/2", "1/4", "1/4", "1/12", "1/12", "1/3", "1/3", "1/3"
    )
    assert [layer.load for layer in route.layers] == fractions("1/2", "1/3", "1/4", "1/12")
    assert [layer.factor for layer in route.layers] == fractions("2", "3/2", "4/3", "3")
    assert [len(layer.bottlenecks) for layer in route.layers] == [2, 3, 2, 2]
    assert route.link_layers == (1, 1, 3, 3, 4, 4, 2, 2, 2)


def test_each_load_is_one_over_the_product_of_factors_to_its_layer() -> None:
    route = capillary_route(build(THESIS), "s", "t")
    product = Fraction(1)
    for layer in route.layers:
        product *= layer.factor
        assert all(route.load(link) == 1 / product for link in layer.bottlenecks)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_first_layers_keep_their_loads_and_others_stay_within_the_last(
    layers: int,
) -> None:
    full, part = (capillary_route(build(THESIS), "s", "t", layers=k) for k in (None, layers))
    assert part.method == f"capillary:{layers}"
    assert part.layers == full.layers[:layers]
    for load, final, layer in zip(part.loads, full.loads, full.link_layers, strict=True):
        if layer <= layers:
            assert load == final
        else:
            assert load <= part.layers[-1].load


def test_the_rest_goes_over_the_fewest_links() -> None:
    # one half each way; behind b the rest may take b-t whole or share it with b-c-t
    route = capillary_route(build("sa sb at bt bc ct"), "s", "t", layers=1)
    assert list(route.loads) == fractions("1/2", "1/2", "1/2", "1/2", "0", "0")


def test_more_layers_than_there_are_give_the_full_route() -> None:
    assert capillary_route(build(THESIS), "s", "t", layers=99) == capillary_route(
        build(THESIS), "s", "t"
    )


@pytest.mark.parametrize("layers", [0, -1, True, 1.5])
def test_layers_below_one_are_refused(layers: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        capillary_route(build(THESIS), "s", "t", layers=layers)


def test_parallel_links_share_as_links_of_their_own() -> None:
    route = capillary_route(build("st st sa at"), "s", "t")
    assert route.loads == (Fraction(1, 3),) * 4


def test_unequal_capacities_share_in_proportion() -> None:
    # 3 + 1 of capacity: loads 3/4 and 1/4, every link at utilisation 3/4 / (3/3) of the largest
    route = capillary_route(build("sa sb at bt", {0: 3e6, 1: 1e6, 2: 3e6, 3: 2e6}), "s", "t")
    assert list(route.loads) == fractions("3/4", "1/4", "3/4", "1/4")
    assert [layer.load for layer in route.layers] == fractions("3/4", "3/8")
    assert route.utilisations == (0.75, 0.75, 0.75, 0.375)


def test_capacities_that_differ_only_in_unit_give_the_same_route() -> None:
    slow = Network(
        name="slow",
        nodes=build(THESIS).nodes,
        links=tuple(
            Link(source=x.source, target=x.target, capacity_bps=1544000.5)
            for x in build(THESIS).links
        ),
    )
    assert capillary_route(slow, "s", "t").loads == capillary_route(build(THESIS), "s", "t").loads


def test_links_into_the_source_and_dead_ends_carry_nothing() -> None:
    route = capillary_route(build("st sa as ab ts bc cb"), "s", "t")
    assert [str(load) for load in route.loads] == ["1", "0", "0", "0", "0", "0", "0"]


def compile_always(monkeypatch: pytest.MonkeyPatch, *, compiled: bool) -> None:
    monkeypatch.setattr(capillary_recursion, "COMPILE_FROM_LINKS", 0 if compiled else 10**9)


@pytest.mark.parametrize("compiled", [False, True])
def test_loads_far_below_the_precision_of_floats_come_out_exactly(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_always(monkeypatch, compiled=compiled)
    stages = ["s", *(f"{i}" for i in range(60)), "u"]  # every stage halves the flow
    pairs = [*pairwise(stages), *((n, "t") for n in stages)]
    nodes = tuple(Node(id=n, kind="switch") for n in [*stages, "t"])
    links = tuple(Link(source=a, target=b) for a, b in pairs)
    route = capillary_route(Network(name="chain", nodes=nodes, links=links), "s", "t")
    assert min(load for load in route.loads if load) == Fraction(1, 2**61)


def test_a_piece_that_floats_misjudge_is_solved_again_in_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # x must hand a 1e-14th of its flow to y: less than the compiled kernel can see, so its answer does not balance
    net = build("sx sy xt xy yt", {0: 1e12, 1: 1e12, 2: 1e12, 3: 2e-2, 4: 1e12 + 3e-2})
    compile_always(monkeypatch, compiled=False)
    exact = capillary_route(net, "s", "t")
    assert 0 < exact.load(("x", "y", 0)) < Fraction(1, 10**13)
    compile_always(monkeypatch, compiled=True)
    assert capillary_route(net, "s", "t") == exact


def test_a_split_that_does_not_balance_is_refused() -> None:
    links = LinkArrays(nodes=3, tail=(0, 0, 1), head=(1, 2, 2), weight=(1, 1, 1))
    piece = Piece(nodes=[0, 1, 2], demand=[1, 0, -1], denominator=1, bound=None, in_integers=False)
    right = Split(parts=2, component=[1, 0, 0], crossing=[0, 1], full=[1, 1])
    settled = settle(piece, right, links)
    assert settled is not None
    level, children = settled
    assert level == Fraction(1, 2)
    assert [(child.demand, child.denominator) for child in children] == [([1, -1], 2)]
    assert (
        settle(
            piece, Split(parts=3, component=[2, 1, 0], crossing=[0, 1, 2], full=[1, 1, 0]), links
        )
        is None
    )
    assert (
        settle(piece, Split(parts=2, component=[1, 0, 0], crossing=[0, 1], full=[0, 0]), links)
        is None
    )
    assert settle(piece, None, links) is None
    assert settle(replace(piece, bound=Fraction(1, 2)), right, links) is None


def test_importing_the_package_and_routing_a_small_network_need_no_numba() -> None:
    code = (
        "import sys; from testbed.routing import capillary_route; from topologies.network import *;"
        "net = Network(name='n', nodes=(Node(id='a', kind='switch'), Node(id='b', kind='switch')),"
        " links=(Link(source='a', target='b'),));"
        "capillary_route(net, 'a', 'b'); print([m for m in ('numba', 'numpy', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
