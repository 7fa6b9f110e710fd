"""Limits and results of single searches, and the orbits of a symmetric traffic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule
from testbed.scheduling.fast import placement, searches
from testbed.scheduling.fast.budget import Budget
from testbed.scheduling.fast.steps import (
    LinkSets,
    first_fit,
    seeded_state,
)
from testbed.scheduling.fast.symmetry import Orbits, subgroups
from testbed.scheduling.fast.unit_ejection import (
    eject,
    enter_positions,
    place_greedily,
    unit_table,
)
from tests.helpers.link_sets import assert_no_link_twice, link_sets

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")


class Tried(Exception):
    """The step was tried."""


def notice(*_: object) -> object:
    raise Tried


@pytest.mark.parametrize(("most", "tried"), [(12, True), (11, False)])
def test_links_times_frames_beyond_memory_are_left_out(monkeypatch, most: int, tried: bool) -> None:
    """Four links, three frames."""
    traffic = Traffic.from_transfers([["a", "b"], ["a", "c"], ["a", "d"]])
    monkeypatch.setattr(searches, "MAX_STORED", most)
    budget = Budget(1.0, None)
    fitted = placement.fit_first(traffic, np.arange(3), 3)
    for entry in ("SEARCH_TWINS", "ENTER", "EJECT"):
        monkeypatch.setattr(searches, entry, notice)
    monkeypatch.setattr(searches, "fit_first", lambda *_: fitted)
    for step in (
        lambda: list(searches.search_by_classes(traffic, 1, budget)),
        lambda: list(searches.search_by_ejection(traffic, 1, budget, fitted)),
        lambda: list(searches.search_longer(traffic, 1, budget)),
    ):
        with pytest.raises(Tried) if tried else nullcontext():
            assert step() == []


def test_one_frame_more_is_enough_where_no_schedule_is_liquid(monkeypatch) -> None:
    monkeypatch.setattr(placement, "FIRST_FIT", first_fit)
    monkeypatch.setattr(searches, "ENTER", enter_positions)
    monkeypatch.setattr(searches, "EJECT", eject)
    paths = [["t1", "ab", "bc", "r1"], ["t2", "bc", "ca", "r2"], ["t3", "ca", "ab", "r3"]]
    traffic = Traffic.from_transfers(paths)
    (longer,) = searches.search_longer(traffic, 1, Budget(1.0, None))
    assert longer is not None and (longer.length, longer.bottleneck_load) == (3, 2)
    check_schedule(traffic, longer)


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
def test_orbits_spread_a_schedule_to_all_images(shape: tuple[int, ...]) -> None:
    """Transfers over two links side by side on a ring or a grid, and over one: carried into themselves by every
    translation."""
    places = list(itertools.product(*map(range, shape)))

    def moved(place: Sequence[int], by: Sequence[int]) -> int:
        return places.index(
            tuple((a + b) % side for a, b, side in zip(place, by, shape, strict=True))
        )

    one = (*[0] * (len(shape) - 1), 1)
    paths = [[p, moved(place, one)] for p, place in enumerate(places)] + [
        [p] for p in range(len(places))
    ]
    translations = tuple(
        np.array([moved(place, by) for place in places], dtype=np.int32) for by in places
    )
    bare = Traffic(
        links=tuple(map(str, range(len(places)))),
        offsets=link_sets(paths).offsets,
        indices=link_sets(paths).indices.astype(np.int32),
        symmetries=translations,
        symmetry_shape=shape,
    )
    for group in subgroups(bare):
        orbits = Orbits.of(bare, group)
        assert orbits is not None and orbits.images.shape == (len(group), len(paths) // len(group))
        assert sorted(orbits.images.ravel().tolist()) == list(range(len(paths)))
        for permutation, images in zip(group, orbits.images, strict=True):
            for unit, image in enumerate(images):
                links = orbits.indices[orbits.offsets[unit] : orbits.offsets[unit + 1]]
                assert sorted(permutation[links].tolist()) == sorted(paths[image])
        units = len(orbits.offsets) - 1
        sets = LinkSets(orbits.offsets, orbits.indices, len(places))
        table = unit_table(sets, np.stack(group).astype(np.int64), units, seeded_state(1))
        assert place_greedily(table, orbits.order) == 0
        assert_no_link_twice(paths, orbits.spread(table.position), units * len(group))
    unlike = replace(bare, offsets=bare.offsets[:2], indices=bare.indices[:2])
    assert Orbits.of(unlike, translations) is None
