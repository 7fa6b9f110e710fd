"""Classes by twin links against a plain and slow statement of what they must be.

The portfolio hides a step that went wrong, for another one then finds the schedule: so each is called alone here,
uncompiled.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.scheduling.fast.class_ejection import UnitList
from testbed.scheduling.fast.steps import (
    Pools,
)
from testbed.scheduling.fast.twin_links import (
    find_classes,
    give_links,
    mixed,
    numbered,
    search_twins,
    twin_pools,
)
from tests.helpers.drawn import drawn
from tests.helpers.link_sets import FEW, LINKS, assert_no_link_twice, link_sets, paths_of_few_links

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered")


@FEW
@given(st.lists(st.integers(0, 5), max_size=20))
def test_equal_keys_are_numbered_as_they_first_come(keys) -> None:
    known = list(dict.fromkeys(keys))
    pools = numbered(np.array(keys, dtype=np.uint64))
    assert pools.of.tolist() == [known.index(key) for key in keys]
    assert pools.size.tolist() == [keys.count(key) for key in known]


def test_mixed_numbers_are_those_of_splitmix64() -> None:
    """The first outputs of the published generator for seed 0, and others computed anew in Python's own integers."""
    step, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [int(mixed(np.uint64(step * i & mask))) for i in range(3)] == published
    for number in (1, 77, 1 << 40):
        x = number + step & mask
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        assert int(mixed(np.uint64(number))) == x ^ x >> 31


@FEW
@given(paths_of_few_links)
def test_twins_are_links_whose_transfers_are_the_same_but_for_them(paths) -> None:
    around = [
        sorted(sorted(set(path) - {link}) for path in paths if link in path)
        for link in range(LINKS)
    ]
    pools = twin_pools(link_sets(paths))
    for a, b in itertools.combinations(range(LINKS), 2):
        assert (pools.of[a] == pools.of[b]) == (around[a] == around[b])
    assert pools.size.tolist() == [pools.of.tolist().count(p) for p in range(max(pools.of) + 1)]


@drawn(150)
@given(st.data())
def test_classes_are_found_only_where_all_combinations_come_equally_often(data) -> None:
    """Pools {0, 1}, {2, 3, 4}, {5}: transfers over one or two of them, at times all combinations, at times some.

    Never fewer transfers than combinations: twins make no such class, and the step does not look for one.
    """
    members = [[0, 1], [2, 3, 4], [5]]
    pool = [next(p for p, links in enumerate(members) if link in links) for link in range(LINKS)]
    paths: list[list[int]] = []
    for kind in data.draw(st.sets(st.sampled_from([(0,), (1,), (0, 1), (1, 2)]), min_size=1)):
        every = [list(links) for links in itertools.product(*(members[p] for p in kind))]
        whole, times = data.draw(st.booleans()), data.draw(st.integers(1, 2))
        paths += (
            every * times
            if whole
            else data.draw(st.lists(st.sampled_from(every), min_size=len(every), max_size=8))
        )
    paths = [data.draw(st.permutations(path)) for path in data.draw(st.permutations(paths))]
    by_kind: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    for path in paths:
        by_kind.setdefault(tuple(sorted(pool[k] for k in path)), Counter())[
            tuple(sorted(path))
        ] += 1
    even = all(
        len(set(met.values())) == 1 and len(met) == np.prod([len(members[p]) for p in kind])
        for kind, met in by_kind.items()
    )
    pools = Pools(np.array(pool), np.array([2, 3, 1]))
    good, classes = find_classes(link_sets(paths), pools)
    assert good == even
    needs = classes.needs
    assert [
        tuple(needs.resources[a:b].tolist()) for a, b in itertools.pairwise(needs.resource_starts)
    ] == list(by_kind)
    assert needs.demand.tolist() == [met.total() for met in by_kind.values()]
    assert classes.begin.tolist() == np.cumsum([0, *needs.demand]).tolist()
    if good:
        assert sorted(classes.transfers.tolist()) == list(range(len(paths)))
        for c, met in enumerate(by_kind.values()):
            own = [
                tuple(sorted(paths[t]))
                for t in classes.transfers[classes.begin[c] : classes.begin[c + 1]]
            ]
            assert own == [links for links in sorted(met) for _ in range(met[links])]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_units_that_have_the_same_links_share_out_the_transfers(times: int) -> None:
    """Pools {0, 1} and {2, 3, 4}: each combination ``times`` times, and the first pool alone."""
    paths = [[a, b] for a in (0, 1) for b in (2, 3, 4)] * times + [[0], [1]]
    sets, frames = link_sets(paths, 5), 3 * times + 1
    frame_of = np.zeros(len(paths), dtype=np.int32)
    assert search_twins(sets, frames, 2000, 1, frame_of) == 1
    assert_no_link_twice(paths, frame_of, frames)


def test_the_transfers_of_a_unit_begin_with_the_first_of_its_links() -> None:
    sets = link_sets([[0], [0], [1], [1]], 2)
    _, classes = find_classes(sets, Pools(np.zeros(2, dtype=np.int64), np.array([2])))
    units = UnitList(np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1]))
    assert sorted(give_links(units, classes.needs, classes.begin, 2).tolist()) == [0, 0, 2, 2]
