"""The studies of chapter 4: small versions pass, wrong rows fail, and every figure is drawn from rows alone."""

from __future__ import annotations

import copy
import json
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
from testbed.commands.studies.study import Study, drawn
from testbed.model.json_values import json_ready

MIN_GRAPH = 19
"""Of the twenty: the integer programme of the others takes seconds."""


def measured(study: Study, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(json_ready({**point, **study.measure(point)}))) for point in points]


def small_points(study: Study) -> list[dict[str, Any]]:
    points = list(study.points(True, 1))
    if study is ror_layers.STUDY:
        return [{**points[0], "seed": 5}, {**points[-1], "seed": 1}]
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


@pytest.mark.parametrize("module", [ror_layers, ror_tolerance], ids=str)
def test_studies_of_layers_measure_and_draw_a_few_networks(module: Any) -> None:
    rows = measured(module.STUDY, small_points(module.STUDY))
    assert module.STUDY.judge(rows).checks
    assert all("<svg" in drawing for drawing in drawn(module.STUDY, rows).values())


def test_a_wrong_block_size_fails_the_table() -> None:
    rows = measured(fec_block_sizes.STUDY, small_points(fec_block_sizes.STUDY))
    wrong = copy.deepcopy(rows)
    wrong[0]["table"][3] += 1
    assert not fec_block_sizes.STUDY.judge(wrong).passed


def test_rising_ror_fails_the_claim_of_figure_60() -> None:
    falling = [[20.0 - k] * len(ror_layers.TOLERANCES) for k in range(11)]
    rows = [{"nodes": 115, "seed": 1, "short": falling[::-1], "large": falling}]
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
