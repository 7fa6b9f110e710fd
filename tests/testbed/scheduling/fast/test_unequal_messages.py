"""Chunks and channels: the busiest link's need is kept, and the loss never exceeds its bound."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.scheduling.exact.exact_search import search_exactly
from testbed.scheduling.fast.unequal import split_messages


def test_equal_messages_over_equal_links_lose_nothing() -> None:
    chunks = split_messages(
        [["a", "b"], ["a", "c"]], [100, 100], {"a": 8.0, "b": 8.0, "c": 8.0}, chunk_bytes=100
    )
    assert (chunks.loss, chunks.bound, chunks.bottleneck_load) == (0, 0, 2)
    assert chunks.transfers == ((("a", 0), ("b", 0)), (("a", 0), ("c", 0)))
    assert chunks.liquid_s == chunks.fluid_s == 200


def test_link_of_twice_the_capacity_bears_two_chunks_at_once() -> None:
    chunks = split_messages(
        [["in", "trunk"], ["on", "trunk"]],
        [40, 40],
        {"in": 8, "on": 8, "trunk": 16},
        chunk_bytes=10,
    )
    assert chunks.channels == {"in": 1, "on": 1, "trunk": 2}
    assert (chunks.bottleneck_load, chunks.loss) == (4, 0)
    numbers: dict[object, int] = {}
    paths = [[numbers.setdefault(channel, len(numbers)) for channel in t] for t in chunks.transfers]
    result = search_exactly(paths)
    assert result.frames is not None and len(result.frames) == 4


def test_smaller_chunks_lose_less() -> None:
    losses = [
        split_messages([["a"], ["a"]], [100, 1000], {"a": 8.0}, chunk_bytes=size).loss
        for size in (300, 70, 7, 1)
    ]
    assert losses == sorted(losses, reverse=True) and losses[-1] == 0 < losses[0]


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True),
            st.integers(1, 60),
        ),
        min_size=1,
        max_size=8,
    ),
    st.fixed_dictionaries({name: st.integers(10, 70) for name in "abcde"}),
    st.integers(1, 40),
)
def test_loss_keeps_to_its_bound_and_channels_to_their_share(
    messages: list[tuple[list[str], int]], capacities: dict[str, int], chunk: int
) -> None:
    paths, sizes = [path for path, _ in messages], [size for _, size in messages]
    chunks = split_messages(paths, sizes, capacities, chunk_bytes=chunk)
    assert 0 <= chunks.loss <= chunks.bound < 1
    load = Counter(channel for transfer in chunks.transfers for channel in transfer)
    assert max(load.values()) == chunks.bottleneck_load
    assert all(number < chunks.channels[link] for link, number in load)
    per_message = Counter(chunks.message)
    assert all(0 <= per_message[i] * chunk - size < chunk for i, size in enumerate(sizes))
    assert isinstance(chunks.loss, Fraction)


@pytest.mark.parametrize(
    ("paths", "sizes", "capacities", "chunk", "words"),
    [
        ([["a"]], [1], {"a": 1.0}, 0, "chunks of 0"),
        ([["a"]], [], {"a": 1.0}, 1, "one size for each"),
        ([[]], [1], {}, 1, "uses no link"),
        ([["a"]], [0], {"a": 1.0}, 1, "0 bytes"),
        ([["a"]], [1], {"b": 1.0}, 1, "'a' has no capacity"),
        ([["a"]], [10**9], {"a": 1.0}, 1, "larger chunks"),
    ],
)
def test_bad_values_are_refused(
    paths: list[list[str]], sizes: list[int], capacities: dict[str, float], chunk: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        split_messages(paths, sizes, capacities, chunk_bytes=chunk)
    with pytest.raises(InputError, match="channels"):
        split_messages([["a"]], [1], {"a": 1.0}, chunk_bytes=1, channel_bps=2.0)
