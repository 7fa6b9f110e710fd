"""What FT-DRB's sources and routers decide: escapes, metapaths, permanent and transient links, probes.

Each test holds the compiled engine's functions of arrays and the reference engine's objects against the document; the
last ones hold them against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.cable_faults import random_faults
from testbed.interconnect import static_paths
from testbed.interconnect.engine_inputs import build_settings
from testbed.interconnect.ft_drb import source_steps
from testbed.interconnect.ft_drb.escape_steps import (
    escape_path,
    measure_path,
    measure_straight_path,
)
from testbed.interconnect.ft_drb.source_state import FtDrb, build_state, count_events
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.static_paths import NONE, Paths, build_paths, links_between, next_link
from tests.helpers.drawn import drawn
from tests.oracles.interconnect.ft_drb_paths import Escape, RoutingMap
from tests.oracles.interconnect.ft_drb_source import COUNTED, Source
from topologies import load_network
from topologies.routing_tables import static_routing

BASE, HOP = 2000, 400
US = 100_000
"""Ticks of a microsecond."""
Middles = tuple[int, int]
MINIMAL = (NONE, NONE)
NETWORKS = ["torus:4x4", "torus:8x8", "fat-tree:4,3", "mesh:4x4", "ring:8"]


@cache
def paths_of(name: str) -> Paths:
    return build_paths(load_network(name))


class Decider(Protocol):
    """A source, however it is written."""

    def select_path(self, destination: int, message: int, now: int) -> Middles: ...

    def record_failure(self, cable: int, now: int) -> None: ...

    def record_latency(self, destination: int, middles: Middles, latency: int) -> None: ...

    def clear_failure(self, cable: int) -> None: ...

    @property
    def counters(self) -> Mapping[str, int]: ...


class CompiledSource:
    """Source 0 of the functions of arrays."""

    def __init__(self, paths: Paths, limits: Any) -> None:
        self.drb = FtDrb(paths, build_state(paths, limits), limits)

    def select_path(self, destination: int, message: int, now: int) -> Middles:
        return source_steps.select_path(self.drb, 0, destination, message, now)

    def record_failure(self, cable: int, now: int) -> None:
        source_steps.record_failure(self.drb, 0, cable, now)

    def record_latency(self, destination: int, middles: Middles, latency: int) -> None:
        source_steps.record_latency(self.drb, 0, destination, *middles, latency)

    def clear_failure(self, cable: int) -> None:
        source_steps.clear_failure(self.drb.state, 0, cable)

    @property
    def counters(self) -> Mapping[str, int]:
        return count_events(self.drb.state)


@cache
def routing_map(paths_name: str) -> RoutingMap:
    return RoutingMap(paths_of(paths_name))


def source_of(engine: str, name: str, **changed: Any) -> Decider:
    """Source 0 of a network, with FT-DRB's options changed."""
    parameters = SimulationParameters(routing="ft-drb", ft_drb=FtDrbOptions(**changed))
    limits = build_settings(parameters)._replace(base_ticks=BASE, hop_ticks=HOP)
    if engine == "compiled":
        return CompiledSource(paths_of(name), limits)
    return Source(0, routing_map(name), limits, Counter(dict.fromkeys(COUNTED, 0)))


def escape_of(
    engine: str,
    name: str,
    down: Any,
    router: int,
    *,
    came: int,
    target: int,
    message: int,
    earlier: int,
) -> Middles:
    """The intermediates of a packet's escape from a router; ``down``: 1 for every cable that has failed."""
    paths = paths_of(name)
    if engine == "compiled":
        return escape_path(
            paths, np.zeros(12, np.int64), down, router, came, target, message, earlier
        )
    network = routing_map(name)
    dead = frozenset(c for c in network.cables(network.out_links[router]) if down[c])
    escape = Escape(
        router=router, dead=dead, came_over=came, target=target, message=message, earlier=earlier
    )
    return escape.choose(network) or (escape.live_neighbour(network), NONE)


@pytest.fixture(params=["compiled", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cables_along(
    paths: Paths, source: int, destination: int, middles: Sequence[int] = ()
) -> list[int]:
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


def test_without_failures_every_message_takes_the_minimal_path(engine: str) -> None:
    paths_of("torus:4x4")
    source = source_of(engine, "torus:4x4")
    chosen = {source.select_path(d, k, k) for k in range(50) for d in range(1, 16)}
    assert chosen == {MINIMAL}
    assert source.counters["metapaths_configured"] == 0


def test_five_notifications_in_a_row_mark_a_link_and_a_latency_resets_them(
    engine: str,
) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8")
    cable = cables_along(paths, 0, 3)[1]
    for _ in range(4):
        source.record_failure(cable, 0)
    source.record_latency(3, MINIMAL, 4000)
    for _ in range(4):
        source.record_failure(cable, 0)
    assert source.select_path(3, 1, 0) == MINIMAL
    source.record_failure(cable, 0)
    assert source.select_path(3, 1, 0) != MINIMAL
    assert source.counters["marked_permanent"] == 1


def test_alternative_paths_keep_off_every_listed_link(engine: str) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8", first_paths=4)
    dead = cables_along(paths, 0, 19)
    for cable in dead[:2]:
        for _ in range(5):
            source.record_failure(cable, 0)
    taken = {source.select_path(19, k, 0) for k in range(1, 99)}
    assert len(taken) == 4
    for first, second in taken:
        assert not set(cables_along(paths, 0, 19, (first, second))) & set(dead[:2])


def test_one_message_in_a_hundred_probes_a_marked_path_and_can_restore_it(
    engine: str,
) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8")
    cable = cables_along(paths, 0, 3)[0]
    for _ in range(5):
        source.record_failure(cable, 0)
    sent = [source.select_path(3, k, 0) for k in range(1, 301)]
    assert [k + 1 for k, middles in enumerate(sent) if middles == MINIMAL] == [100, 200, 300]
    source.record_latency(3, MINIMAL, 4000)
    assert {source.select_path(3, k, 0) for k in range(20)} == {MINIMAL}


@pytest.mark.parametrize(("probing", "probes"), [("clock", 3), ("hybrid", 6)])
def test_probes_may_follow_the_clock_or_whichever_comes_first(
    engine: str, probing: str, probes: int
) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8", probing=probing, probe_s=1e-6, probe_every=50)
    for _ in range(5):
        source.record_failure(cables_along(paths, 0, 3)[0], 0)
    for k in range(300):
        source.select_path(3, k, k * 11 * US // 1000)
    assert source.counters["probes"] == probes


def test_marking_by_clock_waits_for_the_time_and_not_for_the_count(engine: str) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8", marking="clock", marking_s=1e-6)
    source.record_failure(cables_along(paths, 0, 3)[0], US // 10)
    for _ in range(9):
        source.record_failure(cables_along(paths, 0, 3)[0], US // 5)
    assert source.select_path(3, 1, 11 * US // 10 - 1) == MINIMAL
    assert source.select_path(3, 1, 11 * US // 10) != MINIMAL


def test_a_metapath_grows_above_the_threshold_and_shrinks_below_it(engine: str) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(engine, "torus:8x8", threshold=2.0, hysteresis=False, averaging=1)
    for _ in range(5):
        source.record_failure(cables_along(paths, 0, 3)[0], 0)
    first, second = source.select_path(3, 1, 0)
    minimal = BASE + 3 * HOP
    source.record_latency(3, (first, second), 3 * minimal)
    assert source.counters["metapaths_grown"] == 1
    used = {source.select_path(3, k, 0) for k in range(80)}
    assert len(used) == 2
    source.record_latency(3, (first, second), minimal)
    assert source.counters["metapaths_shrunk"] == 1


def test_slow_pair_opens_and_closes_its_metapath(
    engine: str,
) -> None:
    """Algorithm 3.3 on every latency ACK: Thl 2 and Tol 0.25 times 3200 ticks are an interval from 4800 to 8000."""
    source = source_of(engine, "torus:8x8", threshold=2.0, averaging=2)
    fast, slow = BASE + 3 * HOP, 8004
    source.record_latency(3, MINIMAL, fast)
    source.record_latency(3, MINIMAL, 3 * fast)
    assert source.counters["metapaths_configured"] == 0, "the mean is within the interval"
    source.record_latency(3, MINIMAL, 4 * fast)
    assert (source.counters["metapaths_configured"], source.counters["metapaths_grown"]) == (1, 1)
    used = {source.select_path(3, k, 0) for k in range(80)}
    assert len(used) == 2 and MINIMAL in used
    assert source.counters["sent_balanced"] > 0 and source.counters["sent_alternative"] == 0
    other = next(middles for middles in used if middles != MINIMAL)
    for _ in range(20):
        source.record_latency(3, MINIMAL, slow)
        source.record_latency(3, other, fast)
    assert source.counters["metapaths_shrunk"] == 0, "the minimal path alone is slow"
    for _ in range(20):
        source.record_latency(3, MINIMAL, fast)
        source.record_latency(3, other, fast)
    assert source.counters["metapaths_shrunk"] == 1
    assert {source.select_path(3, k, 0) for k in range(80)} == {MINIMAL}


@pytest.mark.parametrize(("hysteresis", "most"), [(True, 3), (False, 1000)])
def test_hysteresis_keeps_a_metapath_from_coming_and_going(
    engine: str, hysteresis: bool, most: int
) -> None:
    """All paths take 2.6 times the zero-load latency for ever. The rival is the letter: two paths halve the metapath's
    latency."""
    source = source_of(engine, "torus:8x8", threshold=2.0, hysteresis=hysteresis)
    for k in range(1000):
        source.record_latency(3, source.select_path(3, k, 0), round(2.6 * (BASE + 3 * HOP)))
    changes = source.counters["metapaths_grown"] + source.counters["metapaths_shrunk"]
    assert 0 < changes <= most
    assert hysteresis or changes > 100


def test_messages_are_shared_in_proportion_to_bandwidth(engine: str) -> None:
    paths = paths_of("torus:8x8")
    source = source_of(
        engine, "torus:8x8", first_paths=2, paths=2, tolerance=0.99, probe_every=10**9
    )
    for _ in range(5):
        source.record_failure(cables_along(paths, 0, 3)[0], 0)
    slow, fast = sorted({source.select_path(3, k, 0) for k in range(40)})
    source.record_latency(3, slow, 3000)
    source.record_latency(3, fast, 1000)
    picked = [source.select_path(3, k, 0) for k in range(4000)]
    assert picked.count(slow) / 4000 == pytest.approx(0.25, abs=0.03)
    assert picked.count(slow) + picked.count(fast) == 4000


def test_a_tree_goes_over_another_nearest_common_ancestor(engine: str) -> None:
    paths = paths_of("fat-tree:4,3")
    source = source_of(engine, "fat-tree:4,3")
    dead = cables_along(paths, 0, 63)[1]
    for _ in range(5):
        source.record_failure(dead, 0)
    first, second = source.select_path(63, 1, 0)
    assert second == NONE and first >= 2 * paths.width
    detour = cables_along(paths, 0, 63, (first,))
    assert dead not in detour and len(detour) == len(cables_along(paths, 0, 63))


def failed_cables(name: str, seed: int, data: st.DataObject) -> Any:
    """Some cables down, few enough that the switches stay joined: 1 for each of them."""
    paths, network = paths_of(name), load_network(name)
    most = {"ring:8": 1, "mesh:4x4": 3, "torus:4x4": 6}.get(name, 12)
    faults = random_faults(network, data.draw(st.integers(1, most)), seed=seed)
    down = np.zeros(int(paths.cable.max()) + 1, dtype=np.uint8)
    names = [switch.id for switch in network.switches]
    for fault in faults:
        link = network.link_index[fault.link]
        down[paths.cable[link]] = 1
    assert names[int(paths.link_source[link])] == fault.ends[0]
    return down


@drawn(60)
@given(name=st.sampled_from(NETWORKS), seed=st.integers(0, 10**6), data=st.data())
def test_escapes_lead_every_packet_home_while_the_switches_are_joined(
    name: str, seed: int, data: st.DataObject
) -> None:
    paths, network = paths_of(name), load_network(name)
    down = failed_cables(name, seed, data)
    engine = data.draw(st.sampled_from(["compiled", "reference"]))
    source, goal = (
        data.draw(st.integers(0, len(network.hosts) - 1)),
        data.draw(st.integers(0, len(network.hosts) - 1)),
    )
    at, target, came = int(paths.host_router[source]), paths.routers + goal, NONE
    header, hops, escapes = [target], 0, 0
    while at != paths.host_router[goal]:
        while header[0] == at:
            header.pop(0)
        link = int(paths.next_link[at, header[0]])
        if down[paths.cable[link]]:
            first, second = escape_of(
                engine, name, down, at, came=came, target=target, message=seed, earlier=escapes
            )
            header = [m for m in (first, second) if m != NONE] + [target]
            escapes += 1
            link = int(paths.next_link[at, header[0]])
            assert not down[paths.cable[link]]
        at, came = int(paths.link_target[link]), int(paths.cable[link])
        hops += 1
        assert hops <= 16 * paths.diameter, "livelock"


def test_an_escape_turns_back_only_where_nothing_else_leads_on(engine: str) -> None:
    paths = paths_of("ring:8")
    down = np.zeros(8, dtype=np.uint8)
    ahead = int(paths.cable[paths.next_link[2, 3]])
    behind = int(paths.cable[paths.next_link[2, 1]])
    down[ahead] = 1
    first, _ = escape_of(
        engine, "ring:8", down, 2, came=behind, target=paths.routers + 3, message=7, earlier=0
    )
    assert first == 1
    wide = paths_of("torus:8x8")
    down = np.zeros(128, dtype=np.uint8)
    down[wide.cable[wide.next_link[0, 8]]] = 1
    came = int(wide.cable[wide.next_link[0, 56]])
    first, _ = escape_of(
        engine, "torus:8x8", down, 0, came=came, target=wide.routers + 16, message=7, earlier=0
    )
    assert first in (1, 7)


def test_a_path_that_turns_round_on_a_cable_is_none() -> None:
    paths = paths_of("ring:8")
    nothing = np.zeros(8, dtype=np.uint8)
    assert measure_path(paths, nothing, NONE, 0, NONE, NONE, NONE, paths.routers + 3)[0] == 3
    assert measure_path(paths, nothing, NONE, 0, NONE, 7, NONE, paths.routers + 2)[0] > 100
    network = routing_map("ring:8")
    assert network.is_usable(network.multistep(0, MINIMAL, network.target_of(3)), ())
    assert not network.is_usable(network.multistep(0, (7, NONE), network.target_of(2)), ())


@pytest.mark.parametrize("name", ["torus:12x12", "torus:2x80", "mesh:12x12"])
def test_paths_are_measured_alike_by_links_and_by_stretches(name: str) -> None:
    """As long, and the same signature for the same links only; by intermediates near the source or anywhere."""
    paths, chance, alike = (
        paths_of(name),
        np.random.default_rng(1),
        dict[tuple[int, int], tuple[int, int]](),
    )
    nothing = np.zeros(int(paths.cable.max()) + 1, dtype=np.uint8)
    near = [NONE, *paths.near[paths.near_first[7] : paths.near_first[8]].tolist()]
    for _ in range(400):
        middles = [
            int(chance.choice(near) if chance.random() < 0.8 else chance.integers(paths.routers))
            for _ in "12"
        ]
        target = paths.routers + int(chance.choice([8, 9, 90]))
        by_links = measure_path(paths, nothing, NONE, 7, NONE, *middles, target)
        by_stretches = measure_straight_path(paths, 7, *middles, target)
        assert (
            by_links[0] == by_stretches[0]
            and alike.setdefault(by_links, by_stretches) == by_stretches
        )
    assert len(set(alike.values())) == len(alike) > 50


@drawn(150)
@given(
    name=st.sampled_from(NETWORKS),
    seed=st.integers(0, 10**6),
    earlier=st.integers(0, 12),
    data=st.data(),
)
def test_both_engines_choose_the_same_escape(
    name: str, seed: int, earlier: int, data: st.DataObject
) -> None:
    paths, network = paths_of(name), routing_map(name)
    down = failed_cables(name, seed, data)
    for cable in network.cables(network.out_links[0])[: data.draw(st.integers(0, 4))]:
        down[cable] = 1
    near = [int(link) for link in paths.out_link if down[paths.cable[link]]]
    router = int(paths.link_source[data.draw(st.sampled_from(near))])
    came = data.draw(st.sampled_from([NONE, *network.cables(network.out_links[router])]))
    target = paths.routers + data.draw(st.integers(0, len(paths.host_router) - 1))
    chosen = {
        escape_of(
            engine, name, down, router, came=came, target=target, message=seed, earlier=earlier
        )
        for engine in ("compiled", "reference")
    }
    assert len(chosen) == 1


@drawn(100)
@given(
    name=st.sampled_from(NETWORKS),
    marking=st.sampled_from(["ack", "clock", "hybrid"]),
    probing=st.sampled_from(["request", "clock", "hybrid"]),
    always=st.booleans(),
    data=st.data(),
)
def test_both_engines_sources_decide_alike(
    name: str, marking: str, probing: str, always: bool, data: st.DataObject
) -> None:
    """A history drawn at random: messages, notifications, latency ACKs of paths that were chosen, links that work
    again."""
    options = {
        "notifications": 2,
        "marking": marking,
        "marking_s": 5e-6,
        "probing": probing,
        "probe_every": 5,
        "probe_s": 3e-6,
        "averaging": data.draw(st.sampled_from([1, 2, 8])),
        "hysteresis": data.draw(st.booleans()),
        "first_paths": data.draw(st.integers(1, 2)),
    }
    one, other = (
        source_of(engine, name, always=always, **options) for engine in ("compiled", "reference")
    )
    hosts = len(paths_of(name).host_router)
    pairs = [data.draw(st.integers(1, hosts - 1)) for _ in range(3)]
    cables = [cable for pair in pairs for cable in cables_along(paths_of(name), 0, pair)] or [0]
    taken: list[tuple[int, Middles]] = [(pairs[0], MINIMAL)]
    for step in range(data.draw(st.integers(5, 60))):
        now, what = (
            step * US,
            data.draw(st.sampled_from(["send", "send", "fail", "fail", "answer", "mend"])),
        )
        if what == "send":
            pair = data.draw(st.sampled_from(pairs))
            chosen = one.select_path(pair, step, now)
            assert chosen == other.select_path(pair, step, now)
            taken.append((pair, chosen))
            continue
        cable, (pair, middles) = (
            data.draw(st.sampled_from(cables)),
            data.draw(st.sampled_from(taken)),
        )
        latency = data.draw(st.integers(BASE, 6 * BASE))
        for source in (one, other):
            if what == "fail":
                source.record_failure(cable, now)
            elif what == "mend":
                source.clear_failure(cable)
            else:
                source.record_latency(pair, middles, latency)
    assert dict(one.counters) == dict(other.counters)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"paths": 0}, "paths 0: give a whole number, 1 to 64"),
        ({"paths": 2, "first_paths": 3}, "first_paths 3; give 1 to 2"),
        ({"notifications": 0}, "notifications 0"),
        ({"threshold": 0}, "threshold 0: give a number, more than 0"),
        ({"tolerance": 1.5}, "below 1"),
        ({"averaging": 0}, "averaging 0: give a whole number, 1 to 1000"),
        ({"marking": "never"}, "choose from ack, clock, hybrid"),
        ({"notifier": "nobody"}, "choose from router, destination"),
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FtDrbOptions(**wrong)


@pytest.mark.parametrize(
    "name", ["torus:4x4", "torus:3x4x5", "mesh:2x5", "torus:2x2x3", "ring:9", "fat-tree:2,3"]
)
def test_routes_by_coordinates_are_those_of_the_tables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_paths, "LARGE", 0)
    paths = build_paths(load_network(name))
    assert (paths.routes.dimensions > 0) == (not name.startswith("fat"))
    for router, target in np.ndindex(paths.next_link.shape):
        assert next_link(paths.routes, 0, router, target) == paths.next_link[router, target]
        assert links_between(paths.routes, router, target) == paths.length[router, target]
