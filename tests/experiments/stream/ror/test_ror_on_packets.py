"""The studies of ROR on packets: rows of true runs (virtual time, quick) pass, and fail when they are spoilt as each
rival says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.ror import (
    ror_by_layer,
    ror_by_layer_switches,
    ror_by_method,
    ror_validation,
)
from experiments.stream.ror.layer_checks import judge_layers, layer_means
from experiments.stream.ror.measured_routes import (
    LABELS,
    carried,
    measure_route,
    mobile_networks,
    route_allowed,
    route_ror,
)
from experiments.stream.ror.method_checks import (
    METHODS,
    judge_methods,
    pairs,
    possibly_infinite_ror,
)
from testbed.model.verdict import Check, Verdict
from tests.helpers.study_rows import published

Rows = list[dict[str, Any]]


def stored(name: str) -> Rows:
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text().splitlines()]


def by_layer() -> Rows:
    return stored("rows_by_layer.jsonl")


def by_method() -> Rows:
    return stored("rows_by_method.jsonl")


def not_passed(verdict: Verdict) -> dict[str, Check]:
    return {check.name: check for check in verdict.checks if not check.passed}


def test_true_rows_fail_nowhere_and_every_check_names_its_rival() -> None:
    """A difference between means over so few networks may cross its own bar: that cannot tell."""
    for verdict in (judge_layers(by_layer()), judge_methods(by_method())):
        unsure = not_passed(verdict)
        assert all(
            check.unsure and check.interval and "mean ROR" in name for name, check in unsure.items()
        ), unsure
        assert len(unsure) <= 3
        assert all(check.rival is not None and check.rival_note for check in verdict.checks)


def no_fall(rows: Rows) -> None:
    """Each route costs what its first layer does, the links that failed their share of it."""
    first = {(row["network"], row["labels"]): row["whole"] for row in rows if row["layers"] == 1}
    for row in rows:
        more = first[row["network"], row["labels"]] - row["whole"]
        row["measured"] = row["predicted"] + more * row["links"] / row["of_links"]


def half_of_the_fall(rows: Rows) -> None:
    no_fall(rows)
    for row in rows:
        row["measured"] = (row["measured"] + row["predicted"]) / 2


def neighbours_share(rows: Rows) -> None:
    for row in rows:
        row["astray"] = row["astray_rival"]


def never_raises(rows: Rows) -> None:
    for row in rows:
        row["measured"], row["undecodable"] = 0.0, row["steady_blocks"]


def wrong_cable(rows: Rows) -> None:
    rows[0]["wrong"] = 1


def unnamed_cables(rows: Rows) -> None:
    for row in rows:
        row["right"] = int(0.98 * row["heavy"])


def one_route_astray(rows: Rows) -> None:
    route = next(row for row in rows if row["links"])
    route["measured"] += 1.2 * route_allowed(route)
    route["tolerance"] *= (
        10  # what a run's own verdict allows for blocks that would need more packets than there can be
    )


def answers_too_late(rows: Rows) -> None:
    rows[-1]["unanswered"] = 1


def two_methods_swapped(rows: Rows) -> None:
    ends = {row["method"]: row for row in rows if row["network"] == rows[0]["network"]}
    one, two = ends["disjoint-2"], ends["capillary"]
    for row, other in ((one, two), (two, one)):
        row["measured"] = (
            row["predicted"] + (other["whole"] - row["whole"]) * row["links"] / row["of_links"]
        )


def something_gets_by(rows: Rows) -> None:
    single = next(row for row in rows if row["forced"])
    single["forced_open"] = single["forced"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (no_fall, "fall of mean ROR"),
        (half_of_the_fall, "fall of mean ROR"),
        (never_raises, "mean ROR, all layers"),
        (never_raises, "undecodable blocks"),
        (neighbours_share, "what single links are off"),
        (wrong_cable, "certain of a wrong cable"),
        (unnamed_cables, "the failed cable is named"),
        (one_route_astray, "worst route"),
        (answers_too_late, "without a whole block"),
    ],
)
def test_layers_spoilt_as_a_rival_would_have_them_fail(
    spoil: Callable[[Rows], None], words: str
) -> None:
    rows = by_layer()
    spoil(rows)
    found = [check for name, check in not_passed(judge_layers(rows)).items() if words in name]
    assert found and all(check.outcome == "fails" for check in found)


def wrong_cable_on_every_route(rows: Rows) -> None:
    for row in rows:
        row["wrong"] = row["heavy"]


@pytest.mark.parametrize(
    ("spoil", "words", "outcome"),
    [
        (no_fall, "stratified labels: fall of mean ROR", "fails"),
        (no_fall, "stratified labels: mean ROR, layers up to 5", "fails"),
        (no_fall, "random labels: mean ROR, layers up to 10", "fails"),
        (never_raises, "stratified labels: mean ROR, all layers", "fails"),
        (never_raises, "random labels: mean ROR, layers up to 1", "fails"),
        (never_raises, "undecodable blocks", "fails"),
        (neighbours_share, "stratified labels: what single links are off", "fails"),
        (neighbours_share, "random labels: what single links are off", "fails"),
        (wrong_cable_on_every_route, "certain of a wrong cable", "fails"),
        (unnamed_cables, "the failed cable is named", "fails"),
        (one_route_astray, "worst route", "fails"),
        (answers_too_late, "without a whole block", "fails"),
    ],
)
def test_the_run_on_switches_spoilt_as_a_rival_would_have_it_fails(
    spoil: Callable[[Rows], None], words: str, outcome: str
) -> None:
    rows = published("ror_by_layer_switches")
    spoil(rows)
    found = [check for name, check in not_passed(judge_layers(rows)).items() if words in name]
    assert found and outcome in {check.outcome for check in found}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (two_methods_swapped, "predicted order"),
        (two_methods_swapped, "disjoint-2 less that of capillary"),
        (something_gets_by, "links that carry everything"),
        (something_gets_by, "predicted order"),
        (neighbours_share, "what single links are off"),
        (never_raises, "predicted order"),
        (wrong_cable, "certain of a wrong cable"),
    ],
)
def test_methods_spoilt_as_a_rival_would_have_them_fail(
    spoil: Callable[[Rows], None], words: str
) -> None:
    rows = by_method()
    spoil(rows)
    assert any(words in name for name in not_passed(judge_methods(rows)))


def test_a_run_that_leaves_too_much_open_cannot_tell_a_fall_from_none() -> None:
    rows = [row | {"error": 1.0} for row in by_layer()]
    falls = [
        check
        for name, check in not_passed(judge_layers(rows)).items()
        if "fall of mean ROR" in name
    ]
    assert [check.outcome for check in falls] == ["cannot-tell"] * 2


def test_networks_with_infinite_ror_are_not_compared_by_layer() -> None:
    rows = [row | {"forced": int(row["layers"] == 1)} for row in by_layer()]
    assert layer_means(rows, "stratified") == {}
    falls = [
        check
        for name, check in not_passed(judge_layers(rows)).items()
        if "fall of mean ROR" in name
    ]
    assert [check.outcome for check in falls] == ["cannot-tell"] * 2


def test_methods_that_theory_does_not_tell_apart_are_not_ordered() -> None:
    rows = [
        row | {"whole": 4.0, "links": 4, "of_links": 4, "forced": 0, "tolerance": 0.1}
        for row in by_method()
    ]
    order = judge_methods(rows).checks[0]
    assert order.outcome == "cannot-tell" and "no two predictions" in order.detail


def test_an_infinite_ror_stands_above_every_finite_one() -> None:
    rows = by_method()
    assert (
        possibly_infinite_ror(rows[0]) == (float("inf"), float("inf"))
        and rows[0]["method"] == "single"
    )
    above = [pair for pair in pairs(rows, "stratified") if pair.a == "single"]
    assert above and all(pair.judged and pair.retained for pair in above)


def test_error_of_sampled_links_is_scaled_to_all_links_with_its_doubt() -> None:
    row = next(row for row in by_layer() if row["layers"] == 1)
    assert (
        route_ror(row).measured == pytest.approx(row["measured"])
        and row["links"] == row["of_links"]
    )
    off = {
        "measured": row["predicted"] + 0.02,
        "error": 0.01,
        "spread": 0.03,
        "of_links": 4 * row["links"],
    }
    quarter = route_ror(row | off)
    assert quarter.measured == pytest.approx(quarter.predicted + 4 * 0.02)
    chosen = 0.03 * math.sqrt(row["links"] * 3 / 4)
    assert quarter.uncertainty == pytest.approx(4 * 1.96 * math.hypot(0.01, chosen))


def test_a_route_is_measured_as_predicted_in_virtual_time() -> None:
    point = {"network": "ring:4", "source": "s0", "sink": "s2", "labels": "stratified", "seed": 1}
    row = measure_route(point | {"layers": 1})
    assert row["links"] == row["of_links"] == row["right"] == row["heavy"] == 4
    assert row["wrong"] == row["undecodable"] == row["unanswered"] == row["forced"] == 0
    assert abs(row["measured"] - row["predicted"]) < 0.01 and row["predicted"] > 3
    single = measure_route(point | {"method": "single"})
    assert (single["links"], single["forced"], single["forced_open"]) == (0, 2, 0)


def test_seeds_whose_ends_no_two_separate_paths_join_are_left_out() -> None:
    assert [name for name, _, _ in mobile_networks(1, sizes=(115,), each=2)] == [
        "manet:nodes=115,seed=1",
        "manet:nodes=115,seed=3",
    ]


def test_points_are_each_different_and_cover_what_the_studies_say() -> None:
    for study, count in (
        (ror_by_layer, 32 * 12),
        (ror_by_layer_switches, (8 + 4) * 6),
        (ror_by_method, 32 * 12),
        (ror_validation, 18),
    ):
        points = study.points(False, 1)
        assert len({json.dumps(point) for point in points}) == len(points) == count
    assert {row["method"] for row in ror_by_method.points(True, 1)} == set(METHODS)


def test_figures_are_drawn() -> None:
    assert list(ror_by_layer.STUDY.figures(by_layer())) == [
        f"mean_ror_by_layer_{labels}" for labels in LABELS
    ]
    assert list(ror_by_method.STUDY.figures(by_method())) == ["methods_beside_capillary_stratified"]


def test_routes_beyond_the_largest_block_are_left_out_and_named() -> None:
    rows = by_method()
    one = next(row for row in rows if row["method"] == "disjoint-2" and row["links"])
    one["measured"] = one["predicted"] / 2  # as where the block size stops at 255
    assert judge_methods(rows).outcome == "fails"
    one["beyond"] = 1
    verdict = judge_methods(rows)
    assert verdict.outcome != "fails", not_passed(verdict)
    assert any("255" in note and one["network"] in note for note in verdict.notes)
    assert not any(
        pair.network == one["network"] and "disjoint-2" in (pair.a, pair.b)
        for pair in pairs(carried(rows), one["labels"])
    )


def test_quick_routes_are_within_reach_of_the_code() -> None:
    row = measure_route(
        {
            "network": "ring:4",
            "source": "s0",
            "sink": "s2",
            "labels": "random",
            "layers": 1,
            "seed": 1,
        }
    )
    assert row["beyond"] == 0 and row["whole"] > 0
