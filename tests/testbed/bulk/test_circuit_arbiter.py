"""What must always hold of the circuit arbiter: no link has two holders, order is kept, circles are found, nobody
starves."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bulk.arbiter import CircuitArbiter
from testbed.errors import InputError

PATHS = st.lists(
    st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), min_size=1, max_size=12
)
ORDERED = PATHS.map(lambda paths: [sorted(path) for path in paths])


def waits(arbiter: CircuitArbiter, count: int) -> nx.DiGraph:
    """Who waits for whom, asked of the arbiter's public face."""
    graph = nx.DiGraph()
    for key in range(count):
        link = arbiter.waits_for(key)
        if link is not None:
            graph.add_edge(key, arbiter.holder(link))
    return graph


@given(ORDERED, st.randoms(use_true_random=False))
def test_with_ordered_links_everybody_is_served_and_no_circle_is_told(
    paths: list[list[int]], chance: object
) -> None:
    arbiter: CircuitArbiter = CircuitArbiter()
    granted, served = list[int](), list[int]()
    for key, path in enumerate(paths):
        outcome = arbiter.request(key, path)
        granted += outcome.granted
        assert not outcome.deadlocks
    while granted:
        busy = [link for key in granted for link in paths[key]]
        assert len(busy) == len(set(busy)), "two transfers hold one link"
        assert all(arbiter.holder(link) == key for key in granted for link in paths[key])
        leaving = granted.pop(chance.randrange(len(granted)))  # type: ignore[attr-defined]
        served.append(leaving)
        outcome = arbiter.release(leaving)
        assert not outcome.deadlocks
        granted += outcome.granted
    assert sorted(served) == list(range(len(paths)))
    assert arbiter.idle


@given(PATHS)
def test_a_deadlock_is_told_exactly_when_the_waiting_close_a_circle(paths: list[list[int]]) -> None:
    arbiter: CircuitArbiter = CircuitArbiter()
    for key, path in enumerate(paths):
        before = nx.is_directed_acyclic_graph(waits(arbiter, len(paths)))
        outcome = arbiter.request(key, path)
        after = nx.is_directed_acyclic_graph(waits(arbiter, len(paths)))
        if before:
            assert bool(outcome.deadlocks) == (not after)
        for deadlock in outcome.deadlocks:
            assert deadlock.waiting[0] == key
            for i, link in enumerate(deadlock.links):
                assert arbiter.waits_for(deadlock.waiting[i]) == link
                assert arbiter.holder(link) == deadlock.waiting[(i + 1) % len(deadlock.waiting)]


def test_a_link_goes_to_those_who_asked_first() -> None:
    arbiter: CircuitArbiter = CircuitArbiter()
    for key in "abc":
        arbiter.request(key, ["x"])
    assert arbiter.release("a").granted == ("b",)
    assert arbiter.waits_for("c") == "x"


def test_transfer_that_stops_waiting_releases_its_links() -> None:
    arbiter: CircuitArbiter = CircuitArbiter()
    arbiter.request("a", ["x"])
    arbiter.request("b", ["y", "x"])
    arbiter.request("c", ["y"])
    assert arbiter.release("b").granted == ("c",)
    assert arbiter.release("a").granted == ()
    assert arbiter.holder("x") is None


@pytest.mark.parametrize("path", [[], ["x", "x"]])
def test_an_impossible_path_is_refused(path: list[str]) -> None:
    with pytest.raises(InputError, match="its path is empty or takes a link twice"):
        CircuitArbiter().request("a", path)


def test_asking_twice_and_releasing_what_one_has_not_are_refused() -> None:
    arbiter: CircuitArbiter = CircuitArbiter()
    arbiter.request("a", ["x"])
    with pytest.raises(InputError, match="has already requested"):
        arbiter.request("a", ["y"])
    with pytest.raises(InputError, match="holds no link"):
        arbiter.release("b")
