"""Adaptive routings, detours, bubble flow control and recovery: both engines alike, free of deadlock for their own
reason.

Where a part is taken out, what it is for must fail: the rival of each claim is run beside it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, random_faults
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import SimulationResult
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from tests.oracles.interconnect import simulate
from topologies import Network, load_network
from topologies.routing_relations import RoutingRelation
from topologies.routing_tables import find_relation, static_routing

RELATIONS = (
    "minimal-adaptive",
    "up-down",
    "odd-even",
    "dateline",
    "distance-classes",
    "valiant",
    "ugal",
)
PAIRS = [(relation, "none") for relation in RELATIONS] + [
    ("minimal-adaptive", "nac"), ("minimal-adaptive", "disha"), ("dor", "bubble"), ("up-down", "nac"),
]  # fmt: skip
NETWORKS = (
    "torus:4x4",
    "mesh:3x5",
    "ring:6",
    "fat-tree:2,3",
    "dragonfly:2,2,1",
    "hyperx:3x3,1",
    "torus:3x3x3",
)


def relation_of(network: Network, name: str) -> RoutingRelation:
    found = find_relation(network, name)
    assert found is not None
    return found


def offered(
    network: Network, pattern: str, fraction: float, messages: int, seed: int, **process: Any
) -> Injections:
    hosts = len(network.hosts)
    rate = SimulationParameters().packets_per_s(fraction)
    drawn = build_pattern(pattern, hosts, shape=network.attributes.get("shape"))
    return build_injections(
        drawn,
        InjectionProcess(rate_per_s=rate, **process),
        duration_s=messages / hosts / rate,
        seed=seed,
    )


def run(
    network: Network,
    injections: Injections,
    routing: str,
    deadlock: str,
    faults: Any = (),
    **more: Any,
) -> SimulationResult:
    engine = more.pop("engine", "reference")
    settings: dict[str, Any] = {"model": "thesis", "drain_s": 0.05, "watchdog_s": 0.002} | more
    parameters = SimulationParameters(**settings, routing=routing, deadlock=deadlock)
    return simulate(
        network, injections, parameters, faults, engine=engine, recording=Recording(grants=50_000)
    )


@pytest.mark.parametrize("seed", range(12))
def test_both_engines_give_the_same_history_with_what_is_adaptive(seed: int) -> None:
    chance = random.Random(seed)
    network = load_network(chance.choice(NETWORKS))
    routing, deadlock = PAIRS[seed % len(PAIRS)]
    injections = offered(network, "uniform", chance.choice([0.3, 0.9]), 700, seed)
    faults = (
        random_faults(network, chance.randint(0, 2), seed=seed)
        if routing in ("up-down", "minimal-adaptive")
        else ()
    )
    more = {
        "model": chance.choice(["thesis", "booksim"]),
        "buffer_bytes": chance.choice([4096, 8192]),
        "arbitration": chance.choice(["round-robin", "fifo"]),
        "timeout_s": 2e-5,
    }
    runs: list[SimulationResult | None] = []
    for engine in ("compiled", "reference"):
        try:
            runs.append(run(network, injections, routing, deadlock, faults, engine=engine, **more))
        except InputError:
            runs.append(None)
    compiled, reference = runs
    if compiled is None or reference is None:
        assert compiled is reference
        return
    for name in ("trace", "delivered", "hops", "carried"):
        assert np.array_equal(getattr(compiled, name), getattr(reference, name)), name
    assert (compiled.digest, compiled.recovered, compiled.stopped) == (
        reference.digest, reference.recovered, reference.stopped,
    )  # fmt: skip
    assert compiled.conserved and (deadlock == "none" or compiled.received == compiled.sent)


@pytest.mark.parametrize(
    "network",
    ["torus:4x4", "torus:5x6", "mesh:4x4", "fat-tree:2,3", "dragonfly:4,2,1", "hyperx:4x3,1"],
)
@pytest.mark.parametrize("name", RELATIONS)
def test_only_free_choice_among_shortest_paths_has_cycles_of_channels(
    network: str, name: str
) -> None:
    known = load_network(network)
    try:
        relation = relation_of(known, name)
    except ValueError:
        assert name in ("odd-even", "dateline") and "shape" not in known.attributes
        return
    assert relation.may_deadlock == (name == "minimal-adaptive")
    hosts = [host.id for host in known.hosts]
    shortest = static_routing(known, "shortest-path")
    for a, b in zip(hosts, reversed(hosts), strict=True):
        if a != b:
            assert len(relation.path(a, b)) >= len(shortest(a, b))
            assert name == "up-down" or len(relation.path(a, b)) == len(shortest(a, b))


def test_the_turns_that_odd_even_forbids_are_what_keeps_it_free_of_cycles() -> None:
    relation = relation_of(load_network("mesh:4x4"), "odd-even")
    free = RoutingRelation(
        method="free", network=relation.network, lanes=1, may_start=relation.may_start,
        may_follow=lambda one, a, other, b: one.source != other.target,
    )  # fmt: skip
    assert free.may_deadlock and not relation.may_deadlock
    torus = relation_of(load_network("torus:4x4"), "odd-even")
    one_lane = RoutingRelation(
        method="one lane", network=torus.network, lanes=1, may_start=lambda link, lane: True,
        may_follow=lambda one, a, other, b: any(torus.may_follow(one, 0, other, c) for c in (0, 1)),
    )  # fmt: skip
    assert one_lane.may_deadlock and not torus.may_deadlock


def test_ugal_takes_a_detour_only_if_queues_are_long() -> None:
    torus = load_network("torus:8x8")
    calm, heavy = offered(torus, "tornado", 0.02, 3000, 3), offered(torus, "tornado", 0.5, 6000, 3)
    hops = {
        (routing, load): run(torus, messages, routing, "none", engine="compiled").hops.mean()
        for load, messages in (("calm", calm), ("heavy", heavy))
        for routing in ("dateline", "valiant", "ugal")
    }
    assert hops["dateline", "calm"] == 1 + 3 + 3
    assert 1 + 2 * 4 - 0.4 < hops["valiant", "calm"] < 1 + 2 * 4 + 0.4
    assert hops["ugal", "calm"] < 7.3 and hops["ugal", "heavy"] > 7.5
    done = {
        r: run(torus, heavy, r, "none", engine="compiled") for r in ("dateline", "valiant", "ugal")
    }
    last = {r: int(found.delivered.max()) for r, found in done.items()}
    assert all(found.received == found.sent for found in done.values())
    assert last["valiant"] < last["dateline"] and last["ugal"] < last["dateline"]


@pytest.mark.parametrize(
    ("routing", "avoided"),
    [("dor", "bubble"), ("minimal-adaptive", "disha"), ("minimal-adaptive", "nac")],
)
def test_a_burst_deadlocks_without_and_is_delivered_with(routing: str, avoided: str) -> None:
    ring = load_network("ring:8")
    burst = offered(ring, "tornado", 0.05, 800, 1, kind="burst", burst_messages=20, in_phase=True)
    bare, treated = (
        run(ring, burst, routing, deadlock, timeout_s=2e-5) for deadlock in ("none", avoided)
    )
    assert bare.deadlocked and bare.received < bare.sent
    assert treated.received == treated.sent and not treated.deadlocked
    assert treated.recovered > 0 if avoided == "disha" else treated.recovered == 0


def test_remaining_tables_avoid_failed_cables_and_others_are_refused() -> None:
    torus = load_network("torus:8x8")
    faults = random_faults(torus, 12, seed=4)
    messages = offered(torus, "uniform", 0.1, 3000, 4)
    whole, broken = (
        run(torus, messages, "up-down", "none", some, engine="compiled") for some in ((), faults)
    )
    assert whole.received == broken.received == broken.sent
    dead = {(a, b) for fault in faults for a, b in (fault.ends, fault.ends[::-1])}
    carried = {
        (torus.links[i].source, torus.links[i].target) for i in np.nonzero(broken.carried)[0]
    }
    assert not dead & carried and dead & {
        (torus.links[i].source, torus.links[i].target) for i in np.nonzero(whole.carried)[0]
    }
    later = (cable_fault(("s0_0", "s0_1"), start_s=0.001),)
    with pytest.raises(InputError, match="from 0 to the end"):
        run(torus, messages, "up-down", "none", later)


def test_incompatible_parts_are_input_errors() -> None:
    torus, tree = load_network("torus:4x4"), load_network("fat-tree:2,3")
    messages = offered(torus, "uniform", 0.1, 10, 1)
    for network, routing, deadlock, more, says in (
        (torus, "odd-even", "nac", {}, "of its own"),
        (torus, "dateline", "virtual-channels", {}, "of its own"),
        (torus, "dor", "disha", {}, "minimal-adaptive"),
        (torus, "minimal-adaptive", "bubble", {}, "--routing dor"),
        (torus, "dor", "bubble", {"buffer_bytes": 2048}, "two packets"),
        (torus, "dateline", "none", {"virtual_channels": 3}, "2 virtual channels"),
        (tree, "odd-even", "none", {}, "not a torus, mesh or ring"),
    ):
        with pytest.raises(InputError, match=says):
            run(network, messages, routing, deadlock, **more)
    with pytest.raises(InputError, match="no way from"):
        run(load_network("mesh:2x2"), offered(load_network("mesh:2x2"), "uniform", 0.1, 10, 1), "odd-even", "none",
            (cable_fault(("s0_0", "s0_1")),))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "switches", "hosts", "cables", "diameter"),
    [("dragonfly:4,2,2", 36, 72, 9 * 6 + 36, 3), ("dragonfly:2,1,1", 6, 6, 3 + 3, 3),
     ("hyperx:4x4,2", 16, 32, 48, 2), ("hyperx:3x3x3", 27, 27, 81, 3)],
)  # fmt: skip
def test_dragonfly_and_hyperx_are_as_their_papers_have_them(
    name: str, switches: int, hosts: int, cables: int, diameter: int
) -> None:
    network = load_network(name)
    assert (len(network.switches), len(network.hosts)) == (switches, hosts)
    assert len(network.links) == 2 * (cables + hosts)
    assert relation_of(network, "distance-classes").lanes == diameter
    if name.startswith("dragonfly"):
        between: dict[frozenset[int], int] = {}
        groups = {s.id: s.attributes["group"] for s in network.switches}
        for link in network.links:
            if (
                link.source in groups
                and link.target in groups
                and groups[link.source] != groups[link.target]
            ):
                pair = frozenset((groups[link.source], groups[link.target]))
                between[pair] = between.get(pair, 0) + 1
        count = len(set(groups.values()))
        assert len(between) == count * (count - 1) // 2 and set(between.values()) == {2}
