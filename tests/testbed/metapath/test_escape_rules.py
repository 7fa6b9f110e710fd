"""FT-DRB's escapes as rules: evaluated by the flow table, held against the simulator's, without a switch."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.interconnect.ft_drb.escape_steps import escape_path
from testbed.interconnect.ft_drb.source_state import COUNTER_NAMES
from testbed.interconnect.static_paths import build_paths
from testbed.metapath.escape_check import check_overlaps
from testbed.metapath.escape_rules import Detours, EscapeRules, escape_rules, escape_rules_together
from testbed.metapath.labelled_paths import (
    ESCAPED,
    LabelledPaths,
    cable_number,
    dead_link_of,
    labelled_path_pair,
    labelled_paths,
    path_label,
)
from testbed.metapath.plan import MetapathPlan
from testbed.metapath.workload import metapath_plan
from testbed.model.wiring import Wiring, wire
from testbed.openflow.flow_table import RuleWalker, Walk
from testbed.openflow.rules import BACK, Bucket, FailoverGroup
from tests.helpers.drawn import SOAK
from topologies import load_network
from topologies.network import LinkId

PAIRS = [
    ("torus:4x4", "s0_0", "s2_1"),
    ("torus:4x4", "h0_0", "h2_2"),
    ("mesh:3x3", "s0_0", "s2_2"),
    ("ring:5", "s0", "s2"),
]


def _built(name: str, source: str, sink: str) -> tuple[LabelledPaths, Wiring, EscapeRules]:
    network = load_network(name)
    known, wiring = labelled_paths(network, source, sink), wire(network, [source, sink])
    return known, wiring, escape_rules(wiring, known)


def _walker(wiring: Wiring, rules: EscapeRules, down: Iterable[LinkId] = ()) -> RuleWalker:
    return RuleWalker(wiring, rules.rules, groups=rules.groups, down=down)


def _walk(known: LabelledPaths, walker: RuleWalker, path: int, ttl: int = 64) -> Walk:
    packet = walker.stream_packet(known.source, known.sink, 47000)
    return walker.walk(
        known.source, {**packet, "udp_src": path_label(path), "ip_dscp": 0, "ttl": ttl}
    )


@pytest.mark.parametrize(("name", "source", "sink"), PAIRS)
def test_without_a_failure_every_label_follows_its_own_path(
    name: str, source: str, sink: str
) -> None:
    known, wiring, rules = _built(name, source, sink)
    assert len({known.cables[k] for k in range(len(known.paths))}) == len(known.paths)
    walker = _walker(wiring, rules)
    for k, path in enumerate(known.paths):
        walk = _walk(known, walker, k)
        assert walk.links == path
        assert walk.packet["udp_src"] == path_label(k)


@pytest.mark.scaled
@pytest.mark.parametrize(("name", "source", "sink"), PAIRS if SOAK else PAIRS[1:])
def test_any_one_dead_link_is_escaped_and_named_in_the_header(
    name: str, source: str, sink: str
) -> None:
    known, wiring, rules = _built(name, source, sink)
    host = wiring.host_at(sink).name
    for dead in known.network.links:
        if {known.network.node(dead.source).kind, known.network.node(dead.target).kind} != {
            "switch"
        }:
            continue
        number, walker = cable_number(known.network, dead.id), _walker(wiring, rules, [dead.id])
        for k in range(len(known.paths)):
            walk = _walk(known, walker, k)
            assert walk.host == host, (dead.label, k)
            label = walk.packet["udp_src"]
            assert isinstance(label, int)
            link = dead_link_of(label)
            assert (link is not None) == (number in known.cables[k])
            assert (
                link is None or cable_number(known.network, known.network.links[link].id) == number
            )


@pytest.mark.scaled
def test_any_two_dead_links_of_a_torus_are_escaped_from_every_path() -> None:
    """An eighth of the pairs, others each time; `make soak` takes all."""
    known, wiring, rules = _built("torus:4x4", "s0_0", "s2_1")
    host, first = (
        wiring.host_at("s2_1").name,
        [x.id for x in known.network.links if x.source < x.target],
    )
    inner = [x for x in first if x[0].startswith("s") and x[1].startswith("s")]
    pairs = list(combinations(inner, 2))
    assert len(pairs) == 32 * 31 // 2
    for pair in pairs if SOAK else random.sample(pairs, len(pairs) // 8):
        walker = _walker(wiring, rules, pair)
        packet = {**walker.stream_packet("s0_0", "s2_1", 47000), "ip_dscp": 0, "ttl": 64}
        dead = {cable_number(known.network, link) for link in pair}
        for k in range(len(known.paths)):
            if dead & known.cables[k]:
                assert walker.walk("s0_0", {**packet, "udp_src": path_label(k)}).host == host, (
                    pair,
                    k,
                )


def test_faults_at_once_are_refused_where_the_rules_strand_a_packet() -> None:
    _, wiring, rules = _built("ring:5", "s0", "s2")
    near, far = (
        Fault(link=("s0", "s1", 0), start_s=1, stop_s=2),
        Fault(link=("s3", "s4", 0), start_s=1.5, stop_s=2.5),
    )
    with pytest.raises(
        InputError, match=r"faults at 1.5 s: with s0->s1 and s3->s4 down, packets from 's0' to 's2'"
    ):
        check_overlaps(wiring, [rules], [far, near])
    check_overlaps(wiring, [rules], [near, replace(far, start_s=2)])
    _, wiring, rules = _built("torus:4x4", "s0_0", "s2_1")
    cuts = [Fault(link=x, start_s=1, stop_s=2) for x in (("s1_0", "s2_0", 0), ("s1_1", "s2_1", 0))]
    check_overlaps(wiring, [rules], cuts)


def test_a_plan_whose_faults_at_once_strand_packets_is_refused() -> None:
    def planned(*faults: str) -> MetapathPlan:
        return metapath_plan("ring:5", "s0", "s2", routing="ft-drb", faults=faults, duration_s=6.0)

    with pytest.raises(InputError, match=r"faults at 1.5 s: with s0->s1 and s3->s4 down"):
        planned("s0->s1@1-2", "s3->s4@1.5-2.5")
    assert len(planned("s0->s1@1-2", "s3->s4@3-4").faults) == 2


def test_the_first_escape_is_as_long_as_the_simulators() -> None:
    known, _, _ = _built("torus:4x4", "h0_0", "h2_2")
    network, paths = known.network, build_paths(known.network)
    counters = np.zeros(len(COUNTER_NAMES), dtype=np.int64)
    routers = {s.id: i for i, s in enumerate(network.switches)}
    target = paths.routers + [h.id for h in network.hosts].index("h2_2")
    for path in known.inner:
        came: LinkId | None = None
        for link in path:
            down = np.zeros(int(paths.cable.max()) + 1, dtype=np.uint8)
            down[paths.cable[network.link_index[link]]] = 1
            over = -1 if came is None else int(paths.cable[network.link_index[came]])
            one, two = escape_path(paths, counters, down, routers[link[0]], over, target, 1, 0)
            names = [network.switches[i].id for i in (one, two) if i >= 0] + [known.exit]
            steps = [link[0], *names]
            length = sum(len(known.routing(a, b)) for a, b in pairwise(steps))
            assert Detours(known).escapes(came, link)[0].hops == length
            came = link


def test_packets_turn_back_only_where_nothing_else_leads_on() -> None:
    ring, _, _ = _built("ring:5", "s0", "s2")
    first, second = ring.inner[0]
    assert [e.u_turn for e in Detours(ring).escapes(first, second)] == [True]
    torus, _, _ = _built("torus:4x4", "s0_0", "s2_1")
    first, second, _ = torus.inner[0]
    assert [e.u_turn for e in Detours(torus).escapes(first, second)] == [False, False, True]


def test_a_packet_whose_hops_are_spent_is_dropped() -> None:
    known, wiring, rules = _built("torus:4x4", "s0_0", "s2_1")
    assert _walk(known, _walker(wiring, rules), 0, ttl=3).host is None
    assert _walk(known, _walker(wiring, rules), 0, ttl=4).host is not None


def test_two_directions_share_switches_but_no_group_number() -> None:
    network = load_network("torus:4x4")
    wiring = wire(network, ["s0_0", "s2_1"])
    there, back = escape_rules_together(wiring, labelled_path_pair(network, "s0_0", "s2_1"))
    assert (there.known.source, back.known.source) == ("s0_0", "s2_1")
    names = [(g.dpid, g.number) for g in (*there.groups, *back.groups)]
    assert len(set(names)) == len(names)


def test_a_group_sends_packets_back_the_way_they_came() -> None:
    _, _, rules = _built("torus:4x4", "s0_0", "s2_1")
    assert any(b.out_port == BACK for g in rules.groups for b in g.buckets)


def test_a_group_without_a_bucket_is_refused() -> None:
    with pytest.raises(InputError, match="0 buckets"):
        FailoverGroup(dpid=1, number=1, buckets=())
    assert (
        FailoverGroup(dpid=1, number=1, buckets=(Bucket(watch_port=1, out_port=1),))
        .buckets[0]
        .set_fields
        == ()
    )


def test_the_paths_hold_one_that_shares_no_cable_with_the_minimal_one() -> None:
    for name, source, sink in PAIRS[:2]:
        known = labelled_paths(load_network(name), source, sink, max_paths=4)
        assert len(known.paths) <= 4
        assert not known.cables[0] & known.cables[known.most_disjoint()]
        assert path_label(len(known.paths) - 1) < ESCAPED


def test_ends_on_one_switch_are_refused() -> None:
    with pytest.raises(InputError, match="at least one link between switches"):
        labelled_paths(load_network("swiss-t1"), "t0", "t1")
