"""What FT-DRB's sources and routers decide: escapes, metapaths, permanent and transient links, probes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.cable_faults import random_faults
from testbed.interconnect.ft_drb.escape_steps import escape_path, measure_path
from testbed.interconnect.ft_drb.ft_drb import FtDrbOptions, build_paths, build_state, count_events
from testbed.interconnect.ft_drb.ft_drb_arrays import NONE, FtDrbSettings, FtDrbState, Paths
from testbed.interconnect.ft_drb.ft_drb_steps import hear_failure, hear_latency, select_path
from topologies import load_network
from topologies.routing_tables import static_routing

BASE, HOP = 2000, 400


@cache
def paths_of(name: str) -> Paths:
    return build_paths(load_network(name))


def sources(routing: Paths, **changed: Any) -> tuple[FtDrbState, FtDrbSettings]:
    options = FtDrbOptions(**changed)
    return build_state(routing, options), options.settings(ticks_per_s=1e9, base_ticks=BASE, hop_ticks=HOP, seed=1)


def cables_along(paths: Paths, source: int, destination: int, middles: Sequence[int] = ()) -> list[int]:
    """Cables of the multistep path, walked here without the product's own walk."""
    at, found = int(paths.host_router[source]), []
    for goal in [m for m in middles if m != NONE] + [paths.routers + destination]:
        while (link := int(paths.next_link[at, goal])) != NONE:
            found.append(int(paths.cable[link]))
            at = int(paths.link_target[link])
    assert at == paths.host_router[destination]
    return found


@pytest.mark.parametrize("name", ["ring:7", "torus:4x6", "mesh:3x4", "fat-tree:2,3"])
def test_tables_follow_the_static_routing_of_the_network(name: str) -> None:
    network = load_network(name)
    paths, routing = paths_of(name), static_routing(network)
    for h, host in enumerate(network.hosts):
        for s, other in enumerate(network.hosts):
            inner = [i for i in routing(other.id, host.id) if i[0] != other.id and i[1] != host.id]
            wanted = [int(paths.cable[network.link_index[i]]) for i in inner]
            assert cables_along(paths, s, h) == wanted


def test_without_failures_every_message_takes_the_minimal_path() -> None:
    paths = paths_of("torus:4x4")
    state, limits = sources(paths)
    chosen = {select_path(paths, state, limits, 0, d, k, k) for k in range(50) for d in range(1, 16)}
    assert chosen == {(NONE, NONE)}
    assert count_events(state)["metapaths_configured"] == 0


def test_five_notifications_in_a_row_mark_a_link_and_a_latency_in_between_starts_over() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths)
    cable = cables_along(paths, 0, 3)[1]
    for _ in range(4):
        hear_failure(state, limits, 0, cable, 0)
    hear_latency(paths, state, limits, 0, 3, NONE, NONE, 4000)
    for _ in range(4):
        hear_failure(state, limits, 0, cable, 0)
    assert select_path(paths, state, limits, 0, 3, 1, 0) == (NONE, NONE)
    hear_failure(state, limits, 0, cable, 0)
    assert select_path(paths, state, limits, 0, 3, 1, 0) != (NONE, NONE)
    assert count_events(state)["marked_permanent"] == 1


def test_alternative_paths_keep_off_every_listed_link() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths, first_paths=4)
    dead = cables_along(paths, 0, 19)
    for cable in dead[:2]:
        for _ in range(5):
            hear_failure(state, limits, 0, cable, 0)
    taken = {select_path(paths, state, limits, 0, 19, k, 0) for k in range(1, 99)}
    assert len(taken) == 4
    for first, second in taken:
        assert not set(cables_along(paths, 0, 19, (first, second))) & set(dead[:2])


def test_one_message_in_a_hundred_probes_the_marked_path_and_its_answer_restores_it() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths)
    cable = cables_along(paths, 0, 3)[0]
    for _ in range(5):
        hear_failure(state, limits, 0, cable, 0)
    sent = [select_path(paths, state, limits, 0, 3, k, 0) for k in range(1, 301)]
    assert [k + 1 for k, middles in enumerate(sent) if middles == (NONE, NONE)] == [100, 200, 300]
    hear_latency(paths, state, limits, 0, 3, NONE, NONE, 4000)
    assert {select_path(paths, state, limits, 0, 3, k, 0) for k in range(20)} == {(NONE, NONE)}


@pytest.mark.parametrize(("probing", "probes"), [("clock", 3), ("hybrid", 6)])
def test_probes_may_follow_the_clock_or_whichever_comes_first(probing: str, probes: int) -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths, probing=probing, probe_s=1e-6, probe_every=50)
    for _ in range(5):
        hear_failure(state, limits, 0, cables_along(paths, 0, 3)[0], 0)
    for k in range(300):
        select_path(paths, state, limits, 0, 3, k, k * 11)
    assert count_events(state)["probes"] == probes


def test_marking_by_clock_waits_for_the_time_and_not_for_the_count() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths, marking="clock", marking_s=1e-6)
    hear_failure(state, limits, 0, cables_along(paths, 0, 3)[0], 100)
    for _ in range(9):
        hear_failure(state, limits, 0, cables_along(paths, 0, 3)[0], 200)
    assert select_path(paths, state, limits, 0, 3, 1, 1099) == (NONE, NONE)
    assert select_path(paths, state, limits, 0, 3, 1, 1100) != (NONE, NONE)


def test_a_metapath_grows_above_the_threshold_and_shrinks_below_it() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths)
    for _ in range(5):
        hear_failure(state, limits, 0, cables_along(paths, 0, 3)[0], 0)
    first, second = select_path(paths, state, limits, 0, 3, 1, 0)
    minimal = BASE + 3 * HOP
    hear_latency(paths, state, limits, 0, 3, first, second, 3 * minimal)
    assert count_events(state)["metapaths_grown"] == 1
    used = {select_path(paths, state, limits, 0, 3, k, 0) for k in range(80)}
    assert len(used) == 2
    hear_latency(paths, state, limits, 0, 3, first, second, minimal)
    assert count_events(state)["metapaths_shrunk"] == 1


def test_messages_are_shared_in_proportion_to_bandwidth() -> None:
    paths = paths_of("torus:8x8")
    state, limits = sources(paths, first_paths=2, paths=2, tolerance=0.99, probe_every=10**9)
    for _ in range(5):
        hear_failure(state, limits, 0, cables_along(paths, 0, 3)[0], 0)
    first, second = select_path(paths, state, limits, 0, 3, 1, 0)
    pair = 3
    state.latency[pair] = [3000, 1000]
    picked = [select_path(paths, state, limits, 0, 3, k, 0) for k in range(4000)]
    slow = (int(state.first_middle[pair, 0]), int(state.second_middle[pair, 0]))
    assert picked.count(slow) / 4000 == pytest.approx(0.25, abs=0.03)
    assert (first, second) in picked


def test_a_tree_goes_over_another_nearest_common_ancestor() -> None:
    paths = paths_of("fat-tree:4,3")
    state, limits = sources(paths)
    dead = cables_along(paths, 0, 63)[1]
    for _ in range(5):
        hear_failure(state, limits, 0, dead, 0)
    first, second = select_path(paths, state, limits, 0, 63, 1, 0)
    assert second == NONE and first >= 2 * paths.width
    detour = cables_along(paths, 0, 63, (first,))
    assert dead not in detour and len(detour) == len(cables_along(paths, 0, 63))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["torus:4x4", "torus:8x8", "fat-tree:4,3", "mesh:4x4", "ring:8"]),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_escapes_lead_every_packet_home_while_the_switches_are_joined(
    name: str, seed: int, data: st.DataObject
) -> None:
    paths, network = paths_of(name), load_network(name)
    most = {"ring:8": 1, "mesh:4x4": 3, "torus:4x4": 6}.get(name, 12)
    faults = random_faults(network, data.draw(st.integers(1, most)), seed=seed)
    down = np.zeros(int(paths.cable.max()) + 1, dtype=np.uint8)
    names = [switch.id for switch in network.switches]
    for fault in faults:
        link = network.link_index[fault.link]
        down[paths.cable[link]] = 1
    assert names[int(paths.link_source[link])] == fault.ends[0]
    source, goal = data.draw(st.integers(0, len(network.hosts) - 1)), data.draw(st.integers(0, len(network.hosts) - 1))
    counters = np.zeros(12, dtype=np.int64)
    at, target, came = int(paths.host_router[source]), paths.routers + goal, NONE
    header, hops, escapes = [target], 0, 0
    while at != paths.host_router[goal]:
        while header[0] == at:
            header.pop(0)
        link = int(paths.next_link[at, header[0]])
        if down[paths.cable[link]]:
            first, second = escape_path(paths, counters, down, at, came, target, seed, escapes)
            header = [m for m in (first, second) if m != NONE] + [target]
            escapes += 1
            link = int(paths.next_link[at, header[0]])
            assert not down[paths.cable[link]]
        at, came = int(paths.link_target[link]), int(paths.cable[link])
        hops += 1
        assert hops <= 16 * paths.diameter, "livelock"


def test_an_escape_turns_back_only_where_nothing_else_leads_on() -> None:
    paths = paths_of("ring:8")
    down = np.zeros(8, dtype=np.uint8)
    ahead = int(paths.cable[paths.next_link[2, 3]])
    behind = int(paths.cable[paths.next_link[2, 1]])
    down[ahead] = 1
    first, _ = escape_path(paths, np.zeros(12, np.int64), down, 2, behind, paths.routers + 3, 7, 0)
    assert first == 1
    wide = paths_of("torus:8x8")
    down = np.zeros(128, dtype=np.uint8)
    down[wide.cable[wide.next_link[0, 8]]] = 1
    came = int(wide.cable[wide.next_link[0, 56]])
    first, _ = escape_path(wide, np.zeros(12, np.int64), down, 0, came, wide.routers + 16, 7, 0)
    assert first in (1, 7)


def test_a_path_that_turns_round_on_a_cable_is_none() -> None:
    paths = paths_of("ring:8")
    nothing = np.zeros(8, dtype=np.uint8)
    assert measure_path(paths, nothing, NONE, 0, NONE, NONE, NONE, paths.routers + 3)[0] == 3
    assert measure_path(paths, nothing, NONE, 0, NONE, 7, NONE, paths.routers + 2)[0] > 100


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"paths": 0}, "paths 0; give 1 to"),
        ({"paths": 2, "first_paths": 3}, "first_paths 3; give 1 to 2"),
        ({"notifications": 0}, "notifications 0"),
        ({"threshold": 0}, "above 0"),
        ({"tolerance": 1.5}, "below 1"),
        ({"marking": "never"}, "ack or clock or hybrid"),
        ({"notifier": "nobody"}, "router or destination"),
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FtDrbOptions(**wrong)
