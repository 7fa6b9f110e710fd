"""The studies of chapter 4: small versions pass, and every figure is drawn from rows alone; what is spoilt is in
test_rivals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.capillary import (
    bottleneck_hunting,
    capillary_drawing,
    ror_layers,
)
from experiments.capillary.mobile_pairs import outermost_pair
from fec.redundancy.ror import ror
from testbed.campaigns.rows import drawn_pair
from testbed.model.json_values import json_ready
from testbed.model.studies.study import Study
from testbed.routing.baselines import disjoint_paths
from testbed.routing.methods import route_by_name
from topologies import Network, load_network
from topologies.network import Link, Node

SMALL_SET = {"kind": "held", "nodes": 115, "seed": 1, "set": 1, "first": 0, "frames": 1}


def measured(study: Study, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        json.loads(json.dumps(json_ready({**point, **study.measure(point)}))) for point in points
    ]


def test_ten_layers_are_those_of_the_full_route_and_drawn() -> None:
    points = capillary_drawing.points(True, 1)
    rows = measured(bottleneck_hunting.STUDY, [*points[:1], *points[6:9]])
    assert [
        check.name for check in capillary_drawing.drawing_checks(rows) if not check.passed
    ] == []
    assert list(capillary_drawing.figures(rows)) == ["figure-47-layers-10"]


def test_a_network_is_hunted_as_the_exact_recursion_has_it() -> None:
    row = bottleneck_hunting.measure({"kind": "interior", "seed": 1})
    assert row["same"] == row["layers"] == 10
    assert all(hunt[0] == hunt[-1] for hunt in row["suspects"])


def ror_of(
    network: Network, ends: tuple[str, str], method: str, tolerance: float, large: bool
) -> float:
    """By the definition, link by link, with nothing of the studies' own arithmetic; loads of 1 left out."""
    loads = [load for load in route_by_name(network, *ends, method).loads if load < 1]
    return ror(
        loads, tolerance=tolerance, source_packets=20, decoding_error_rate=1e-5, large_blocks=large
    )


def test_ror_by_layer_is_that_of_the_layers() -> None:
    (row,) = measured(ror_layers.STUDY, [SMALL_SET])
    network = load_network("manet:nodes=115,seed=1,frame=0")
    ends = drawn_pair(network, 1, 0, minimum_paths=2)
    assert ends is not None
    for layer, method in ((0, "capillary:1"), (4, "capillary:5"), (10, "capillary")):
        for at in (0, 7, 14):
            tolerance = ror_layers.TOLERANCES[at]
            for key, large in (("short", False), ("large", True)):
                expected = ror_of(network, ends, method, tolerance, large)
                assert row[key][layer][at] == pytest.approx(expected, abs=1e-5)


def test_a_layer_of_critical_links_is_no_layer() -> None:
    ends = [("s", "a"), ("a", "b"), ("a", "c"), ("b", "t"), ("c", "t")]
    network = Network(
        name="critical",
        nodes=tuple(Node(id=n, kind="switch") for n in "sabct"),
        links=tuple(Link(source=s, target=t) for s, t in ends),
    )
    routes = ror_layers.layered_routes(network, "s", "t")
    assert len(routes) == 11
    assert [float(load) for load in routes[0].loads] == [1, 0.5, 0.5, 0.5, 0.5]


def test_sets_are_consecutive_and_hold_every_frame_once() -> None:
    for nodes, (frames, sets) in ror_layers.SETS.items():
        own = [
            p for p in ror_layers.points(False, 1) if p["nodes"] == nodes and p["kind"] == "held"
        ]
        assert len(own) == sets
        assert [k for p in own for k in range(p["first"], p["first"] + p["frames"])] == list(
            range(frames)
        )
        assert max(p["frames"] for p in own) - min(p["frames"] for p in own) <= 1


def test_outermost_pair_has_two_paths() -> None:
    network = load_network("manet:nodes=40,seed=2,frame=0")
    pair = outermost_pair(network)
    assert pair is not None
    height = {node.id: (node.position or (0.0, 0.0))[1] for node in network.nodes}
    assert height[pair[0]] > 0.8 and height[pair[1]] < 0.2
    assert disjoint_paths(network, *pair, 2).method == "disjoint:2"
    apart = Network(name="apart", nodes=tuple(Node(id=n, kind="switch") for n in "ab"), links=())
    assert outermost_pair(apart) is None
