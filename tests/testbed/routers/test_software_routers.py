"""Software routers in virtual time: what they say, that they deadlock without NAC and never with it, and the two failed
links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.errors import InputError
from testbed.routers.measurements import find_cycle
from testbed.routers.nac import build_router
from testbed.routers.plan import Flow, RouterPlan, dependency_cycles, ring_plan, two_failures_plan
from testbed.routers.wire import (
    CREDIT_FRAME,
    DataPacket,
    Identification,
    Recovery,
    WireError,
    decode,
)
from tests.helpers.virtual_routers import VirtualRouters

PACKET = DataPacket(source=3, destination=1, number=7, made_ns=5, payload=b"abc", hops=2)


def test_frames_say_what_was_said() -> None:
    asked = Identification(origin=(300, 1), out=2, path=((300, 1), (4, 0)))
    signal = Recovery(path=((1, 0),), place=1)
    assert decode(PACKET.encode()) == replace(PACKET, hops=3)
    assert [decode(each.encode()) for each in (asked, signal)] == [asked, signal]
    assert decode(CREDIT_FRAME) is None


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (b"", "empty"),
        (b"\x09", "kind 9"),
        (PACKET.encode()[:8], "ends early"),
        (PACKET.encode()[:-1] + b"d", "changed on its way"),
    ],
)
def test_a_frame_that_no_router_sends_is_refused(frame: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words):
        decode(frame)


def test_a_packet_without_a_credit_is_refused() -> None:
    plan = ring_plan(4, 2, messages=3, avoidance="none", slots=1)
    router = build_router(plan, 0)
    frame = plan.messages_of(3)[0][1].encode()
    router.receive(1, frame, 0.0)
    with pytest.raises(WireError, match="no credit"):
        router.receive(1, frame, 0.0)


def test_ring_under_tornado_traffic_deadlocks_in_a_cycle_of_all_inputs() -> None:
    plan = ring_plan(8, 3, messages=60, avoidance="none")
    run = VirtualRouters(plan).run()
    assert run.delivered < run.made and run.in_use == 8 * 2 * plan.slots
    assert len(find_cycle(plan, run.snapshots)) == 8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("routers", "hops", "slots", "load"),
    [(3, 2, 1, 1.0), (4, 2, 1, 0.6), (5, 3, 2, 1.0), (8, 3, 2, 0.5)],
)
def test_nac_delivers_every_message_once_whatever_time_frames_take(
    routers: int, hops: int, slots: int, load: float, seed: int
) -> None:
    plan = ring_plan(routers, hops, messages=30, slots=slots, load=load, seed=seed)
    run = VirtualRouters(plan, seed=seed, delay_s=1.5 * plan.packet_s).run()
    assert run.delivered == run.made and run.in_use == 0
    assert len({arrival[:3] for arrival in run.log}) == run.made
    assert {arrival[3] for arrival in run.log} == {hops}


def test_bubble_flow_control_delivers_too_and_puts_nothing_aside() -> None:
    run = VirtualRouters(ring_plan(8, 3, messages=60, avoidance="bubble")).run()
    assert run.delivered == run.made and run.nac == {}


@pytest.mark.parametrize("dead", [(), (1,), (2,)])
def test_neither_of_the_two_failures_alone_closes_a_cycle(dead: tuple[int, ...]) -> None:
    plan = two_failures_plan(messages=60, dead=dead, avoidance="none")
    assert dependency_cycles(flow.path for flow in plan.flows) == []
    run = VirtualRouters(plan).run()
    assert run.delivered == run.made


def test_two_failures_deadlock_in_a_cycle_of_eight_and_nac_frees_it() -> None:
    plan = two_failures_plan(messages=60, avoidance="none")
    (depends,) = dependency_cycles(flow.path for flow in plan.flows)
    run = VirtualRouters(plan).run()
    cycle = find_cycle(plan, run.snapshots)
    assert run.delivered < run.made
    assert {router for router, _ in cycle} == {channel[1] for channel in depends} and len(
        cycle
    ) == 8
    freed = VirtualRouters(two_failures_plan(messages=60)).run()
    assert freed.delivered == freed.made and freed.nac["moves"] > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flows": (Flow(path=(0, 2), times_s=()),)}, "does not follow the cables"),
        ({"flows": (Flow(path=(0, 1), times_s=()),) * 2}, "two paths from 0 to 1"),
        ({"cables": ((0, 1), (1, 0))}, "two cables join"),
        ({"slots": 0}, "0 slots"),
        ({"avoidance": "hope"}, "avoidance 'hope'"),
    ],
)
def test_a_plan_that_cannot_be_says_why(change: dict[str, object], words: str) -> None:
    whole: dict[str, object] = {"routers": 3, "cables": ((0, 1), (1, 2)), "flows": ()}
    with pytest.raises(InputError, match=words):
        RouterPlan(**(whole | change))  # type: ignore[arg-type]
