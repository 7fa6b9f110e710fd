"""The certificate of capillary routes refuses what is not one, and says why."""

from __future__ import annotations

from fractions import Fraction

import pytest

from testbed.errors import InputError
from testbed.routing.capillary.certificate import check_certificate
from topologies.network import Link, Network, Node


def build(*ends: str, hosts: str = "") -> Network:
    nodes = tuple(
        Node(id=n, kind="host" if n in hosts else "switch") for n in dict.fromkeys("".join(ends))
    )
    return Network(
        name="small", nodes=nodes, links=tuple(Link(source=n[0], target=n[1]) for n in ends)
    )


def parts(*texts: str) -> list[Fraction]:
    return [Fraction(text) for text in texts]


SQUARE = build("ab", "ac", "bd", "cd")
THESIS = build("sa", "sb", "ac", "ad", "bc", "bd", "bt", "ct", "dt")


def test_the_thesis_route_is_certified_with_its_four_levels() -> None:
    loads = parts("1/2", "1/2", "1/4", "1/4", "1/12", "1/12", "1/3", "1/3", "1/3")
    assert check_certificate(THESIS, "s", "t", loads).levels == tuple(
        parts("1/2", "1/3", "1/4", "1/12")
    )
    assert check_certificate(THESIS, "s", "t", loads).valid


def test_the_first_layer_alone_is_not_the_full_route() -> None:
    loads = parts("1/2", "1/2", "1/2", "0", "0", "0", "1/2", "1/2", "0")
    found = check_certificate(THESIS, "s", "t", loads)
    assert not found.valid
    assert "link a->c: its load 1/2 can be lowered" in found.violations
    assert not any("s->a" in line for line in found.violations)


def test_a_route_that_is_wrong_only_in_the_last_layer_is_refused() -> None:
    loads = parts("1/2", "1/2", "1/4", "1/4", "1/24", "1/8", "1/3", "7/24", "3/8")
    assert not check_certificate(THESIS, "s", "t", loads).valid


def test_flow_that_vanishes_is_named_with_its_node() -> None:
    found = check_certificate(SQUARE, "a", "d", parts("1/2", "1/2", "1/2", "0"))
    assert found.violations == (
        "node c: sends out -1/2 more than it takes in instead of 0",
        "node d: sends out -1/2 more than it takes in instead of -1",
    )


def test_negative_loads_are_named() -> None:
    found = check_certificate(SQUARE, "a", "d", parts("-1", "2", "-1", "2"))
    assert "link a->b: negative load -1" in found.violations


def test_a_host_in_the_middle_may_not_carry_flow_and_is_no_way_around() -> None:
    net = build("ab", "ac", "bd", "cd", hosts="c")
    assert check_certificate(net, "a", "d", parts("1", "0", "1", "0")).valid
    assert (
        "does not forward"
        in check_certificate(net, "a", "d", parts("1/2", "1/2", "1/2", "1/2")).violations[0]
    )


def test_capacities_count() -> None:
    nodes = tuple(Node(id=n, kind="switch") for n in "ad")
    links = (
        Link(source="a", target="d", capacity_bps=3e6),
        Link(source="a", target="d", key=1, capacity_bps=1e6),
    )
    net = Network(name="two", nodes=nodes, links=links)
    assert check_certificate(net, "a", "d", parts("3/4", "1/4")).valid
    assert not check_certificate(net, "a", "d", parts("1/2", "1/2")).valid


def test_a_circulation_is_refused() -> None:
    net = build("ad", "bc", "cb")
    assert not check_certificate(net, "a", "d", parts("1", "1/2", "1/2")).valid


def test_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="2 loads for 4 links"):
        check_certificate(SQUARE, "a", "d", parts("1", "1"))
    with pytest.raises(InputError, match="no node 'x'"):
        check_certificate(SQUARE, "a", "x", parts("1", "0", "1", "0"))
    with pytest.raises(InputError, match="both 'a'"):
        check_certificate(SQUARE, "a", "a", parts("1", "0", "1", "0"))
