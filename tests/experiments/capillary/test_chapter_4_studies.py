"""The studies of chapter 4: small versions pass, wrong rows fail, and every figure is drawn from rows alone."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import pytest

from experiments.capillary import (
    bottleneck_hunting,
    capillary_drawing,
    failure_overlaps,
    fec_block_sizes,
    ror_labels,
    ror_layers,
    ror_optimum,
    ror_tolerance,
)
from experiments.capillary.mobile_pairs import mobile_pair
from fec.redundancy.ror import ror
from testbed.commands.studies.study import Study, drawn
from testbed.model.json_values import json_ready
from testbed.routing.methods import route_by_name

MIN_GRAPH = 19
"""Of the twenty: the integer programme of the others takes seconds."""


def measured(study: Study, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(json_ready({**point, **study.measure(point)}))) for point in points]


def small_points(study: Study) -> list[dict[str, Any]]:
    points = list(study.points(True, 1))
    if study is ror_layers.STUDY:
        return [*points[:2], points[-1]]
    if study is ror_optimum.STUDY:
        return [{"kind": "small", "graph": MIN_GRAPH}, {"kind": "mobile", "graph": 1}]
    if study is bottleneck_hunting.STUDY:
        return points[:1]
    if study is ror_tolerance.STUDY:
        return points[:2]
    return points


@pytest.mark.parametrize(
    "module",
    [fec_block_sizes, failure_overlaps, bottleneck_hunting, capillary_drawing, ror_optimum, ror_labels],
    ids=str,
)
def test_a_small_version_passes_and_is_drawn(module: Any) -> None:
    rows = measured(module.STUDY, small_points(module.STUDY))
    verdict = module.STUDY.judge(rows)
    assert verdict.passed, [check.name for check in verdict.checks if not check.passed]
    for drawing in drawn(module.STUDY, rows).values():
        assert "<svg" in drawing


def ror_of(row: dict[str, Any], method: str, tolerance: float, large: bool) -> float:
    """By the definition, link by link, with nothing of the studies' own arithmetic; loads of 1 left out."""
    network, source, sink = mobile_pair(row["nodes"], row["seed"])
    loads = [load for load in route_by_name(network, source, sink, method).loads if load < 1]
    return ror(loads, tolerance=tolerance, source_packets=20, decoding_error_rate=1e-5, large_blocks=large)


@cache
def layer_rows() -> list[dict[str, Any]]:
    return measured(ror_layers.STUDY, small_points(ror_layers.STUDY))


def test_ror_by_layer_is_that_of_the_layers_and_falls_as_claimed() -> None:
    rows = layer_rows()
    for layer, method in ((0, "capillary:1"), (4, "capillary:5"), (10, "capillary")):
        for at in (0, 7, 14):
            tolerance = ror_layers.TOLERANCES[at]
            for key, large in (("short", False), ("large", True)):
                assert rows[0][key][layer][at] == pytest.approx(ror_of(rows[0], method, tolerance, large))
    assert not [check.name for check in ror_layers.judge(rows).checks if not check.passed]
    assert all("<svg" in drawing for drawing in drawn(ror_layers.STUDY, rows).values())


def test_ror_by_tolerance_is_that_of_the_routes_and_rises_at_small_ones() -> None:
    rows = measured(ror_tolerance.STUDY, small_points(ror_tolerance.STUDY))
    for at in (0, 5, 13):
        tolerance = ror_tolerance.TOLERANCES[at]
        assert rows[0]["short_first"][at] == pytest.approx(ror_of(rows[0], "capillary:1", tolerance, False))
        assert rows[0]["large_full"][at] == pytest.approx(ror_of(rows[0], "capillary", tolerance, True))
    assert ror_tolerance.judge(rows).passed
    exchanged = [{**row, "short_first": row["short_full"], "short_full": row["short_first"]} for row in rows]
    assert not any(check.passed for check in ror_tolerance.judge(exchanged).checks)
    assert all("<svg" in drawing for drawing in drawn(ror_tolerance.STUDY, rows).values())


def test_a_wrong_block_size_fails_the_table() -> None:
    rows = measured(fec_block_sizes.STUDY, small_points(fec_block_sizes.STUDY))
    wrong = copy.deepcopy(rows)
    wrong[0]["table"][3] += 1
    assert not fec_block_sizes.STUDY.judge(wrong).passed


def test_rising_ror_fails_the_claim_of_figure_60() -> None:
    rows = [{**row, "short": row["short"][::-1]} for row in layer_rows()]
    failed = [check.name for check in ror_layers.judge(rows).checks if not check.passed]
    assert any("fall of the mean ROR" in name and "eq. 23" in name for name in failed)


def test_the_small_graphs_are_connected_and_at_most_ten_nodes() -> None:
    for seed in range(20):
        network = ror_optimum.random_graph(seed)
        seen, ready = {"0"}, ["0"]
        while ready:
            node = ready.pop()
            for i in network.out_links(node):
                if network.links[i].target not in seen:
                    seen.add(network.links[i].target)
                    ready.append(network.links[i].target)
        assert len(seen) == len(network.nodes) <= 10
