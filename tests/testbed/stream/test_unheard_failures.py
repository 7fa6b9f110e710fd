"""A sender to which no report comes allows for a failure that it is not told of."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

import testbed
from fec.protocol.receiver_types import BlockUndecodable
from fec.protocol.sender import OutgoingPacket, StreamSender
from testbed.stream import endpoints
from testbed.stream.endpoints import build_receiver, build_sender
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import max_carried
from testbed.stream.prediction.stream_theory import StreamTheory
from tests.helpers.delay_loop import DelayLoop
from tests.testbed.stream.test_unequal_delays import Channel, plan_of

CUT_S, STOP_S = 1.5, 3.0


def plan() -> StreamPlan:
    return plan_of("swiss-t1, 10 to 30 ms", duration_s=4.0)


def lost_blocks(sender: StreamSender, plan: StreamPlan, dead_from_s: float) -> int:
    """Undecodable ones of 75 blocks under the failure of the most loaded link, with no report from a moment on."""
    channel = Channel(plan, 0.0)

    def forward(packet: OutgoingPacket, at_s: float) -> Sequence[float]:
        return (
            ()
            if CUT_S <= at_s < STOP_S and channel.slow in channel.path_of[packet.label]
            else channel(packet, at_s)
        )

    loop = DelayLoop(sender, build_receiver(plan), forward=forward)
    loop.backward = lambda way, number, at: () if dead_from_s <= at < STOP_S else (0.01,)
    loop.run_until(STOP_S + 0.5)
    return sum(isinstance(event, BlockUndecodable) for event in loop.events)


@pytest.mark.parametrize(("before_s", "most"), [(0.1, 14), (0.0, 19)])
def test_a_failure_that_no_report_tells_of_costs_a_few_blocks(before_s: float, most: int) -> None:
    made = build_sender(plan())
    assert 0 < lost_blocks(made, plan(), CUT_S - before_s) <= most


def test_sender_that_ignores_silence_loses_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoints, "SILENT_INTERVALS", math.inf)
    deaf = build_sender(plan())
    assert lost_blocks(deaf, plan(), CUT_S - 0.1) >= 55


@pytest.mark.parametrize(("lost", "most_raised"), [(0.1, 0.0), (0.3, 0.03)])
def test_reports_that_are_lost_now_and_then_are_no_silence(lost: float, most_raised: float) -> None:
    """Both copies of a report are lost together."""
    made, chance = plan(), random.Random(8)
    gone: dict[int, bool] = {}

    def backward(way: int, number: int, at: float) -> Sequence[float]:
        return () if gone.setdefault(number, chance.random() < lost) else (0.01,)

    loop = DelayLoop(build_sender(made), build_receiver(made), Channel(made, 0.0), backward)
    loop.run_until(5.0)
    sizes = [packet.block_size for _, packet in loop.sent if packet.symbol == 0]
    assert len(sizes) >= 245 and len(loop.reported_s) > 40
    assert sum(size > min(sizes) for size in sizes) <= most_raised * len(sizes)


@pytest.mark.parametrize(("capacity", "largest"), [("2e6", 29), ("1e9", 64)])
def test_self_inflicted_losses_raise_n_only_to_what_links_carry(
    capacity: str, largest: int
) -> None:
    """Half of all is lost to a full queue, which no failure explains: each packet more would be lost as well."""
    made = testbed.stream_plan(
        f"ring:4,capacity_bps={capacity}",
        "s0",
        "s2",
        faults="none",
        duration_s=4.0,
        symbol_bytes=240,
    )
    chance = random.Random(3)
    loop = DelayLoop(build_sender(made), build_receiver(made))
    loop.forward = lambda packet, at: () if at > 0.5 and chance.random() < 0.5 else (0.001,)
    loop.run_until(1.5)
    assert max(packet.block_size for _, packet in loop.sent) == largest
    assert max_carried(StreamTheory(made)) >= largest
