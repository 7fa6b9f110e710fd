"""Wavelength plans of any traffic: no colour twice on a fibre, continuity, every lightpath once, never below the
bound."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.fast.packing import pack, solve_packing
from testbed.wavelengths.assignment import (
    METHODS,
    Effort,
    all_to_all,
    assign_wavelengths,
    colour_round,
    lightpaths_between,
    optical_end_points,
)
from testbed.wavelengths.checker import check_wavelength_plan
from testbed.wavelengths.plan import SWITCHINGS, LitPath, WavelengthPlan
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.network import Network

NETWORKS = {name: load_network(name) for name in ("optical-cloud", "ring:5", "mesh:3x3")}


def some_pairs(network: Network, seed: int, count: int) -> list[tuple[str, str]]:
    chance, ends = random.Random(seed), optical_end_points(network)
    return [tuple(chance.sample(ends, 2)) for _ in range(count)]  # type: ignore[misc]


@drawn(40)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    seed=st.integers(0, 10_000),
    count=st.integers(1, 40),
    wavelengths=st.integers(1, 6),
    switching=st.sampled_from(SWITCHINGS),
    method=st.sampled_from(METHODS),
)
def test_each_plan_lights_each_path_once_without_collisions(
    name: str, seed: int, count: int, wavelengths: int, switching: str, method: str
) -> None:
    network = NETWORKS[name]
    paths = lightpaths_between(network, some_pairs(network, seed, count))
    plan = assign_wavelengths(
        network,
        paths,
        wavelengths=wavelengths,
        switching=switching,  # type: ignore[arg-type]
        method=method,
        effort=Effort(seed=seed),
    )
    lit = [path for lit_paths in plan.rounds for path in lit_paths]
    assert sorted(path.lightpath for path in lit) == list(range(count))
    for lit_paths in plan.rounds:
        colours = Counter(
            (link, w)
            for p in lit_paths
            for link, w in zip(paths[p.lightpath].links, p.wavelengths, strict=True)
        )
        assert max(colours.values()) == 1
        assert all(0 <= w < wavelengths for _, w in colours)
    if switching == "wsxc":
        assert all(len(set(path.wavelengths)) == 1 for path in lit)
    load = Counter(link for path in paths for link in path.links)
    assert len(plan.rounds) >= plan.bound >= -(-max(load.values()) // wavelengths)
    assert plan.optimal is None or len(plan.rounds) == plan.bound


@drawn(25)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 14), wavelengths=st.integers(1, 3))
def test_liquid_plans_are_as_short_as_cp_sat_proves(
    seed: int, count: int, wavelengths: int
) -> None:
    network = NETWORKS["ring:5"]
    paths = lightpaths_between(network, some_pairs(network, seed, count))
    numbers = [[network.link_index[link] for link in path.links] for path in paths]
    for switching, capacity in (("wsxc", 1), ("wixc", wavelengths)):
        plan = assign_wavelengths(
            network,
            paths,
            wavelengths=wavelengths,
            switching=switching,  # type: ignore[arg-type]
            effort=Effort(seed=seed),
        )
        assert plan.optimal
        fewer = len(plan.rounds) - 1
        bins = fewer * wavelengths // capacity
        assert (
            bins == 0
            or solve_packing(numbers, bins, capacity, time_limit_s=20).state == "impossible"
        )


@drawn(40)
@given(
    paths=st.lists(st.sets(st.integers(0, 8), min_size=1, max_size=4), min_size=1, max_size=15),
    capacity=st.integers(1, 3),
    spare=st.integers(0, 1),
)
def test_packings_keep_to_the_capacity(paths: list[set[int]], capacity: int, spare: int) -> None:
    load = Counter(link for path in paths for link in path)
    bins = -(-max(load.values()) // capacity) + spare
    placed = pack([sorted(p) for p in paths], bins, capacity, steps=2_000)
    answer = solve_packing([sorted(p) for p in paths], bins, capacity, time_limit_s=10)
    for found in (placed, answer.bins or None):
        if found is not None:
            crowd = Counter((b, link) for p, b in zip(paths, found, strict=True) for link in p)
            assert max(crowd.values()) <= capacity
            assert set(found) <= set(range(bins))
    assert placed is None or answer.state == "found"


@drawn(40)
@given(seed=st.integers(0, 10_000), wavelengths=st.integers(1, 5))
def test_any_round_within_the_capacity_can_be_coloured_with_conversion(
    seed: int, wavelengths: int
) -> None:
    chance, load, paths = random.Random(seed), Counter[int](), []
    for _ in range(30):
        path = chance.sample(range(8), chance.randint(1, 4))
        if all(load[link] < wavelengths for link in path):
            load.update(path)
            paths.append(path)
    coloured = colour_round(paths, wavelengths)
    lit = [
        (link, w)
        for p, own in zip(paths, coloured, strict=True)
        for link, w in zip(p, own, strict=True)
    ]
    assert len(lit) == len(set(lit)) == sum(map(len, paths))
    assert all(0 <= w < wavelengths for _, w in lit)


def five_arcs(wavelengths: int, switching: str) -> WavelengthPlan:
    """Five lightpaths of four fibres round a ring of five: any two share a core fibre, none bears more than two."""
    network = NETWORKS["ring:5"]
    pairs = [(f"h{i}", f"h{(i + 2) % 5}") for i in range(5)]
    return assign_wavelengths(
        network,
        lightpaths_between(network, pairs),
        wavelengths=wavelengths,
        switching=switching,  # type: ignore[arg-type]
    )


def test_conversion_saves_a_round_where_no_liquid_schedule_exists() -> None:
    kept, changed = five_arcs(2, "wsxc"), five_arcs(2, "wixc")
    assert (kept.bottleneck_load, len(kept.rounds), kept.bound, kept.optimal) == (2, 2, 2, True)
    assert (len(changed.rounds), changed.bound, changed.optimal) == (1, 1, True)
    assert kept.conversions == 0 < changed.conversions <= 2


@pytest.mark.parametrize(
    ("wavelengths", "rounds"), [(1, 15), (2, 8), (4, 4), (8, 2), (15, 1), (16, 1)]
)
def test_all_to_all_over_nsfnet_takes_the_fewest_rounds(wavelengths: int, rounds: int) -> None:
    network = NETWORKS["optical-cloud"]
    plan = assign_wavelengths(
        network,
        lightpaths_between(network, all_to_all(network)),
        wavelengths=wavelengths,
        switching="wsxc",
    )
    assert (len(plan.rounds), plan.frames, plan.optimal, len(plan.lightpaths)) == (
        rounds,
        15,
        True,
        182,
    )


def test_checker_names_what_is_wrong() -> None:
    plan = five_arcs(3, "wsxc")
    lit = [path for lit_paths in plan.rounds for path in lit_paths]
    changed = LitPath(
        lightpath=lit[0].lightpath, wavelengths=(0, 1, 0, 0)[: len(lit[0].wavelengths)]
    )
    for wrong, said in (
        ((tuple(lit[1:]),), f"lightpath {lit[0].lightpath} .* is lit in no round"),
        ((tuple(lit), (lit[0],)), "again in round 1"),
        ((tuple(lit), ()), "lights no path"),
        (
            (tuple(replace(p, wavelengths=(0,) * len(p.wavelengths)) for p in lit),),
            "share wavelength 0 of ",
        ),
        (
            (tuple(replace(p, wavelengths=(3,) * len(p.wavelengths)) for p in lit),),
            "uses wavelength 3",
        ),
        ((tuple(replace(p, wavelengths=(0,)) for p in lit),), "give one for each fibre"),
        (((changed, *lit[1:]),), "changes its wavelength"),
        (((*lit, replace(lit[0], lightpath=5)),), "there is no lightpath 5"),
    ):
        with pytest.raises(InputError, match=said):
            check_wavelength_plan(replace(plan, rounds=wrong))


def test_bad_requests_are_refused() -> None:
    network = NETWORKS["optical-cloud"]
    with pytest.raises(InputError, match="crosses no fibre"):
        lightpaths_between(network, [("e1", "h1")])
    with pytest.raises(InputError, match="no pairs"):
        lightpaths_between(network, [])
    paths = lightpaths_between(network, [("h1", "h2")])
    assert (paths[0].source, paths[0].target) == ("e1", "e2")
    for wrong, said in (
        ({"wavelengths": 0}, "wavelengths 0"),
        ({"switching": "mems"}, "neither"),
        ({"method": "best"}, "unknown"),
    ):
        with pytest.raises(InputError, match=said):
            assign_wavelengths(network, paths, **{"wavelengths": 2, "switching": "wsxc", **wrong})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no lightpaths"):
        assign_wavelengths(network, [], wavelengths=2, switching="wsxc")
