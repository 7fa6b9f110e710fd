"""Packets that late parity brings are still handed on in their order."""

from __future__ import annotations

import bisect
import itertools
import random

import pytest

from testbed.tunnel.ends import build_receiver, build_sender
from testbed.tunnel.plan import TunnelPlan, build_tunnel
from tests.helpers.delay_loop import DelayLoop

HOP_S = 0.004
KEY = bytes(32)


def out_of_order(plan: TunnelPlan, lossy: set[int]) -> int:
    """Of a picture's and a voice's packets, while each of those links loses every second packet: those of the picture
    that came after a later one. None is lost."""
    chance = random.Random(3)
    loop = DelayLoop(build_sender(plan, KEY), build_receiver(plan.reversed(), KEY))  # type: ignore[arg-type]
    paths = plan.there.forward.paths
    starts = [path.start for path in paths]

    def forward(label: int) -> tuple[float, ...]:
        path = paths[bisect.bisect_right(starts, label) - 1]
        crossed = any(chance.random() < 0.5 for link in path.links if link in lossy)
        return () if crossed else (HOP_S * len(path.links),)

    loop.forward = lambda packet, at: forward(packet.label)
    loop.backward = lambda way, number, at: (3 * HOP_S,)
    picture = [
        (frame / 21.3 + 0.0004 * i, 1, bytes(1300)) for frame in range(127) for i in range(5)
    ]
    offered = sorted([*picture, *((0.001 + 0.02 * k, 2, bytes(200)) for k in range(300))])
    for at, flow, payload in offered:
        loop.run_until(at)
        for packet in loop.sender.offer(payload, at, flow):  # type: ignore[attr-defined]
            loop._carry(loop.forward(packet, at), packet.data, True)
    loop.run_until(9.0)
    assert len(loop.events) == len(offered)
    numbers = [event.number for event in loop.events if event.flow == 1]  # type: ignore[union-attr]
    return sum(after < before for before, after in itertools.pairwise(numbers))


def test_a_picture_comes_in_order_though_its_packets_wait_for_late_parity() -> None:
    """Real runs over the optical cloud with 80 ms brought 192 to 205 of 213 frames as they were sent."""
    plan = build_tunnel("optical-cloud", "x1", "x11")
    loaded = sorted(plan.there.forward.loaded, key=lambda link: -plan.there.forward.load(link))
    assert out_of_order(plan, set(loaded[:2])) == 0
    short = build_tunnel("optical-cloud", "x1", "x11", order_s=0.08)
    assert out_of_order(short, set(loaded[:2])) > 0


@pytest.mark.parametrize(("playback_s", "order_s"), [(0.4, 0.16), (0.12, 0.12)])
def test_order_is_held_no_longer_than_the_playback(playback_s: float, order_s: float) -> None:
    assert build_tunnel("ring:4", "s0", "s2", playback_s=playback_s).order_s == order_s
