"""What holds for every label split of a flow: whole labels, conserved, each load to 2/65536, as little lost as can
be."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.label_split import LABELS, LabelSplit
from testbed.model.routes import SplitRoute
from testbed.routing import route_by_name
from testbed.routing.label_split.rounding import round_to_labels
from testbed.routing.label_split.spraying import SLIVER, spray
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.errors import NoPathError
from topologies.network import Link, Network, Node

some = drawn(60)


def network_of(ends: list[tuple[int, int]]) -> Network:
    """Switches n0, n1 and so on; equal pairs of ends are parallel links."""
    count = max((n for pair in ends for n in pair), default=1) + 1
    links = tuple(
        Link(source=f"n{a}", target=f"n{b}", key=ends[:i].count((a, b)))
        for i, (a, b) in enumerate(ends)
    )
    return Network(
        name="random",
        nodes=tuple(Node(id=f"n{i}", kind="switch") for i in range(count)),
        links=links,
    )


@st.composite
def acyclic_routes(draw: st.DrawFn, *, most_links: int = 16, tiny: bool = False) -> SplitRoute:
    """Random weights on random paths n0 -> n(last) of a random network whose links lead to higher numbers."""
    last = draw(st.integers(1, 6))
    pair = st.tuples(st.integers(0, last), st.integers(0, last)).filter(lambda p: p[0] < p[1])
    ends = [(0, last), *draw(st.lists(pair, max_size=most_links))]
    network = network_of(ends)
    loads = [Fraction(0)] * len(ends)
    # tiny ones: many paths of less than a label
    weights = draw(st.lists(st.integers(1, 3 if tiny else 1000), min_size=1, max_size=8))
    scale = draw(st.sampled_from([LABELS * 4, LABELS * 7])) if tiny else sum(weights)
    for weight in weights:
        node = 0
        while node != last:
            onward = [i for i, (a, _) in enumerate(ends) if a == node and _leads(ends, i, last)]
            link = draw(st.sampled_from(onward))
            loads[link] += Fraction(weight, scale)
            node = ends[link][1]
    loads[0] += 1 - Fraction(sum(weights), scale)
    return SplitRoute(
        network=network, source="n0", sink=f"n{last}", method="random", loads=tuple(loads)
    )


def _leads(ends: list[tuple[int, int]], link: int, last: int) -> bool:
    reached = {ends[link][1]}
    for _ in ends:
        reached |= {b for a, b in ends if a in reached}
    return last in reached


def check_split(route: SplitRoute, split: LabelSplit) -> None:
    """Every label has a path (LabelSplit sees to it); here: loads, and no link with labels that had no load."""
    units = round_to_labels(route)
    for i, load in enumerate(route.loads):
        assert abs(split.load(i) - load) < Fraction(SLIVER, LABELS)
        assert (split.load(i) > 0) == (units.get(i, 0) > 0)
    if all(LABELS * load % (LABELS // 4096) == 0 for load in route.loads):  # nothing was rounded
        assert all(split.load(i) == load for i, load in enumerate(route.loads))
    assert all(len(set(path.links)) == len(path.links) for path in split.paths)


@some
@given(acyclic_routes() | acyclic_routes(tiny=True))
def test_every_link_carries_its_load_to_less_than_two_labels(route: SplitRoute) -> None:
    check_split(route, spray(route, budget=60))


@some
@given(acyclic_routes())
def test_search_never_makes_more_intervals_than_labels_dealt_in_order(route: SplitRoute) -> None:
    def intervals(budget: int) -> int:
        split = spray(route, budget=budget)
        return sum(len(split.intervals(i)) for i in split.loaded)

    assert intervals(200) <= intervals(0)


@some
@given(acyclic_routes(most_links=9, tiny=True))
def test_as_few_loaded_links_as_possible_get_no_label(route: SplitRoute) -> None:
    units = round_to_labels(route)
    exact = {i: load * LABELS for i, load in enumerate(route.loads) if load}
    assert all(abs(units.get(i, 0) - amount) < 1 for i, amount in exact.items())
    choices = [{amount.__floor__(), -((-amount).__floor__())} for amount in exact.values()]
    most = 0
    for chosen in itertools.product(*choices):
        balance: dict[str, int] = {}
        for i, labels in zip(exact, chosen, strict=True):
            link = route.network.links[i]
            balance[link.source] = balance.get(link.source, 0) + labels
            balance[link.target] = balance.get(link.target, 0) - labels
        if all(
            net == {route.source: LABELS, route.sink: -LABELS}.get(n, 0)
            for n, net in balance.items()
        ):
            most = max(most, sum(1 for labels in chosen if labels))
    assert len(units) == most


@drawn(40)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda p: p[0] != p[1]),
        min_size=1,
        max_size=20,
    ),
    st.booleans(),
)
def test_no_routing_method_makes_a_flow_that_runs_in_a_cycle(
    ends: list[tuple[int, int]], both: bool
) -> None:
    network = network_of([*ends, *((b, a) for a, b in ends)] if both else ends)
    assume({"n0", "n1"} <= network.node_index.keys())
    for method in (
        "single",
        "ecmp",
        "disjoint:2",
        "disjoint:4",
        "max-flow",
        "capillary",
        "capillary:1",
        "capillary:2",
    ):
        try:
            route = route_by_name(network, "n0", "n1", method)
        except NoPathError:
            return
        check_split(route, spray(route, budget=20))


def test_flow_with_a_cycle_is_refused_with_a_link_of_it() -> None:
    network = network_of([(0, 1), (1, 2), (2, 3), (3, 1), (1, 4)])
    half = Fraction(1, 2)
    route = SplitRoute(
        network=network,
        source="n0",
        sink="n4",
        method="given",
        loads=(Fraction(1), half, half, half, Fraction(1)),
    )
    with pytest.raises(InputError, match=r"'n0' -> 'n4'.*cycle near n[123]->n[123]"):
        spray(route)


def test_parallel_thirds_are_one_interval_each() -> None:
    network = network_of([(0, 1)] * 3)
    route = SplitRoute(
        network=network, source="n0", sink="n1", method="thirds", loads=(Fraction(1, 3),) * 3
    )
    split = spray(route)
    assert [len(split.intervals(i)) for i in range(3)] == [1, 1, 1]
    assert sum(int(split.load(i) * LABELS) for i in range(3)) == LABELS


def test_planar_ladder_needs_one_interval_a_link() -> None:
    """Three rows of three nodes between the ends; labels dealt side by side stay whole where neighbours meet again."""
    ends = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 5), (3, 5), (3, 6), (4, 7), (5, 7), (6, 7)]
    loads = [Fraction(n, 12) for n in (4, 4, 4, 2, 2, 4, 2, 2, 2, 8, 2)]
    shuffled = [7, 2, 9, 0, 5, 10, 3, 8, 1, 6, 4]
    route = SplitRoute(
        network=network_of([ends[i] for i in shuffled]),
        source="n0",
        sink="n7",
        method="given",
        loads=tuple(loads[i] for i in shuffled),
    )
    split = spray(route)
    assert [len(split.intervals(i)) for i in split.loaded] == [1] * len(ends)


def test_links_that_rounding_alone_tells_apart_get_the_same_labels() -> None:
    """Ten capillary layers of 80 nodes: thirteen pairs of links differed by a label or two, whose block sizes differed
    by a packet."""
    split = spray(route_by_name(load_network("manet:nodes=80,seed=1"), "n0", "n79", "capillary:10"))
    widths = [path.stop - path.start for path in split.paths]
    assert min(widths) > SLIVER
    sets = np.zeros((len(split.loaded), LABELS), dtype=bool)
    for row, link in zip(sets, split.loaded, strict=True):
        for start, stop in split.intervals(link):
            row[start:stop] = True
    apart = [np.count_nonzero(one ^ other) for one, other in itertools.combinations(sets, 2)]
    assert len(apart) > 1000 and not [labels for labels in apart if 0 < labels <= SLIVER]
