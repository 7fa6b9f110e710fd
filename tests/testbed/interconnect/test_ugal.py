"""UGAL-L between minimal routing and Valiant: its rule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.oracles.interconnect.reference_parts import Packet
from tests.oracles.interconnect.relation_routing import RelationRouting

LANES, SLOTS = 4, 8


def goes_round(
    straight: tuple[int, range], over: tuple[int, range], room: dict[tuple[int, int], int]
) -> bool:
    """What the rule says for a packet two hops from its destination and four by way of its detour; ``room``: of (link,
    lane)."""

    def of(link: int, lanes: range) -> int:
        return sum(room.get((link, lane), SLOTS) for lane in lanes)

    routing: Any = object.__new__(RelationRouting)
    routing.tables = SimpleNamespace(
        start_row=[0, 1, 2], hops=np.array([[0, 2, 2], [2, 0, 2], [2, 2, 0]])
    )
    routing.layout = SimpleNamespace(data_lanes=LANES, output_buffers=0)
    routing.engine = SimpleNamespace(behind=lambda link, lane: SimpleNamespace(slots=SLOTS))
    routing.room = of
    routing.best = lambda row, target, packet: (
        choice := over if target == 1 else straight,
        of(*choice),
    )
    packet: Any = Packet.__new__(Packet)
    packet.middles = [1]
    return bool(routing.goes_round(packet, 0, 2))


def test_ugal_compares_lane_queues_if_paths_share_the_first_link() -> None:
    low, high = range(0, 1), range(2, 3)
    assert not goes_round((5, high), (6, low), {})
    assert not goes_round((5, high), (6, low), {(5, 2): 0, (6, 1): 4}), (
        "8 packets times 2 hops is no more than 4 times 4"
    )
    assert goes_round((5, high), (6, low), {(5, 2): 0, (6, 1): 5})
    assert goes_round((5, high), (6, low), {(5, 1): 7}), (
        "one packet, in any lane of the link straight on"
    )
    assert goes_round((5, high), (5, low), {(5, 2): 0, (5, 0): 5})
    assert not goes_round((5, high), (5, low), {(5, 1): 0}), "a lane that neither takes"
