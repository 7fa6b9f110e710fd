"""FT-DRB's escapes on networks of any shape: whoever has a way round a dead link delivers over it, and nothing runs in
a circle."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from testbed.metapath.escape_rules import Detours, escape_rules
from testbed.metapath.labelled_paths import cable_number, labelled_paths, path_label
from testbed.model.wiring import wire
from testbed.openflow.flow_table import RuleWalker
from tests.helpers.drawn import drawn
from topologies.network import Link, Network, Node


def _network(switches: int, chords: int, seed: int) -> Network:
    """A ring and some chords."""
    rng = random.Random(seed)
    pairs = {(k, (k + 1) % switches) for k in range(switches)}
    pairs |= {tuple(sorted(rng.sample(range(switches), 2))) for _ in range(chords)}  # type: ignore[arg-type]
    cables = sorted({(min(p), max(p)) for p in pairs})
    return Network(
        name="ring with chords",
        nodes=tuple(Node(id=f"s{k}", kind="switch") for k in range(switches)),
        links=tuple(
            Link(source=f"s{a}", target=f"s{b}") for pair in cables for a, b in (pair, pair[::-1])
        ),
    )


@drawn(25)
@given(st.integers(4, 9), st.integers(0, 6), st.integers(0, 10**6), st.data())
def test_one_dead_link_is_escaped_wherever_a_way_round_is_found(
    switches: int, chords: int, seed: int, data: st.DataObject
) -> None:
    network = _network(switches, chords, seed)
    sink = f"s{data.draw(st.integers(1, switches - 1))}"
    known, wiring = labelled_paths(network, "s0", sink), wire(network, ["s0", sink])
    rules = escape_rules(wiring, known)
    number = data.draw(st.integers(0, len(known.paths) - 1))
    path = known.inner[number]
    place = data.draw(st.integers(0, len(path) - 1))
    walker = RuleWalker(wiring, rules.rules, groups=rules.groups, down=[path[place]])
    packet = walker.stream_packet("s0", sink, 47000)
    walk = walker.walk("s0", {**packet, "udp_src": path_label(number), "ip_dscp": 0})
    ways = Detours(known).escapes(path[place - 1] if place else None, path[place])
    assert (walk.host == wiring.host_at(sink).name) == bool(ways)
    if ways:
        assert len(walk.links) == place + ways[0].hops
        assert cable_number(network, path[place]) not in {
            cable_number(network, link) for link in walk.links
        }


@drawn(25)
@given(st.integers(4, 8), st.integers(2, 6), st.integers(0, 10**6), st.integers(2, 5))
def test_several_dead_links_never_let_a_packet_go_on_for_ever(
    switches: int, chords: int, seed: int, dead: int
) -> None:
    network = _network(switches, chords, seed)
    known, wiring = labelled_paths(network, "s0", "s2"), wire(network, ["s0", "s2"])
    rules = escape_rules(wiring, known)
    down = random.Random(seed).sample(
        [link.id for link in network.links], min(dead, len(network.links))
    )
    walker = RuleWalker(wiring, rules.rules, groups=rules.groups, down=down)
    packet = {**walker.stream_packet("s0", "s2", 47000), "udp_src": 0, "ip_dscp": 0, "ttl": 64}
    walk = walker.walk("s0", packet)
    cables = {cable_number(network, link) for link in down}
    assert len(walk.links) <= 64
    assert not cables & {cable_number(network, link) for link in walk.links}
