"""Sets of links as the fast method's steps take them, small ones drawn at random, and what every schedule must keep
to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from testbed.scheduling.fast.steps import LinkSets
from tests.helpers.drawn import drawn

LINKS = 6
FEW = drawn(60)
MANY = drawn(400)
paths_of_few_links = st.lists(
    st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True),
    min_size=1,
    max_size=12,
)


def link_sets(paths: Sequence[Sequence[int]], links: int = LINKS) -> LinkSets:
    offsets = np.cumsum([0, *map(len, paths)]).astype(np.int64)
    return LinkSets(
        offsets, np.array([link for path in paths for link in path], dtype=np.int64), links
    )


def assert_no_link_twice(paths: Sequence[Sequence[int]], frame_of: np.ndarray, frames: int) -> None:
    assert all(0 <= frame < frames for frame in frame_of)
    held = [
        (int(frame), link) for frame, path in zip(frame_of, paths, strict=True) for link in path
    ]
    assert len(set(held)) == len(held)
