"""Whatever names a network has, one line of text can say its nodes, pairs, links and faults, and means one thing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import (
    fault_text,
    manner_text,
    parse_cable_faults,
    parse_fault,
    parse_fault_list,
)
from testbed.model.naming.names import (
    link_text,
    pair_text,
    read_link,
    read_node,
    read_pair,
    read_pairs,
)
from topologies.network import Link, Network, Node, label_of, quoted

SIGNS = [
    "->",
    "-",
    ">",
    ":",
    ",",
    "@",
    "#",
    "=",
    " ",
    '"',
    "'",
    "\\",
    "a",
    "b",
    "1",
    "2",
    "ü",
    "東",
    "down",
    "loss",
    "1-2",
    "p=",
]
names = st.lists(st.sampled_from(SIGNS), min_size=1, max_size=5).map("".join)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    ids = draw(st.lists(names, min_size=2, max_size=6, unique=True))
    ends = st.tuples(st.sampled_from(ids), st.sampled_from(ids), st.sampled_from([0, 0, 1, 12]))
    links = draw(
        st.lists(ends.filter(lambda link: link[0] != link[1]), min_size=1, max_size=8, unique=True)
    )
    return Network(
        name="drawn",
        nodes=tuple(Node(id=name, kind="switch") for name in ids),
        links=tuple(Link(source=a, target=b, key=key) for a, b, key in links),
    )


@st.composite
def faults_of(draw: st.DrawFn, network: Network) -> Fault:
    start = draw(st.floats(0, 1e6))
    stop = start + draw(st.floats(1e-3, 1e3))
    assume(stop > start)
    manner = draw(
        st.sampled_from(
            [
                {},
                {"kind": "blackhole"},
                {"kind": "impaired", "impairments": "ge:p=0.01,r=0.3 jitter:0.005"},
            ]
        )
        | st.floats(0.001, 1).map(lambda loss: {"kind": "loss", "loss_fraction": loss})
    )
    link = draw(st.sampled_from([link.id for link in network.links]))
    return Fault(
        link=link,
        start_s=start,
        stop_s=stop,
        direction=draw(st.sampled_from(["both", "forward"])),
        **manner,
    )


@given(networks(), st.data())
def test_quoted_names_round_trip(network: Network, data: st.DataObject) -> None:
    ids = [node.id for node in network.nodes]
    pairs = tuple(
        data.draw(
            st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), min_size=1, max_size=4)
        )
    )
    faults = tuple(data.draw(st.lists(faults_of(network), min_size=1, max_size=4)))
    link = data.draw(st.sampled_from(network.links)).id
    space = data.draw(st.sampled_from(["", " "]))
    assert read_node(space + quoted(ids[0]) + space, network) == ids[0]
    assert read_pair(pair_text(pairs[0]), network, "--flow") == pairs[0]
    assert read_pairs(f"{space},{space}".join(map(pair_text, pairs)), network, "--pattern") == pairs
    assert read_link(link_text(link), network) == link
    assert parse_fault(fault_text(faults[0]), network) == faults[0]
    text = f"{space},{space}".join(map(fault_text, faults))
    assert parse_fault_list(text, network) == tuple(
        sorted(faults, key=lambda fault: (fault.start_s, fault.link))
    )


@given(networks())
def test_a_printed_link_is_that_link(network: Network) -> None:
    labels = {label_of(link.id): link.id for link in network.links}
    assert len(labels) == len(network.links)
    assert all(read_link(label, network) == link for label, link in labels.items())


@given(networks(), st.data())
def test_text_without_quotes_means_what_it_says_or_is_refused(
    network: Network, data: st.DataObject
) -> None:
    """What is read has the words of the text as its names, and a refusal is one line."""
    ids = [node.id for node in network.nodes]
    pair = data.draw(st.tuples(st.sampled_from(ids), st.sampled_from(ids)))
    fault = data.draw(faults_of(network))
    text = f"{label_of(fault.link)}@{fault.start_s!r}-{fault.stop_s!r} {manner_text(fault)}"
    for read, said, wanted in (
        (lambda text: read_pair(text, network, "--flow"), ":".join(pair), pair),
        (lambda text: parse_fault(text, network), text, fault),
        (lambda text: parse_fault_list(text, network), text, (fault,)),
    ):
        try:
            assert read(said) == wanted or '"' in said
        except InputError as error:
            assert "in two ways; write" in str(error) or '"' in said


@given(
    networks(),
    st.text(max_size=12)
    | st.lists(st.sampled_from([*SIGNS, "@1-2", "random:1"]), max_size=9).map("".join),
)
def test_any_text_is_read_or_refused(network: Network, text: str) -> None:
    for read in (
        lambda: read_node(text, network),
        lambda: read_pairs(text, network, "--pattern"),
        lambda: parse_fault_list(text, network),
        lambda: parse_cable_faults(text, network, seed=1, duration_s=1.0),
    ):
        try:
            read()
        except InputError as error:
            assert str(error)


def _ring(*ids: str) -> Network:
    ends = [*zip(ids, [*ids[1:], ids[0]], strict=True)]
    return Network(
        name="ring",
        nodes=tuple(Node(id=name, kind="switch") for name in ids),
        links=tuple(Link(source=a, target=b) for pair in ends for a, b in (pair, pair[::-1])),
    )


COLONS = _ring("of:01", "of:02", "of:03")
SIGNED = _ring("a->b", "c,d", "e#1", "f@2", "g=h")
WORDS = _ring("São Paulo", "Zürich HB", "東京", "h-1.a")


@pytest.mark.parametrize(
    ("network", "text", "pairs"),
    [
        (COLONS, "of:01:of:03", [("of:01", "of:03")]),
        (COLONS, "of:01:of:03, of:02 : of:01", [("of:01", "of:03"), ("of:02", "of:01")]),
        (SIGNED, "c,d:f@2,a->b:c,d", [("c,d", "f@2"), ("a->b", "c,d")]),
        (
            WORDS,
            'São Paulo:東京, "Zürich HB":h-1.a',
            [("São Paulo", "東京"), ("Zürich HB", "h-1.a")],
        ),
    ],
)
def test_pairs_of_names_with_signs(
    network: Network, text: str, pairs: list[tuple[str, str]]
) -> None:
    assert read_pairs(text, network, "--pattern") == tuple(pairs)


@pytest.mark.parametrize(
    ("network", "text", "links"),
    [
        (COLONS, "of:01->of:02@1-2", [("of:01", "of:02")]),
        (SIGNED, "a->b->c,d@1-2,c,d->e#1@3-4 loss 0.5", [("a->b", "c,d"), ("c,d", "e#1")]),
        (SIGNED, "g=h->f@2@1-2 ge:p=0.01,r=0.3,g=h->a->b@3-4", [("g=h", "f@2"), ("g=h", "a->b")]),
        (
            WORDS,
            "São Paulo -> Zürich HB@0.5-1 one-way, h-1.a->東京@1-2",
            [("São Paulo", "Zürich HB"), ("h-1.a", "東京")],
        ),
    ],
)
def test_faults_on_names_with_signs(
    network: Network, text: str, links: list[tuple[str, str]]
) -> None:
    assert [fault.ends for fault in parse_fault_list(text, network)] == links


@pytest.mark.parametrize(
    ("network", "text", "cables"),
    [
        (SIGNED, "c,d-e#1@1-2, f@2-g=h", [("f@2", "g=h"), ("c,d", "e#1")]),
        (WORDS, "東京-h-1.a@1-,Zürich HB-東京@2", [("東京", "h-1.a"), ("Zürich HB", "東京")]),
        (COLONS, '"of:01"-of:02', [("of:01", "of:02")]),
    ],
)
def test_cables_of_names_with_signs(
    network: Network, text: str, cables: list[tuple[str, str]]
) -> None:
    assert [
        fault.ends for fault in parse_cable_faults(text, network, seed=1, duration_s=9.0)
    ] == cables


TWICE = Network(
    name="twice",
    nodes=tuple(Node(id=name, kind="switch") for name in ("a", "b", "a:b", "b:c", "c")),
    links=(
        Link(source="a", target="b"),
        Link(source="a", target="b:c"),
        Link(source="a", target="c"),
    ),
)


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (
            read_pair,
            "a:b:c",
            '--flow \'a:b:c\' can be read in two ways; write "a":"b:c" or "a:b":"c"',
        ),
        (read_pair, "a", "write A:B"),
        (read_pair, ":a", "write A:B"),
        (read_pair, "a:x", "has no node 'x'; it has a, b, a:b, b:c, c"),
        (read_pair, "a:b:c:d", "no two nodes of 'twice' with a colon between"),
        (read_pairs, "a:b,a:b:c", 'write "a":"b:c" or "a:b":"c"'),
        (read_pairs, "a:b, a", "write A:B"),
    ],
)
def test_pairs_that_mean_nothing_or_two_things(read: Any, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, TWICE, "--flow")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b->a", "link 'b->a' is no link of 'twice'; from b there is no link"),
        ("a->a:b", "from a there is a->b, a->b:c, a->c"),
        ("a->bc", "did you mean a->b"),
        ("?", "write it a-b (or 'a->b', as testbed topology show --links lists them)"),
    ],
)
def test_a_link_that_is_none(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_link(text, TWICE)
    assert says in str(caught.value)


def test_a_network_without_links_has_none_to_list() -> None:
    with pytest.raises(InputError, match="; it has no links"):
        read_link("a->b", Network(name="empty", nodes=(Node(id="a", kind="switch"),), links=()))


def test_long_lists_are_read_in_time() -> None:
    ids = [f"s{i}" for i in range(60)]
    network = _ring(*ids)
    links = [link.id for link in network.links] * 10
    faults = [Fault(link=link, start_s=i, stop_s=i + 1.0) for i, link in enumerate(links)]
    text = ",".join(f"{label_of(fault.link)}@{fault.start_s}-{fault.stop_s}" for fault in faults)
    assert len(parse_fault_list(text, network)) == len(faults) == 1200


def cities() -> Network:
    names = {"0": "New York", "1": "Seattle", "2": "Springfield", "3": "Springfield", "4": "0"}
    nodes = tuple(
        Node(id=node, kind="switch", attributes={"label": name}) for node, name in names.items()
    )
    links = tuple(Link(source=a, target=b) for a, b in pairwise(names))
    return Network(name="cities", nodes=nodes, links=links)


def test_node_may_be_called_by_its_name() -> None:
    network = cities()
    assert read_node("New York", network) == "0"
    assert read_node("0", network) == "0"
    assert read_pair("New York:Seattle", network, "--flow") == ("0", "1")
    assert read_link("New York->Seattle", network) == ("0", "1", 0)
    assert read_node('"New York"', network) == "0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("New Yrk", "did you mean New York?"),
        ("Springfield", "it has 0 (New York), 1 (Seattle), 2, 3, 4"),
    ],
)
def test_wrong_name_of_node_lists_names(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_node(text, cities())
    assert says in str(refused.value)
