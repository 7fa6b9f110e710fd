"""The compiled engine's slots: a buffer has room when the model, a list of the times from which its slots are free,
says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.interconnect.compiled.kernel_events import has_free_slot, leave_slot, occupy_slot
from testbed.interconnect.compiled.kernel_records import Queue
from testbed.interconnect.compiled.kernel_state import records

SLOTS = (2, 3)
"""Of the buffers, which lie side by side in the table of releases."""
CALLS = st.lists(
    st.tuples(
        st.integers(0, len(SLOTS) - 1),
        st.sampled_from((False, False, True)),
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    min_size=40,
    max_size=120,
)


def buffers() -> Any:
    queues = records(Queue, len(SLOTS), slots=SLOTS, returning_at=np.arange(len(SLOTS)))
    return SimpleNamespace(
        queues=np.asarray(queues).view(np.recarray),
        release=np.zeros(len(SLOTS) * max(SLOTS), dtype=np.int64),
    )


@given(CALLS)
def test_a_packet_finds_room_in_the_order_in_which_slots_were_left(
    calls: list[tuple[int, bool, int, int]],
) -> None:
    state, now = buffers(), 0
    held, returning = [0] * len(SLOTS), [[] for _ in SLOTS]  # type: ignore[var-annotated]
    for queue, leaves, later, gone_after in calls:
        now += later
        if leaves and held[queue]:
            held[queue] -= 1
            state.queues[queue].occupied -= 1
            gone = max([now + gone_after, *returning[queue]])
            returning[queue].append(gone)
            state.release[leave_slot(state, queue, now)] = gone
        free = SLOTS[queue] - held[queue] - sum(gone > now for gone in returning[queue])
        assert has_free_slot(state, queue, now) == (free > 0)
        if not leaves and free > 0:
            held[queue] += 1
            state.queues[queue].occupied += 1
            occupy_slot(state, queue)
        for other, model in enumerate(returning):  # those that nobody waits for any more
            returning[other] = [gone for gone in model if gone > now]
