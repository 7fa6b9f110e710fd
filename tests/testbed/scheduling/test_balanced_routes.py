"""Balanced routes and parts of messages: schedules as long as the flow bound, checked by the independent checker."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

import testbed
from testbed.cli import main
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.routing.demands.flow_bound import equal_links, flow_bound
from testbed.scheduling.checker import check_schedule, is_schedule
from testbed.scheduling.fast.phases import torus_phases
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import (
    all_switches,
    all_to_all,
    all_to_others,
    routes_of,
    traffic_of,
)
from topologies import load_network
from topologies.routing_tables import balanced_parts, static_routing

PATTERNS = {"all-to-all": all_to_all, "all-to-others": all_to_others, "all-switches": all_switches}
BOUNDS = [
    # network, pattern, bound of any routes, parts, length in whole messages
    ("hypercube:3", "all-switches", 4, 1, 4),
    ("hypercube:4", "all-switches", 8, 1, 8),
    ("hypercube:4", "all-to-all", 16, 1, 16),
    ("bipartite:4,4", "all-switches", 2.5, 1, 3),
    ("bipartite:4,4", "all-switches", 2.5, 2, 2.5),
    ("kautz:20,4", "all-switches", 8.714286, 1, 9),
    ("torus:3x3x3", "all-switches", 9, 1, 9),
    ("torus:4x4", "all-switches", 8, 1, 8),
    ("torus:4x4", "all-to-others", 15, 1, 15),
    ("torus:4x4x4", "all-switches", 32, 1, 32),
    ("torus:4x4x4", "all-to-all", 64, 1, 64),
    ("torus:6x6", "all-switches", 27, 2, 27),
    ("torus:8x8", "all-switches", 64, 1, 64),
    ("torus:8x8", "all-to-all", 64, 1, 64),
    ("torus:8x8", "all-to-others", 64, 2, 64),
    ("torus:8x4", "all-switches", 32, 1, 32),
    ("ring:8", "all-to-all", 8, 1, 8),
    ("ring:16", "all-to-others", 32, 1, 32),
    ("gpu-machines:2,8", "all-to-others", 15, 1, 15),
    ("swiss-t1", "all-to-all", 40, 1, 40),
]


def traffic_over(name: str, pattern: str, parts: int) -> Traffic:
    network = load_network(name)
    return PATTERNS[pattern](network, *routes_of(network, "balanced", parts))


@pytest.mark.parametrize(("name", "pattern", "bound", "parts", "length"), BOUNDS)
def test_balanced_routes_are_scheduled_at_the_bound(
    name: str, pattern: str, bound: float, parts: int, length: float
) -> None:
    traffic = traffic_over(name, pattern, parts)
    pairs = traffic.ends[: len(traffic) // parts]
    assert traffic.ends == [*pairs] * parts
    found = flow_bound(equal_links(load_network(name)), pairs, traffic.bottleneck_load / parts)
    assert found == pytest.approx(bound)
    schedule = schedule_by_name(traffic, "liquid", time_limit_s=60)
    check_schedule(traffic, schedule)
    assert schedule.length == length * parts == traffic.bottleneck_load


@pytest.mark.parametrize(
    ("name", "frames"), [("ring:32", 128), pytest.param("torus:16x16", 512, marks=pytest.mark.soak)]
)
def test_large_tori_take_phases_of_whole_messages(name: str, frames: int) -> None:
    traffic = traffic_over(name, "all-to-all", 1)
    schedule = torus_phases(traffic)
    assert schedule is not None and schedule.length == frames == traffic.bottleneck_load
    check_schedule(traffic, schedule)


@pytest.mark.long
def test_every_fifteenth_message_of_a_large_torus_takes_its_phase() -> None:
    """The phase of a message depends on its own ends alone: those of a fifteenth meet where those of all would."""
    network = load_network("torus:8x8x8")
    pairs = [*itertools.permutations([switch.id for switch in network.switches], 2)][::15]
    traffic = traffic_of(network, pairs, *routes_of(network, "balanced"))
    schedule = torus_phases(traffic)
    assert schedule is not None and schedule.length == 512
    check_schedule(traffic, schedule)


def test_the_dragonfly_is_loaded_no_more_than_its_hosts() -> None:
    network = load_network("dragonfly:4,2,2")
    static, balanced = (
        all_to_others(network),
        all_to_others(network, *routes_of(network, "balanced")),
    )
    assert (static.bottleneck_load, balanced.bottleneck_load) == (128, 71)


def test_phases_of_other_routes_are_no_schedule() -> None:
    traffic = all_to_all(load_network("torus:8x8"))
    phases = torus_phases(traffic)
    assert phases is not None and not is_schedule(traffic, phases)


def test_the_checker_finds_a_part_that_was_moved_or_forgotten() -> None:
    traffic = traffic_over("bipartite:2,2", "all-switches", 2)
    schedule = schedule_by_name(traffic, "liquid")
    for spoilt in ([0] * len(traffic), list(schedule.frame_of[:-1])):
        assert not is_schedule(traffic, Schedule.of_frames(
            [[i for i, at in enumerate(spoilt) if at == frame] for frame in sorted(set(spoilt))], 1, method="file"
        ))  # fmt: skip


@pytest.mark.parametrize(
    "name", ["dragonfly:2,1,1", "kautz:7,2", "bipartite:2,3", "swiss-t1", "torus:6x4", "mesh:3x3"]
)
def test_the_next_link_of_a_part_depends_on_node_and_destination_alone(name: str) -> None:
    network = load_network(name)
    senders = [n.id for n in network.hosts if n.attributes.get("role") != "receiver"]
    receivers = [n.id for n in network.hosts if n.attributes.get("role") != "sender"]
    for route in (static_routing(network, "balanced"), *balanced_parts(network, 3)):
        following: dict[tuple[str, str], object] = {}
        for source, sink in itertools.product(senders, receivers):
            path = route(source, sink)
            assert [a[1] for a in path[:-1]] == [b[0] for b in path[1:]]
            for link in path:
                assert following.setdefault((link[0], sink), link) == link


def test_a_bulk_plan_takes_balanced_routes() -> None:
    assert testbed.bulk_plan("bipartite:2,3", routing="balanced").bottleneck_load == 4
    assert (
        testbed.bulk_plan("torus:8x4", routing="balanced", scheduling="round-robin").bottleneck_load
        == 32
    )


def test_two_parts_go_both_ways_round_an_even_ring() -> None:
    network = load_network("torus:6x6")
    first, second = (route("s0_0", "s3_0") for route in balanced_parts(network, 2))
    assert {link[1] for link in first} & {link[1] for link in second} == {"s3_0"}


def test_pairs_of_a_file_are_routed_too() -> None:
    network = load_network("bipartite:2,3")
    traffic = traffic_of(network, [("s0", "s1")], *routes_of(network, None, 3))
    assert len(traffic) == 3 and traffic.parts == 3
    assert Counter(len(path) for path in traffic.paths()) == {2: 3}


def test_the_command_tells_the_bound_and_the_gap(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["schedule", "bipartite:4,4", "--pattern", "all-switches", "--parts", "2", "--json"])
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert (document["parts"], document["messages"], document["flow_bound"]) == (
        2,
        2.5,
        pytest.approx(2.5),
    )
    assert document["over_flow_bound"] == pytest.approx(1)
    assert main(["schedule", "ring:4", "--routing", "balanced"]) == 0
    assert "1 of the bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("network", "parts", "sizes", "fluid_s", "length"),
    [
        # 16 messages of 8 kbit each way over two cables of 1 Mbit/s
        ("gpu-machines:2,4,cables=2", 1, 1000, 0.064, 8),
        ("gpu-machines:2,4,cables=2", 2, 1000, 0.064, 16),
        # 9 messages each way over two cables, in halves 4.5 a cable
        ("gpu-machines:2,3,cables=2", 2, 1000, 0.036, 9),
        # whole, all messages to a GPU take one cable: two GPUs' messages are on the fuller one
        ("gpu-machines:2,3,cables=2", 1, 1000, 0.048, 6),
    ],
)
def test_messages_over_links_of_two_capacities_take_several_routes(
    network: str,
    parts: int,
    sizes: int,
    fluid_s: float,
    length: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "sizes.json"
    file.write_text(json.dumps({"sizes_bytes": sizes, "chunk_bytes": sizes // parts}))
    words = [
        "--pattern",
        "all-to-others",
        "--routing",
        "balanced",
        "--parts",
        str(parts),
        "--message-sizes",
        str(file),
    ]
    assert main(["schedule", network, *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["chunks"]["fluid_s"] == pytest.approx(fluid_s)
    assert (document["length"], document["bottleneck_load"]) == (length, length)
    assert document["chunks"]["liquid_s"] == pytest.approx(fluid_s)


def test_parts_of_unequal_messages_are_as_long_as_their_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sizes.json"
    file.write_text(json.dumps({"sizes_bytes": [300, 101], "chunk_bytes": 50}))
    words = ["--pattern", "s0:s1,s1:s0", "--parts", "2", "--message-sizes", str(file), "--json"]
    assert main(["schedule", "bipartite:2,2", *words]) == 0
    message = json.loads(capsys.readouterr().out)["chunks"]["message"]
    assert [message.count(i) for i in range(4)] == [3, 1, 3, 2]  # 150 and 50 bytes, 150 and 51


@pytest.mark.parametrize(
    "words",
    [["ring:4", "--parts", "0"], ["ring:4", "--parts", "x"], ["--traffic", "x", "--parts", "2"]],
)
def test_parts_that_are_none_are_refused(words: list[str]) -> None:
    assert main(["schedule", *words]) == 2
