"""Studies of striped files: points that differ, verdicts that can fail, figures from rows alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments import sfio_crossbar, sfio_granularity, sfio_multi_block, sfio_schedules, sfio_swiss_t1

STUDIES = (sfio_crossbar, sfio_granularity, sfio_multi_block, sfio_schedules, sfio_swiss_t1)


def ideal(study: Any, point: dict[str, Any]) -> dict[str, Any]:
    """What a point would measure if the papers' claims held to the letter."""
    row = {**point, "verified": True, "liquid_links": 1.0, "liquid_bps": 1e6, "throughput_bps": 1e6}
    if study is sfio_crossbar:
        row["throughput_bps"] = 0.95 * point["nodes"] * study.LINK_RATE_BPS
    elif study is sfio_granularity:
        row["throughput_bps"] = 19.5e6 if point["optimised"] else min(10e6, 4e3 * point["stripe_unit"])
    elif study is sfio_multi_block:
        row["throughput_bps"] = 19e6 if point["multi_block"] else min(2e6, 4e3 * point["block_bytes"])
    elif study is sfio_schedules:
        row["throughput_bps"] = 1e7 if point["schedule"] == "liquid" else 6e6
    else:
        links = {2: 4.0, 4: 8.0, 6: 12.0, 8: 18.0}[2 * -(-point["nodes"] // 8)]
        row |= {"liquid_links": links, "liquid_bps": links * 5e6}
        row["throughput_bps"] = links * 5e6 * (0.95 if point["series"] == "striped-liquid" else 0.6)
    return row


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
@pytest.mark.parametrize("quick", [True, False])
def test_points_differ_and_are_json(study: Any, quick: bool) -> None:
    keys = [json.dumps(point, sort_keys=True) for point in study.points(quick, 1)]
    assert len(set(keys)) == len(keys) > 5


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
@pytest.mark.parametrize("quick", [True, False])
def test_verdicts_pass_on_what_the_papers_claim_and_fail_on_unverified_content(study: Any, quick: bool) -> None:
    rows = [ideal(study, point) for point in study.points(quick, 1)]
    verdict = study.judge(rows)
    assert verdict.passed, [check.name for check in verdict.checks if not check.passed]
    assert not study.judge([{**rows[0], "verified": False}, *rows[1:]]).passed


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
def test_verdicts_fail_where_all_points_are_alike(study: Any) -> None:
    rows = [{**ideal(study, point), "throughput_bps": 1e6} for point in study.points(True, 1)]
    assert not study.judge(rows).passed


@pytest.mark.parametrize("study", STUDIES, ids=lambda s: s.STUDY.name)
def test_figures_have_labelled_axes_and_a_legend(study: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for figure in study.figures([ideal(study, point) for point in study.points(True, 1)]).values():
        (axes,) = figure.axes
        assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() is not None
        plt.close(figure)


def test_nodes_of_swiss_t1_are_spread_over_switches_two_at_a_time() -> None:
    assert sfio_swiss_t1.allocation(8) == "4-4-0-0-0-0-0-0"
    assert sfio_swiss_t1.allocation(16) == "4-4-4-4-0-0-0-0"
    assert sfio_swiss_t1.allocation(18) == "3-3-3-3-3-3-0-0"
    assert sfio_swiss_t1.allocation(26) == "4-4-3-3-3-3-3-3"
