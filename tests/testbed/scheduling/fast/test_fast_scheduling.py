"""The fast method finds liquid schedules wherever they are known to exist, and never claims that there is none without
a proof."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_frames, check_schedule
from testbed.scheduling.fast.class_ejection import (
    ClassNeeds,
    class_table,
    eject_classes,
    place_class,
)
from testbed.scheduling.fast.portfolio import cp_sat_schedule, liquid_schedule
from testbed.scheduling.fast.steps import LinkSets, next_random, seeded_state
from testbed.scheduling.fast.symmetry import MAX_WASTE, subgroups
from testbed.scheduling.fast.twin_links import search_twins, twin_pools
from testbed.scheduling.fast.unit_ejection import eject, place, place_greedily, remove, unit_table
from testbed.scheduling.methods import SCHEDULING_METHODS, schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all, clos_traffic, processors, traffic_of
from tests.helpers.swiss_t1_sweep import sweep
from topologies.catalog import load_network
from topologies.network import label_of
from topologies.routing_tables import static_routing
from topologies.swiss_t1 import routing_table

NONE_LIQUID = [["t1", "ab", "bc", "r1"], ["t2", "bc", "ca", "r2"], ["t3", "ca", "ab", "r3"]]


def via() -> np.ndarray:
    table = routing_table()
    names = [f"s{i}" for i in range(1, 9)]
    rows = [[int(table.get(a, {}).get(b, "s0")[1:]) - 1 for b in names] for a in names]
    return np.array(rows, dtype=np.int64)


def assert_liquid(traffic: Traffic, schedule: Schedule) -> None:
    """Counted anew from names: each transfer once, no link twice in a frame, as many frames as the busiest link has
    transfers."""
    frames = [[traffic.transfer(t) for t in frame] for frame in schedule.frames]
    assert sorted(t for frame in schedule.frames for t in frame) == list(range(len(traffic)))
    assert all(
        max(Counter(link for transfer in frame for link in transfer).values()) == 1
        for frame in frames
    )
    busiest = max(
        Counter(link for frame in frames for transfer in frame for link in transfer).values()
    )
    assert len(frames) == schedule.length == busiest
    assert schedule.liquid and schedule.optimal and schedule.proved == "liquid"


def test_the_whole_swiss_t1_is_the_machine_of_the_papers() -> None:
    traffic = all_to_all(load_network("swiss-t1"))
    assert (len(traffic), traffic.bottleneck_load) == (1024, 48)
    assert traffic.liquid_throughput == pytest.approx(1024 / 48)
    assert len(traffic.congestion_graph()) == 48_704
    assert set(traffic.skeleton) == {
        i for i in range(1024) if any(link in traffic.bottlenecks for link in traffic.paths()[i])
    }
    assert_liquid(traffic, liquid_schedule(traffic))


def test_allocations_of_swiss_t1_drawn_at_random_have_liquid_schedules() -> None:
    for nodes in np.random.default_rng(7).integers(0, 5, size=(60, 8)):
        traffic = all_to_all(load_network("swiss-t1:allocation=" + "-".join(map(str, nodes))))
        assert_liquid(traffic, liquid_schedule(traffic))


@pytest.mark.soak
def test_allocations_of_swiss_t1_all_have_liquid_schedules() -> None:
    rng = np.random.default_rng(7)
    for first in rng.integers(1, 5**8 - 40, size=6):
        found = sweep(int(first), int(first) + 40, via())
        assert (found.outcome == 1).all(), found.allocations[found.outcome != 1]
    ones = sweep(
        sum(5**i for i in range(7)), sum(5**i for i in range(7)) + 2, via()
    )  # single nodes: classes of one
    assert (ones.outcome == 1).all()
    last = sweep(5**8 - 1, 5**8, via())
    assert last.duration.tolist() == [48]


@pytest.mark.parametrize(
    "name",
    ["clos:2", "clos:4", "clos:6", "clos:10", "fat-tree:4,2", "fat-tree:3,3", "optical-cloud"],
)
def test_regular_networks_are_scheduled_liquidly(name: str) -> None:
    traffic = all_to_all(load_network(name))
    assert_liquid(traffic, liquid_schedule(traffic, time_limit_s=20))


def test_a_torus_is_scheduled_by_its_symmetry() -> None:
    traffic = all_to_all(load_network("torus:5x5"))
    assert len(traffic.symmetries) == 25
    schedule = liquid_schedule(traffic, time_limit_s=5)
    assert_liquid(traffic, schedule)
    assert schedule.detail == "orbits of 25"


def test_symmetry_is_tried_by_every_subgroup_that_wastes_little() -> None:
    """Translations by multiples of a divisor of each side, the side itself included: it then stays where it is."""
    traffic = all_to_all(load_network("torus:4x3"))
    bound, orders = traffic.bottleneck_load, []
    for across, down in itertools.product((1, 2, 4), (1, 3)):
        order = (4 // across) * (3 // down)
        if order > 1 and -(-bound // order) * order <= bound * (1 + MAX_WASTE):
            orders.append(order)
    groups = list(subgroups(traffic))
    assert sorted(map(len, groups)) == sorted(orders) and len(orders) >= 4
    assert len({tuple(map(bytes, group)) for group in groups}) == len(groups)
    lengths = [-(-bound // len(group)) * len(group) for group in groups]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("k", [2, 4, 6])
def test_arithmetic_gives_the_paths_of_d_mod_k(k: int) -> None:
    network = load_network(f"clos:{k}")
    pairs = list(itertools.product(*processors(network)))
    fast, slow = clos_traffic(network, pairs), traffic_of(network, pairs)
    assert len(fast) == len(slow) == len(network.hosts) ** 2
    route = static_routing(network)
    for i, (source, sink) in enumerate(pairs):
        assert fast.transfer(i) == slow.transfer(i)
        if source != sink:
            assert fast.transfer(i) == tuple(map(label_of, route(source, sink)))


def test_smallest_traffic_without_a_liquid_schedule_is_proved() -> None:
    traffic = Traffic.from_transfers(NONE_LIQUID)
    for schedule in (liquid_schedule(traffic), cp_sat_schedule(traffic)):
        assert (schedule.length, schedule.bottleneck_load) == (3, 2)
        assert schedule.proved == "no-liquid-schedule" and schedule.optimal and not schedule.liquid


def test_without_time_for_a_proof_nothing_is_proved() -> None:
    chance = np.random.default_rng(3)
    transfers = [chance.choice(14, size=3, replace=False).tolist() for _ in range(300)]
    traffic = Traffic.from_transfers(transfers)
    schedule = liquid_schedule(traffic, time_limit_s=0.05)
    check_schedule(traffic, schedule)
    assert schedule.length >= traffic.bottleneck_load
    if schedule.length > traffic.bottleneck_load:
        assert schedule.proved == "unknown" and schedule.optimal is None


@pytest.mark.parametrize("method", SCHEDULING_METHODS)
def test_every_method_gives_a_checked_schedule(method: str) -> None:
    traffic = all_to_all(load_network("swiss-t1:allocation=2-1-1-0-0-0-1-0"))
    schedule = schedule_by_name(traffic, method, time_limit_s=10)
    assert schedule.length >= traffic.bottleneck_load
    check_frames(traffic, schedule.frames)
    if method in ("liquid", "exact", "milp", "cp-sat"):
        assert_liquid(traffic, schedule)


def test_the_same_seed_gives_the_same_schedule() -> None:
    traffic = all_to_all(load_network("swiss-t1:allocation=3-1-2-0-4-0-1-0"))
    first, second = (liquid_schedule(traffic, seed=5) for _ in range(2))
    assert first.frames == second.frames


def test_the_checker_names_what_is_wrong() -> None:
    traffic = Traffic.from_transfers([["a", "x"], ["b", "x"], ["b", "y"]])
    check_frames(traffic, [[0, 2], [1]])
    for frames, words in (
        ([[0, 1], [2]], "transfers 0 and 1 both use link x in frame 0"),
        ([[0], [2]], r"transfer 1 is in no frame"),
        ([[0, 2], [1], [2]], "transfer 2 is in frames 0 and 2"),
        ([[0, 2], [1], []], "frame 2 is empty"),
        ([[0, 2], [3]], "3 is not a transfer"),
    ):
        with pytest.raises(InputError, match=words):
            check_frames(traffic, frames)
    wrong = Schedule.of(np.array([0, 0, 1], dtype=np.int32), 2, method="x")
    with pytest.raises(InputError, match="both use link x"):
        check_schedule(traffic, wrong)


@pytest.mark.parametrize(
    ("transfers", "words"),
    [
        ([], "without a transfer"),
        ([["a"], []], "transfer 1 uses no link"),
        ([["a", "a"]], "names a link twice"),
        ([[1], ["1"]], "written alike, '1'"),
    ],
)
def test_traffic_that_is_none_is_refused(transfers: list[list[Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Traffic.from_transfers(transfers)


def test_a_link_that_the_network_does_not_have_is_named() -> None:
    with pytest.raises(InputError, match="'c', which the network does not have"):
        Traffic.from_transfers([["a", "b"], ["c"]], link_names=["a", "b"])


def test_loads_and_skeleton_follow_from_the_transfers() -> None:
    traffic = Traffic.from_transfers([["a", "x"], ["b", "x"], ["b", "y"], ["c", "y"], ["d"]])
    loads = dict(zip(traffic.links, traffic.loads.tolist(), strict=True))
    assert loads == {"a": 1, "x": 2, "b": 2, "y": 2, "c": 1, "d": 1}
    assert traffic.skeleton == (0, 1, 2, 3)
    assert traffic.congestion_graph() == [(0, 1), (1, 2), (2, 3)]
    assert all(a < b for a, b in itertools.pairwise(traffic.offsets))


@pytest.mark.parametrize("allocation", ["2-3-2-2-3-3-2-3", "1-3-2-2-3-2-3-3", "4-4-4-4-4-4-4-4"])
def test_a_traffic_of_bare_links_in_any_order_is_scheduled_by_classes(allocation: str) -> None:
    known = all_to_all(load_network(f"swiss-t1:allocation={allocation}"))
    chance = np.random.default_rng(3)
    paths = [chance.permutation(path).tolist() for path in known.paths()]
    bare = Traffic.from_transfers(paths[i] for i in chance.permutation(len(paths)))
    schedule = liquid_schedule(bare, time_limit_s=10)
    assert_liquid(bare, schedule)
    assert schedule.detail == "classes"


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_twins_of_three_pools_give_every_combination_once() -> None:
    links = [[f"a{i}", f"b{j}", f"c{k}"] for i in range(2) for j in range(3) for k in range(2)]
    traffic = Traffic.from_transfers(links)
    sets = LinkSets(traffic.offsets, traffic.indices, len(traffic.links))
    pools = twin_pools(sets)
    assert sorted(pools.size.tolist()) == [2, 2, 3] and len(set(pools.of.tolist())) == 3
    frame_of = np.zeros(len(links), dtype=np.int32)
    assert search_twins(sets, 6, 500, 1, frame_of) == 1
    check_schedule(traffic, Schedule.of(frame_of, 6, method="twins"))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_transfer_of_many_links_may_eject_all_that_use_them() -> None:
    long = list(range(200))
    sets = LinkSets(np.array([*range(201), 400]), np.array(long * 2), 200)
    table = unit_table(sets, np.arange(200).reshape(1, -1), 2, seeded_state(1))
    assert place_greedily(table, np.arange(200)) == 0
    for link in long[::2]:
        remove(table, link)
        place(table, link, 1)
    table.waiting[0] = 200
    left = eject(table, 1, 1)
    assert left == 100 and table.position[200] in (0, 1)
    assert eject(table, left, 500) == 0
    held = [
        (int(table.position[unit]), link)
        for unit in range(201)
        for link in (long if unit == 200 else [unit])
    ]
    assert len(set(held)) == 400 and all(at in (0, 1) for at, _ in held)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_classes_are_ejected_until_all_have_frames() -> None:
    own, resources = np.array([0, 2, 4, 6, 8]), np.array([0, 2, 1, 3, 0, 3, 1, 2])
    demand, cap = np.array([2, 2, 2, 2]), np.array([2, 2, 2, 2])
    table = class_table(ClassNeeds(own, resources, demand, cap), 2)
    for c, frame in ((0, 0), (1, 0), (2, 1), (3, 1), (0, 1), (1, 1)):
        place_class(table, c, frame)
    table.waiting[:2] = [2, 3]
    assert eject_classes(table, 2, 200, np.array([9], np.uint64)) == 0
    assert table.units.sum(axis=1).tolist() == demand.tolist()
    assert (table.filled <= cap[:, None]).all() and table.filled.sum() == 16


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("seed", [1, 2, 977])
def test_random_numbers_are_those_of_xorshift64star(seed: int) -> None:
    """Computed anew in Python's own integers, which have no end."""
    state, x = seeded_state(seed), int(seeded_state(seed)[0])
    for _ in range(100):
        x ^= x >> 12
        x ^= x << 25 & (1 << 64) - 1
        x ^= x >> 27
        assert int(next_random(state)) == (x * 2685821657736338717 & (1 << 64) - 1) >> 33
        assert int(state[0]) == x
