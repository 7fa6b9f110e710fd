"""The compiled engine's events happen in the order of their keys, wherever they wait: in the ring of those that come
first, in the wheel or in the heap."""

from __future__ import annotations

import heapq
import random
from typing import Any

import pytest

from fec.jit import as_records
from testbed.interconnect.compiled.kernel_events import next_event, pop_event, push
from testbed.interconnect.compiled.kernel_records import (
    ARRIVAL,
    DETECTION,
    FEW,
    ID_BITS,
    KEY_SHIFT,
    NO_EVENT,
    RUNNING,
    SOON,
    WAKE,
)
from testbed.interconnect.compiled.kernel_state import build_state
from testbed.interconnect.engine_inputs import Recording, build_inputs
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from tests.helpers.injected_messages import messages
from topologies import load_network


def empty_state() -> Any:
    network, parameters = load_network("ring:4"), SimulationParameters(model="thesis")
    inputs = build_inputs(
        build_model(network, parameters), messages((0.0, 0, 1)), parameters, (), Recording()
    )
    return as_records(build_state(inputs, ack_pool=0, heap=1 << 10))


@pytest.mark.parametrize("most", [1, FEW, 3 * SOON])
def test_events_happen_in_the_order_of_their_keys(most: int) -> None:
    """Up to so many are made at once: at the tick that it is, soon, within the wheel's reach and beyond it."""
    state, chance, expected = empty_state(), random.Random(most), list[int]()
    reach = len(state.wheel) << int(state.run[0].wheel_shift)
    seen = {"wheel": 0, "heap": 0, "most": 0}
    for _ in range(300):
        now = int(state.run[0].now)
        for _ in range(chance.choice([0, 1, most]) if len(expected) < 4 * most else 0):
            kind, number = chance.choice([WAKE, ARRIVAL, DETECTION]), chance.randrange(8)
            tick = now + chance.choice(
                [0, 0, 1, 300, reach // 40, reach // 3, 3 * reach]
            ) * chance.randrange(1, 3)
            push(state, tick, kind, number)
            heapq.heappush(expected, (tick << KEY_SHIFT) | (kind << ID_BITS) | number)
        seen["wheel"] += int(state.run[0].wheel_size > 0)
        seen["heap"] += int(state.run[0].heap_size > 0)
        seen["most"] = max(seen["most"], len(expected))
        key = next_event(state)
        assert key == (expected[0] if expected else NO_EVENT)
        if expected:
            pop_event(state, key)
            state.run[0].now = heapq.heappop(expected) >> KEY_SHIFT
    assert state.run[0].status == RUNNING and seen["most"] >= most
    assert seen["heap"] and (seen["wheel"] or most != FEW)
    size = int(state.run[0].soon_last - state.run[0].soon_first)
    assert size + state.run[0].wheel_size + state.run[0].heap_size == len(expected)
    assert state.soon[state.run[0].soon_last & (SOON - 1)] == NO_EVENT
