"""Play-out goes on where the way grows for good by the playback time or more, or where this end's clock is set."""

from __future__ import annotations

import pytest

from fec.protocol import probation
from fec.protocol.probation import LATE_BLOCKS
from fec.protocol.receiver_types import BlockUndecodable, Event, PlayoutMoved, SourceDelivered
from tests.helpers.delay_loop import DelayLoop, build_receiver, build_sender

AT_S, END_S = 1.0, 3.6
M, RATE = 20, 1000


def stream(later_s: float, *, for_s: float = 9.0, lost: bool = False) -> DelayLoop:
    """``later_s``: what a packet sent since AT_S takes longer."""
    loop = DelayLoop(build_sender(block_size=24, base=24), build_receiver())

    def forward(packet, at):
        if lost and at >= AT_S and packet.symbol % 3 == 0:
            return ()
        return (0.01 + (later_s if AT_S <= at < AT_S + for_s else 0.0),)

    loop.forward = forward
    loop.run_until(END_S)
    return loop


def moved(loop: DelayLoop) -> list[PlayoutMoved]:
    return [event for event in loop.events if isinstance(event, PlayoutMoved)]


def undecodable(loop: DelayLoop) -> int:
    return sum(isinstance(event, BlockUndecodable) for event in loop.events)


@pytest.mark.parametrize("later_s", [0.39, 0.41, 0.6, 2.0])
def test_permanent_delay_costs_only_late_blocks_and_those_in_transit(
    later_s: float,
) -> None:
    loop = stream(later_s)
    assert LATE_BLOCKS <= undecodable(loop) <= LATE_BLOCKS + 4
    (found,) = moved(loop)
    assert found.later_s == pytest.approx(later_s, abs=0.002)
    assert loop.receiver.counters["playout_moved"] == 1 and loop.receiver.counters["restarts"] == 0
    assert (
        loop.receiver.counters["decoded_blocks"]
        >= (END_S - later_s) * RATE / M - undecodable(loop) - 5
    )


def test_without_that_every_block_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probation, "LATE_BLOCKS", 10**9)
    assert undecodable(stream(0.6)) >= (END_S - AT_S - 0.7) * RATE / M


@pytest.mark.parametrize("jump_s", [3.0, -3.0])
def test_a_clock_that_is_set_costs_a_few_blocks(jump_s: float) -> None:
    sender, receiver, lost = build_sender(block_size=24, base=24), build_receiver(), 0
    for step in range(3000):
        now = 10 + step / 1000
        local = now + (jump_s if step >= 1000 else 0.0)
        for packet in sender.packets_due(now - 10, 100):
            lost += sum(
                isinstance(event, BlockUndecodable)
                for event in receiver.receive(packet.data, local)
            )
    assert lost <= LATE_BLOCKS + 4
    assert receiver.counters["playout_moved"] == (jump_s > 0)
    assert receiver.counters["decoded_blocks"] >= 3000 / M - lost - 3


def test_a_delay_that_passes_and_blocks_that_are_lost_move_nothing() -> None:
    assert (
        moved(stream(0.3)) == moved(stream(0.0, lost=True)) == moved(stream(0.6, for_s=0.1)) == []
    )


def handed_on(events: list[Event]) -> list[tuple[int, float]]:
    return [(event.index, event.at_s) for event in events if isinstance(event, SourceDelivered)]


# Blocks of 2 packets take most of the time. The receiver that stood still below has them, too.
@pytest.mark.parametrize("m", [pytest.param(2, marks=pytest.mark.long), 20, 60])
@pytest.mark.parametrize(
    "jump_s",
    [
        *(-3600.0, -0.2, 0.2, 0.39, 0.6, 3600.0),
        *(pytest.param(jump_s, marks=pytest.mark.long) for jump_s in (-3.0, 3.0, 10.0)),
    ],
)
@pytest.mark.parametrize("ways_s", [(0.002, 0.002), (0.002, 0.03)])
def test_a_clock_that_is_set_has_nothing_handed_on_twice(
    m: int, jump_s: float, ways_s: tuple[float, float]
) -> None:
    sender, receiver = (
        build_sender(block_size=m + 2, base=m + 2, source_packets=m),
        build_receiver(source_packets=m),
    )
    flying, events = list[tuple[float, bytes]](), list[Event]()
    for step in range(2500):
        now = step / RATE
        flying += [
            (now + ways_s[packet.label >> 15], packet.data) for packet in sender.packets_due(now)
        ]
        local = now + (jump_s if step >= 1007 else 0.0)
        for at, data in sorted(flying):
            if at <= now:
                events += receiver.receive(data, local) + receiver.receive(data, local)
        flying = [packet for packet in flying if packet[0] > now]
        events += receiver.advance(local)
    indexes = [index for index, _ in handed_on(events)]
    assert len(indexes) == len(set(indexes)) > 1500 and receiver.counters["restarts"] == 0


@pytest.mark.parametrize("m", [2, 20, 60])
@pytest.mark.parametrize("still_s", [0.1, 0.45, 1.0, 3.0, 6.0])
def test_a_receiver_that_stood_still_hands_on_nothing_after_its_deadline(
    m: int, still_s: float
) -> None:
    sender, receiver = (
        build_sender(block_size=m + 2, base=m + 2, source_packets=m),
        build_receiver(source_packets=m),
    )
    waiting, events, end = list[bytes](), list[Event](), int((still_s + 2) * RATE)
    for step in range(end):
        now = step / RATE
        waiting += [packet.data for packet in sender.packets_due(now)]
        if not 1.007 <= now < 1.007 + still_s:
            for data in waiting:
                events += receiver.receive(data, now)
            waiting.clear()
    playback_s = receiver.parameters.playback_s
    found = dict(handed_on(events))
    assert len(found) == len(handed_on(events)) == receiver.counters["delivered"]
    assert max(at_s - index // m * m / RATE for index, at_s in found.items()) <= playback_s + 1e-6
    first = int((1.007 + still_s) * RATE)
    assert all(index in found for index in (*range(1007), *range(first, end - 1)))
    assert receiver.counters["restarts"] == receiver.counters["playout_moved"] == 0
