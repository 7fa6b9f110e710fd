"""While one version of a split passes to the next, each packet goes by one of the two from end to end, whatever the
order."""

from __future__ import annotations

import functools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.model.label_split import LABELS, LabelSplit
from testbed.model.wiring import wire
from testbed.openflow.flow_table import RuleWalker
from testbed.openflow.rules import VERSIONS, FlowRule, versioned_rules
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.mobility import build_mobility, frame_network, switches_only
from testbed.stream.options import MobilityOptions
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.manet import Walk, manet_frames

PORT = 47000


@functools.cache
def moving_splits(seed: int) -> tuple[LabelSplit, ...]:
    frames = list(manet_frames(Walk(nodes=14, degree=5.0, step=0.08, seed=seed), count=2))
    plan = build_mobility(MobilityOptions(frames, "n0", "n13", layers=0))
    assert frame_network(plan, 0).links
    return plan.splits


SEEDS = (2, 3, 9)


@drawn(40)
@given(st.sampled_from(SEEDS), st.integers(0, 200), st.integers(0, 10**9))
def test_packet_follows_the_old_split_or_the_new_one(network: int, number: int, seed: int) -> None:
    """Inner rules first, then the entry switch's in any order: at every moment every label arrives, by one whole
    path."""
    splits, chance = moving_splits(network), random.Random(seed)
    wiring = wire(splits[0].network, ["n0", "n13"])
    old, new = (
        versioned_rules(wiring, split, number=number + k, udp_port=PORT)
        for k, split in enumerate(splits)
    )
    there: list[FlowRule] = [*old.inner, *old.entry, *new.inner]
    coming = list(new.entry)
    chance.shuffle(coming)
    for cut in sorted(
        {0, len(coming), chance.randint(0, len(coming)), chance.randint(0, len(coming))}
    ):
        walker = RuleWalker(wiring, [*there, *coming[:cut]])
        for _ in range(12):
            label = chance.randrange(LABELS)
            packet = walker.stream_packet("n0", "n13", PORT) | {"udp_src": label, "ip_dscp": 0}
            walk = walker.walk("n0", packet)
            ways = [
                tuple(split.network.links[i].id for i in split.path_of(label).links)
                for split in splits
            ]
            assert walk.host == wiring.host_at("n13").name
            assert walk.links in ways
            if cut in (0, len(coming)):
                assert walk.links == ways[cut > 0]
    walker = RuleWalker(wiring, [*new.inner, *new.entry])
    assert (
        walker.walk(
            "n0", walker.stream_packet("n0", "n13", PORT) | {"udp_src": 7, "ip_dscp": 0}
        ).host
        is not None
    )


def test_source_that_is_a_host_is_marked_at_its_switch() -> None:
    network = load_network("manet:nodes=12,seed=1")
    split = spray(route_by_name(network, "h0", "h11", "capillary"))
    wiring = wire(network, ["h0", "h11"])
    rules = versioned_rules(wiring, split, number=VERSIONS, udp_port=PORT)
    walker = RuleWalker(wiring, [*rules.inner, *rules.entry])
    for label in (0, 30000, 65535):
        packet = walker.stream_packet("h0", "h11", PORT) | {"udp_src": label, "ip_dscp": 0}
        walk = walker.walk("h0", packet)
        assert walk.host == wiring.host_at("h11").name and walk.packet["ip_dscp"] == 1


def test_frames_have_no_hosts_but_the_two_ends() -> None:
    network = switches_only(load_network("manet:nodes=12,seed=1"))
    assert not network.hosts and len(network.switches) == 12
    with pytest.raises(KeyError):
        wire(network, ["n0", "n11"]).host_at("h0")
