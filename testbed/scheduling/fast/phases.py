"""All-to-all on tori whose sides are the same power of two, by arithmetic: as many frames as the fullest link has
transfers.

On a ring of n, seen modulo h = n / 2, the shorter arcs from p over d and from p + d over h - d, each twice, go once
round it. So the pairs {p, p + d} of a matching of steps d are blocks: in a frame every row is gone round by one block's
arcs, and the messages turn into the columns of that block. There are n / 2 matchings a dimension: two for each d below
h / 2, one for h / 2, and one in which antipodal arcs of even places stand next to messages that stay in their column,
of odd ones; the other way round, antipodal arcs are those of odd places. A frame takes a matching in each dimension,
the blocks whose numbers have one sum modulo n / 4, so that each row has one block, and two opposite ways of going, the
second with the next sum, so that no host sends or receives twice (from n = 8 on). Frames: n^(dimensions + 1) / 8, the
load. Phases of that number are known since the 1990s (Tseng and others; Coolsaet and Fack 1994); these keep to
dimension order and need no parts of messages.
"""

import math
import re

import numpy as np

from testbed.arrays import IntArray
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies.routing_tables import equal_powers


def torus_phases(traffic: Traffic) -> Schedule | None:
    """A schedule of what goes over ``topologies.routing_tables.balanced_parts``, to be checked; None on other
    networks."""
    shape = traffic.symmetry_shape
    if not shape or not equal_powers(shape) or not len(traffic.ends):
        return None
    node = re.compile(r"\d+")
    known = {
        name: [int(part) for part in node.findall(name)]
        for pair in set(traffic.ends)
        for name in pair
    }
    part = np.arange(len(traffic)) // (len(traffic) // traffic.parts)
    source, sink = (
        np.array([known[pair[end]] for pair in traffic.ends]) + part[:, None] for end in (0, 1)
    )
    side, frame = shape[0], part.astype(np.int64)
    blocks = np.zeros(len(traffic), dtype=np.int64)
    first_up = np.zeros(len(traffic), dtype=bool)
    for dimension in range(len(shape)):
        matching, block, up = _on_ring(source[:, dimension] % side, sink[:, dimension] % side, side)
        if dimension == 0:
            first_up = up
        else:
            frame = frame * 2 + (up == first_up)
        frame, blocks = frame * (side // 2) + matching, blocks + block
    frame = frame * (side // 4) + (blocks + ~first_up) % (side // 4)
    frames = np.unique(frame, return_inverse=True)[1].astype(np.int32)
    return Schedule.of(
        frames, traffic.bottleneck_load, method="liquid", detail="phases of the torus"
    )


def _on_ring(source: IntArray, sink: IntArray, side: int) -> tuple[IntArray, IntArray, IntArray]:
    """(matching, block, whether it goes up) of each message's arc; arcs of 0 and of half the ring have the matching 0.

    A matching of steps d: along the circle p, p + d, ... modulo h, begun at p modulo gcd(d, h), every second step.
    """
    half = side // 2
    ahead = (sink - source) % side
    turned = ahead % half == 0
    up = np.where(turned, (source % 2 == 0) == (ahead == half), ahead < half)
    length = np.where(up, ahead, side - ahead) % half
    step = np.minimum(length, half - length)
    short = length == step
    begin = np.where(short == up, source, sink) % half
    matching, block = np.zeros_like(source), begin // 2
    for d in range(1, half // 2 + 1):
        circle = math.gcd(d, half)
        unit = half // circle
        inverse = pow(d // circle, -1, unit)
        place = begin // circle * inverse % unit
        own = ~turned & (step == d)
        odd = place % 2 if 2 * d < half else 0
        matching = np.where(own, 2 * d - 1 + odd, matching)
        block = np.where(own, begin % circle * (unit // 2) + place // 2, block)
    return matching, block, up
