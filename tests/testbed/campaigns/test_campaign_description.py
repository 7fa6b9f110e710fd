"""A campaign's file is checked key by key, multiplied out in a fixed order, and its rows agree with the theory's
functions."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from fec.redundancy.ror import ror
from testbed.campaigns.description import Campaign, parse_campaign, units
from testbed.campaigns.loader import load_campaign
from testbed.campaigns.rows import COLUMNS, drawn_pair, unit_rows
from testbed.campaigns.summary import judge_claims, summarise
from testbed.errors import InputError
from testbed.model.verdict import Check
from testbed.routing.methods import route_by_name
from topologies.catalog import load_network

GOOD: dict[str, Any] = {
    "name": "try",
    "networks": ["swiss-t1"],
    "methods": ["capillary"],
    "pairs": [["s1", "s6"]],
}


def test_a_value_that_is_listed_twice_makes_its_rows_once() -> None:
    once = parse_campaign(GOOD, "f.toml")
    assert (
        parse_campaign({**GOOD, "methods": ["capillary"] * 2, "tolerances": [0.05, 0.05]}, "f.toml")
        == once
    )


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"networks": ("swiss-t1", "ring:4")}, {"networks": ["swiss-t1", "ring:4"]}),
        ({"pairs": (("s1", "s6"),)}, {"pairs": [["s1", "s6"]]}),
        ({"pairs": [("s1", "s6")]}, {"pairs": [["s1", "s6"]]}),
        ({"seeds": range(1, 4)}, {"seeds": "1-3"}),
        ({"claims": ()}, {"claims": []}),
    ],
)
def test_any_sequence_is_a_list(change: dict[str, Any], same: dict[str, Any]) -> None:
    assert parse_campaign({**GOOD, **change}, "f") == parse_campaign({**GOOD, **same}, "f")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tolerence": [0.1]}, "unknown key 'tolerence'; did you mean 'tolerances'?"),
        ({"tolerances": [1.0]}, "1.0 is outside [0, 1)"),
        ({"pairs": 10**12}, "more than 50000000 rows; split the campaign"),
        ({"seeds": "0-99999", "pairs": 10**5}, "more than 50000000 rows; split the campaign"),
        ({"tolerances": [-0.1]}, "-0.1 is outside [0, 1)"),
        ({"der": 0}, "0 is outside (0, 1)"),
        ({"der": 1.0}, "1.0 is outside (0, 1)"),
        ({"m": 0}, "0 is no whole number of at least 1"),
        ({"m": [2.5]}, "2.5 is no whole number"),
        ({"seeds": "5-2"}, "'5-2' is no range"),
        ({"seeds": [True]}, "True is no whole number"),
        ({"pairs": [["s1", "s1"]]}, "is no pair of two nodes"),
        ({"pairs": [["s1"]]}, "is no pair"),
        ({"pairs": ["ab"]}, "is no pair"),
        ({"networks": b"ring"}, "is no text"),
        ({"pairs": 0}, "0 is no whole number of at least 1"),
        ({"methods": []}, "at least one entry"),
        ({"networks": 5}, "give a list"),
        ({"large_blocks": ["yes"]}, "true, false or both"),
        ({"name": "../up"}, "not usable as a directory"),
        (
            {"claims": [{"method": "ecmp", "against": "capillary", "at_most": 1}]},
            "'ecmp' is not among",
        ),
        ({"claims": [{"method": "capillary", "at_most": 1}]}, "against is missing"),
        (
            {"claims": [{"method": "capillary", "agianst": "x", "at_most": 1}]},
            "did you mean 'against'?",
        ),
        (
            {
                "seeds": "1-3000",
                "networks": ["manet:seed={seed}"],
                "tolerances": [i / 100 for i in range(90)],
                "m": "1-200",
            },
            "more than",
        ),
    ],
)
def test_a_wrong_file_is_refused_naming_the_key(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=r"^f\.toml") as caught:
        parse_campaign({**GOOD, **change}, "f.toml")
    assert words in str(caught.value)


def test_a_missing_key_and_a_document_that_is_no_table_are_refused() -> None:
    with pytest.raises(InputError, match="key 'methods' is missing"):
        parse_campaign({"name": "x", "networks": ["swiss-t1"]}, "f.toml")
    with pytest.raises(InputError, match="give a table"):
        parse_campaign([1], "f.json")


def test_networks_are_repeated_only_over_what_their_names_hold() -> None:
    campaign = parse_campaign(
        {
            **GOOD,
            "networks": ["swiss-t1", "manet:nodes=9,seed={seed},frame={frame}"],
            "seeds": "1-3",
            "frames": [0, 7],
        },
        "f",
    )
    assert len(units(campaign)) == 1 + 3 * 2
    assert [unit.index for unit in units(campaign)] == list(range(7))


def test_rows_are_what_the_functions_of_theory_give() -> None:
    campaign = parse_campaign(
        {
            **GOOD,
            "methods": ["single", "capillary:2", "capillary"],
            "tolerances": [0.0, 0.05, 0.25],
            "large_blocks": [False, True],
        },
        "f",
    )
    (unit,) = units(campaign)
    rows = unit_rows(campaign, unit)
    assert len(rows) == campaign.rows_per_unit == 18
    network = load_network("swiss-t1")
    for row in rows:
        assert list(row) == list(COLUMNS)
        loads = [load for load in route_by_name(network, "s1", "s6", row["method"]).loads if load]
        options = {"tolerance": row["tolerance"], "source_packets": 20, "decoding_error_rate": 1e-5}
        expected = ror(loads, **options, large_blocks=row["large_blocks"])
        assert (row["ror"] is None) == math.isinf(expected)
        if row["ror"] is not None:
            assert row["ror"] == pytest.approx(expected)
        others = ror(
            [load for load in loads if load < 1], **options, large_blocks=row["large_blocks"]
        )
        assert row["ror_of_others"] == pytest.approx(others)


def test_a_pair_without_a_path_is_a_row_that_says_so() -> None:
    name = "manet:nodes=30,seed=1,range=0.05"
    campaign = parse_campaign({**GOOD, "networks": [name], "pairs": [["n0", "n1"]]}, "f")
    (row,) = unit_rows(campaign, units(campaign)[0])
    assert row["state"] == "no path" and row["ror"] is None
    assert not judge_claims(campaign, [row]).passed


def test_drawn_pairs_have_the_requested_paths_and_depend_on_the_seed() -> None:
    network = load_network("manet:nodes=40,seed=5")
    pairs = [drawn_pair(network, seed=9, draw=draw, minimum_paths=3) for draw in range(4)]
    assert len(set(pairs)) == 4 and None not in pairs
    assert pairs == [drawn_pair(network, seed=9, draw=draw, minimum_paths=3) for draw in range(4)]
    for pair in pairs:
        assert pair is not None
        assert route_by_name(network, *pair, "disjoint:3").method == "disjoint:3"


def test_a_claim_is_judged_over_the_rows_where_both_are_finite() -> None:
    claims = [{"method": "a", "against": "b", "at_most": 0.5}]
    campaign = parse_campaign(
        {**GOOD, "methods": ["a", "b"], "claims": claims, "pairs": [["s1", "s6"], ["s2", "s7"]]},
        "f",
    )
    common = {"tolerance": 0.05, "m": 20, "der": 1e-5, "large_blocks": False, "state": "ok"}
    rows = [
        common | {"unit": 0, "method": "a", "ror": 1.0, "ror_of_others": 1.0},
        common | {"unit": 0, "method": "b", "ror": 2.0, "ror_of_others": 2.0},
        common | {"unit": 1, "method": "a", "ror": 100.0, "ror_of_others": 100.0},
        common | {"unit": 1, "method": "b", "ror": None, "ror_of_others": 0.0},
    ]
    verdict = judge_claims(campaign, rows)
    assert verdict.passed and verdict.checks[1].measured == 0.5
    for others in (rows[:3], [*rows[:3], rows[0]], [*rows, rows[3]]):
        assert judge_claims(campaign, others).checks[0].outcome == "cannot-tell"
    rows[0]["ror"] = 1.1
    assert not judge_claims(campaign, rows).passed
    by_method = {row["method"]: row for row in summarise(rows)}
    assert by_method["b"]["infinite"] == 1 and by_method["b"]["mean_ror"] == 2.0


def test_summary_compares_methods_over_the_same_rows() -> None:
    """A method that is finite only where all do well would look better than one that always is."""
    common = {"tolerance": 0.05, "m": 20, "der": 1e-5, "large_blocks": False, "state": "ok"}
    common |= {"loaded_links": 2}
    rows = []
    for unit, (ours, theirs) in enumerate([(6.0, 7.0), (9.0, None), (12.0, None)]):
        values = {"ours": ours, "theirs": theirs, "single": None}
        for method, value in values.items():
            forced = {"ours": 0, "theirs": 1, "single": 2}[method] if value is None else 0
            row = {"unit": unit, "method": method, "ror": value, "ror_of_others": value or 0.0}
            rows.append(common | row | {"infinite_links": forced})
    by_method = {row["method"]: row for row in summarise(rows)}
    assert [by_method[name]["mean_ror"] for name in values] == [9.0, 7.0, None]
    assert [by_method[name]["mean_ror_of_common_rows"] for name in values] == [6.0, 7.0, None]
    assert [by_method[name]["common_rows"] for name in values] == [1, 1, 0]
    assert by_method["single"]["mean_ror_of_others"] is None


@pytest.mark.parametrize(
    ("name", "networks"),
    [
        ("quick", 4),
        ("baselines", 26),
        ("manet-layers", 36),
        ("figure-60", 300),
        ("figure-61", 150),
        ("thousands", 4000),
    ],
)
def test_the_campaigns_that_come_with_the_testbed_are_sound(name: str, networks: int) -> None:
    campaign = load_campaign(name)
    assert isinstance(campaign, Campaign) and campaign.claims
    assert len({unit.network for unit in units(campaign)}) == networks


def claimed(own: list[float], other: list[float], at_most: float) -> Check:
    """The claim's check over as many units, one row a method."""
    campaign = parse_campaign(
        {
            **GOOD,
            "methods": ["a", "b"],
            "claims": [{"method": "a", "against": "b", "at_most": at_most}],
        },
        "f",
    )
    common = {"tolerance": 0.05, "m": 20, "der": 1e-5, "large_blocks": False, "state": "ok"}
    rows = [
        common | {"unit": unit, "method": method, "ror": value, "ror_of_others": value}
        for unit, pair in enumerate(zip(own, other, strict=True))
        for method, value in zip("ab", pair, strict=True)
    ]
    return judge_claims(campaign, rows).checks[1]


def test_gain_claim_needs_enough_units_that_differ() -> None:
    other = [10.0, 11.0, 9.0, 10.0]
    assert claimed([7.0, 7.7, 6.3, 7.0], other, 0.75).outcome == "holds"
    assert claimed(other, other, 0.75).outcome == "fails"
    assert claimed([2.0, 16.0, 2.0, 8.0], other, 0.75).outcome == "cannot-tell"


def test_a_claim_of_no_more_cost_has_no_rival_and_says_why() -> None:
    check = claimed([10.0, 10.0], [10.0, 10.0], 1.0)
    assert check.passed and check.rival is None and "costs no more" in check.rival_note


def test_the_interval_of_a_ratio_is_as_wide_as_repeated_samples_spread() -> None:
    generator = random.Random(1)
    covered = 0
    for _ in range(200):
        other = [generator.uniform(5, 15) for _ in range(40)]
        own = [0.7 * value + generator.gauss(0, 2) for value in other]
        low, high = claimed(own, other, 0.9).interval or (0.0, 0.0)
        covered += low <= 0.7 <= high
    assert 180 <= covered <= 199
