"""All-to-all on tori whose sides are the same power of two, by arithmetic.

The schedule has as many frames as the fullest link has transfers.

Consider a ring of n hosts modulo h = n / 2. The shorter arcs from p over the distance d, and from
p + d over the distance h - d, each twice, go once round the ring. The pairs {p, p + d} of a
matching of steps d are therefore blocks: in a frame, the arcs of one block go round every row, and
the messages turn into the columns of that block.

There are n / 2 matchings per dimension: two for each d below h / 2, one for h / 2, and one for the
antipodal arcs. In this last one, antipodal arcs of even positions go together with messages of odd
positions that stay in their column; in the other direction, antipodal arcs are those of odd
positions.

A frame has a matching in each dimension. It has the blocks whose numbers have one sum modulo n / 4,
so that each row has one block. It has two opposite directions, the second one with the next sum, so
that no host sends or receives twice (from n = 8 on). The number of frames is
n^(dimensions + 1) / 8, which is the load.

Schedules with this number of phases are known since the 1990s (Tseng and others; Coolsaet and Fack
1994). These keep to dimension order, and do not divide messages.
"""

import math
import re

import numpy as np

from testbed.arrays import BoolArray, IntArray
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies.routing_tables import equal_powers


def torus_phases(traffic: Traffic) -> Schedule | None:
    """Return a schedule of all-to-all on a torus; the caller must check it.

    The routes must be those of ``topologies.routing_tables.balanced_parts``.

    Returns:
        The schedule, or None if the network is no torus with sides of one power of two.
    """
    shape = traffic.symmetry_shape
    if not shape or not equal_powers(shape) or not len(traffic.ends):
        return None
    side = shape[0]
    # ``balanced_parts`` breaks ties by the parity of position plus part. Part k is therefore routed
    # like a message between hosts that are k positions further.
    part = np.arange(len(traffic)) // (len(traffic) // traffic.parts)
    sources, sinks = _coordinates(traffic)
    sources = (sources + part[:, None]) % side
    sinks = (sinks + part[:, None]) % side
    frame = part.astype(np.int64)
    block_sum = np.zeros(len(traffic), dtype=np.int64)
    first_up = np.zeros(len(traffic), dtype=bool)
    for dimension in range(len(shape)):
        matching, block, up = _on_ring(sources[:, dimension], sinks[:, dimension], side)
        if dimension == 0:
            first_up = up
        else:
            same_direction = up == first_up
            frame = frame * 2 + same_direction
        frame = frame * (side // 2) + matching
        block_sum = block_sum + block
    frame = frame * (side // 4) + (block_sum + ~first_up) % (side // 4)
    _, frame_of = np.unique(frame, return_inverse=True)
    return Schedule.of(
        frame_of.astype(np.int32),
        traffic.bottleneck_load,
        method="liquid",
        detail="phases of the torus",
    )


def _coordinates(traffic: Traffic) -> tuple[IntArray, IntArray]:
    """Return the coordinates of each transfer's source and sink, shape (transfers, dimensions)."""
    number = re.compile(r"\d+")
    coordinates: dict[str, list[int]] = {}
    for source, sink in set(traffic.ends):
        for name in (source, sink):
            coordinates[name] = [int(text) for text in number.findall(name)]
    sources = np.array([coordinates[source] for source, _ in traffic.ends])
    sinks = np.array([coordinates[sink] for _, sink in traffic.ends])
    return sources, sinks


def _on_ring(source: IntArray, sink: IntArray, side: int) -> tuple[IntArray, IntArray, BoolArray]:
    """Assign the arc of each message to a matching and a block.

    Arcs of length 0 and of half the ring have the matching 0. A matching of steps d goes along the
    cycle p, p + d, ... modulo h, beginning with p modulo gcd(d, h), and takes every second step.

    Args:
        source: Position of each source on the ring.
        sink: Position of each sink.
        side: Number of positions.

    Returns:
        The matching, the block, and whether the message goes up.
    """
    half = side // 2
    ahead = (sink - source) % side
    no_shorter_way = ahead % half == 0
    up = np.where(no_shorter_way, (source % 2 == 0) == (ahead == half), ahead < half)
    length = np.where(up, ahead, side - ahead) % half
    step = np.minimum(length, half - length)
    is_short = length == step
    begin = np.where(is_short == up, source, sink) % half
    matching = np.zeros_like(source)
    block = begin // 2
    for d in range(1, half // 2 + 1):
        of_this_step = ~no_shorter_way & (step == d)
        position, block_of_step = _position_on_cycle(begin, d, half)
        # Only one matching has the step of a quarter of the ring.
        odd = position % 2 if 2 * d < half else 0
        matching = np.where(of_this_step, 2 * d - 1 + odd, matching)
        block = np.where(of_this_step, block_of_step, block)
    return matching, block, up


def _position_on_cycle(begin: IntArray, d: int, half: int) -> tuple[IntArray, IntArray]:
    """Return the position of each arc on its cycle of steps d, and the number of its block.

    Args:
        begin: Position where each arc begins, modulo half the ring.
        d: Length of the steps.
        half: Half the number of positions of the ring.
    """
    cycles = math.gcd(d, half)
    cycle_length = half // cycles
    inverse = pow(d // cycles, -1, cycle_length)
    position = begin // cycles * inverse % cycle_length
    return position, begin % cycles * (cycle_length // 2) + position // 2
