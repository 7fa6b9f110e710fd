"""Whatever network is written is read back equal."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.drawn import drawn
from topologies import Link, Network, Node, load_network
from topologies.files.formats import write_network_file

_FIELDS = {"id", "kind", "position", "source", "target", "key", "capacity_bps", "delay_s", "name"}
_xml_text = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=6
)
_names = st.one_of(
    st.sampled_from(["x", "y", "pos", "Longitude", "label", "json_attributes", "directed"]),
    st.text(max_size=5),
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
_attributes = st.dictionaries(_names.filter(lambda n: n not in _FIELDS), _values, max_size=3)
_numbers = st.floats(min_value=-1e9, max_value=1e9)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    ids = draw(st.lists(_xml_text, min_size=1, max_size=6, unique=True))
    nodes = tuple(
        Node(
            id=i,
            kind=draw(st.sampled_from(["host", "switch"])),
            position=draw(st.none() | st.tuples(_numbers, _numbers)),
            attributes=draw(_attributes),
        )
        for i in ids
    )
    pairs = [(a, b) for a in ids for b in ids if a != b]
    keyed = (
        st.tuples(st.sampled_from(pairs), st.integers(min_value=0, max_value=3))
        if pairs
        else st.nothing()
    )
    links = tuple(
        Link(
            source=a,
            target=b,
            key=key,
            capacity_bps=draw(st.floats(min_value=1e-3, max_value=1e15)),
            delay_s=draw(st.floats(min_value=0, max_value=1e3)),
            attributes=draw(_attributes),
        )
        for (a, b), key in draw(st.lists(keyed, max_size=8, unique=True) if pairs else st.just([]))
    )
    return Network(name=draw(_xml_text), nodes=nodes, links=links, attributes=draw(_attributes))


def _round_trip(network: Network) -> Network:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.json"
        write_network_file(network, path)
        return load_network(path)


def _exact(value: Any) -> str:
    return repr(value)  # tells 1 from 1.0 and from True


@given(network=networks())
@drawn(120)
@example(
    network=Network(
        name="n", nodes=(Node(id="a", kind="host", attributes={"x": 1, "y": 2.0}),), links=()
    )
)
@example(
    network=Network(
        name="n", nodes=(Node(id=" a ", kind="host", attributes={"t": " s\r\n "}),), links=()
    )
)
def test_a_written_network_is_read_back_equal(network: Network) -> None:
    found = _round_trip(network)
    assert found == network
    assert [sorted(map(_exact, n.attributes.items())) for n in found.nodes] == [
        sorted(map(_exact, n.attributes.items())) for n in network.nodes
    ]


@pytest.mark.parametrize(
    "name",
    [
        "swiss-t1",
        "two-switch",
        "crossbar:3",
        "optical-cloud",
        "manet:nodes=30",
        "torus:3x2x2",
        "fat-tree:2,2",
        "clos:4",
    ],
)
def test_a_catalogue_network_keeps_its_routing_through_a_file(name: str) -> None:
    from topologies.routing_tables import static_routing

    network = load_network(name)
    found = _round_trip(network)
    assert found == network
    here, there = static_routing(network), static_routing(found)
    ends = [n.id for n in network.hosts]
    assert here.method == there.method
    sender, receiver = (ends[0], ends[-1]) if name != "two-switch" else ("t1", "r5")
    assert here(sender, receiver) == there(sender, receiver)
