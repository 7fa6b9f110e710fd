"""Decides which packets a receiver accepts.

A block may not be far ahead of a schedule that the receiver learns. Packets of another sequence are
on probation: as in RFC 3550, appendix A.1 (MAX_DROPOUT, MAX_MISORDER, MIN_SEQUENTIAL), packets that
do not continue the current sequence are rejected until several of them agree in number and time.
Here, a new sequence is accepted only after the current one has been silent for a while.
"""

import math
from typing import Any

# The packets of a new sequence must outnumber other unexpected packets by this number before the
# sequence is accepted.
AGREEING = 8

# Before another sequence is accepted, no packet of the current one may have arrived for the time of
# this number of blocks, and of AGREEING source packets.
SILENT_BLOCKS = 1.5

# Maximum distance between the blocks of packets that agree.
NEAR_BLOCKS = 64

# Maximum difference between the transit times of packets that agree.
NEAR_S = 2.5

# Maximum number of blocks by which a block may be ahead while the schedule is unknown.
EARLY_BLOCKS = 30

# A packet is rejected if it seems to have been sent this much after its arrival, or the playback
# buffer and this much before it. Several packets that agree are accepted.
CLOCK_JUMP_S = 5.0

# A single packet can reduce the smallest known transit time by at most this share of the playback
# buffer.
QUICKER = 1 / 3

# The usual transit time follows the observed one. Once per block it rises or falls by this share of
# the limit for single packets (``QUICKER``).
STEP = 1 / 16

# A packet that is this number of playback buffers behind is from a sender that restarted. For the
# same time, the current sequence must be silent before an earlier session is accepted again.
RESTART_PLAYBACKS = 4

# Number of earlier sessions that a receiver remembers. Their packets that are still in transit are
# not mistaken for those of a sender that restarted.
SESSIONS_LEFT = 16

# Playback is delayed after this number of blocks in a row that were complete but too late.
LATE_BLOCKS = 8

# All packets of these blocks must have been later than usual by this share of the playback buffer.
# Late parity is not.
_LATER = 1 / 8

# A packet may be earlier than its schedule by this number of block periods, and by this share of
# the time to its block.
EARLY_PERIODS = 2.5
RATE_SLACK = 0.1

# The schedule is corrected after this number of blocks in a row that contradict it.
ODD = 3

# The state of a schedule: the first and the last block of which half the packets had arrived, the
# time stamps of both, the period of blocks, and the number of blocks in a row that contradict the
# schedule. -1 stands for no block, and for an unknown period.
FIRST_BLOCK, FIRST_US, LAST_BLOCK, LAST_US, PERIOD_US, ODD_ONES = range(6)
_INITIAL_STATE = (-1.0, 0.0, 0.0, 0.0, -1.0, 0.0)


def half_arrived(state: Any, block: int, stamp_us: int) -> None:
    """Update the state of a schedule (see ``Schedule.half_arrived``)."""
    if state[FIRST_BLOCK] < 0:
        state[FIRST_BLOCK] = block
        state[FIRST_US] = stamp_us
        state[LAST_BLOCK] = block
        state[LAST_US] = stamp_us
    elif block > state[LAST_BLOCK]:
        contradicts = False
        if state[PERIOD_US] >= 0:
            planned_us = state[LAST_US] + state[PERIOD_US] * (block - state[LAST_BLOCK])
            tolerance_us = planned_us - earliest_us(state, block)
            contradicts = abs(stamp_us - planned_us) > tolerance_us
        if contradicts:
            state[ODD_ONES] += 1
        else:
            state[ODD_ONES] = 0
        if state[ODD_ONES] == 0 or state[ODD_ONES] >= ODD:
            state[LAST_BLOCK] = block
            state[LAST_US] = stamp_us
            state[PERIOD_US] = max(0.0, (stamp_us - state[FIRST_US]) / (block - state[FIRST_BLOCK]))


def earliest_us(state: Any, block: int) -> float:
    """Return the earliest time stamp of a block (see ``Schedule.earliest_us``)."""
    if state[PERIOD_US] < 0:
        return -math.inf
    ahead = block - state[LAST_BLOCK]
    observed = state[LAST_BLOCK] - state[FIRST_BLOCK]
    period_us = state[PERIOD_US]
    if ahead > 0:
        # The shortest period that agrees with the observed blocks.
        period_us = period_us * observed / (observed + 1)
    return float(state[LAST_US] + period_us * (ahead - abs(ahead) * RATE_SLACK - EARLY_PERIODS))


class Schedule:
    """The times at which blocks are sent, learnt from the time stamps of packets.

    The time of a block is the time stamp of the packet with which half of its source packets have
    arrived. A sender sends no packet before its time, and the network does not change time stamps.
    A packet whose time stamp is too early for its block is therefore forged or of another sequence.

    Args:
        state: Memory of the state; a list by default. Compiled code shares it.

    >>> schedule = Schedule()
    >>> schedule.earliest_us(7)
    -inf
    >>> schedule.half_arrived(0, 10_000), schedule.half_arrived(10, 210_000)
    (None, None)
    >>> round(schedule.earliest_us(60))
    982727
    """

    def __init__(self, state: Any = None) -> None:
        self._state = [0.0] * len(_INITIAL_STATE) if state is None else state
        self._state[:] = _INITIAL_STATE

    @property
    def confirmed(self) -> bool:
        """True once half the source packets of a block have arrived.

        A single unexpected packet is not sufficient.
        """
        return bool(self._state[FIRST_BLOCK] >= 0)

    @property
    def period_us(self) -> float | None:
        """Time from one block to the next; None if it is unknown."""
        period_us = float(self._state[PERIOD_US])
        return None if period_us < 0 else period_us

    def half_arrived(self, block: int, stamp_us: int) -> None:
        """Learn from a block of which half the source packets have arrived.

        A block that contradicts the schedule is ignored, but the third one in a row is not.

        Args:
            block: Number of the block.
            stamp_us: Time stamp of the last of these packets.
        """
        half_arrived(self._state, block, stamp_us)

    def earliest_us(self, block: int) -> float:
        """Return the earliest time stamp that a packet of the block can have.

        The tolerance is two and a half block periods and a tenth of the time to the block. The
        uncertainty of the period is one period over all blocks so far, so the shortest possible
        period is used for later blocks.
        """
        return earliest_us(self._state, block)

    def may_begin(self, block: int, highest: int, stamp_us: int) -> bool:
        """Return whether a new block can have begun.

        Args:
            block: Number of the block, later than all earlier ones.
            highest: The latest block so far; -1 for none.
            stamp_us: Time stamp of the packet.
        """
        if self.period_us is None:
            return highest < 0 or block <= highest + EARLY_BLOCKS
        return stamp_us >= self.earliest_us(block)

    def silent_s(self, source_packets: int) -> float:
        """Return how long the current sequence must be silent before another one is accepted.

        Args:
            source_packets: M, the number of source packets of a block.

        Returns:
            Seconds; 0 while the period of blocks is unknown.
        """
        return max(SILENT_BLOCKS, AGREEING / source_packets) * (self.period_us or 0.0) / 1e6


class LateBlocks:
    """Decides by how much to delay playback, by blocks in a row that are complete too late.

    Such blocks show that the delay of the paths has grown permanently, or that the receiver's clock
    was set. However, packets that arrive more than twice as fast as they were sent have only waited
    in a queue, or for a receiver that stalled. They are no reason to delay playback.

    Args:
        playback_s: The playback buffer.

    >>> late = LateBlocks(playback_s=0.4)
    >>> [late.arrived(True, 0.5, 0.0, k / 8) for k in range(8)]
    [None, None, None, None, None, None, None, 0.5]
    >>> late.in_time()
    >>> any(late.arrived(True, 0.9 - k / 10, 0.0, 1.0) for k in range(8))
    False
    """

    def __init__(self, *, playback_s: float) -> None:
        self._min_later_s = playback_s * _LATER
        self.in_time()

    def in_time(self) -> None:
        """Count again from 0, because a block was complete before its deadline."""
        self.count = 0
        self._min_transit_s = math.inf
        self._first_s = math.inf
        self._first_sent_s = math.inf
        self._last_sent_s = -math.inf

    def arrived(
        self, completes_block: bool, transit_s: float, usual_s: float, now_s: float
    ) -> float | None:
        """Count a packet of a closed block, and return by how much playback must be delayed.

        Args:
            completes_block: The block is complete with this packet.
            transit_s: Transit time of the packet.
            usual_s: Usual transit time of packets before, in seconds.
            now_s: Time at the receiver.

        Returns:
            Additional delay in seconds; None if playback need not be delayed.
        """
        if completes_block:
            self.count += 1
        sent_s = now_s - transit_s
        self._min_transit_s = min(self._min_transit_s, transit_s)
        self._first_s = min(self._first_s, now_s)
        self._first_sent_s = min(self._first_sent_s, sent_s)
        self._last_sent_s = max(self._last_sent_s, sent_s)
        later_s = self._min_transit_s - usual_s
        only_waited = 2 * (now_s - self._first_s) < self._last_sent_s - self._first_sent_s
        if self.count >= LATE_BLOCKS and later_s > self._min_later_s and not only_waited:
            return later_s
        return None


class Probation:
    """Counts packets that agree with one another, but not with the current sequence.

    Attributes:
        began_s: Time of the first of these packets.

    >>> probation = Probation()
    >>> accepted = [
    ...     probation.agreed((0, 70_000, k), 1000 * k, k / 1000, -math.inf, 0.0) for k in range(8)
    ... ]
    >>> accepted.count(True)
    1
    """

    def __init__(self) -> None:
        self._votes = 0
        # The last packet that agreed.
        self._session = 0
        self._block = 0
        self._symbol = 0
        self._stamp_us = 0
        self._transit_s = 0.0
        self.began_s = 0.0

    def agreed(
        self,
        packet: tuple[int, int, int],
        stamp_us: int,
        now_s: float,
        alive_s: float,
        silent_s: float,
    ) -> bool:
        """Count an unexpected packet, and return whether its sequence is accepted now.

        Args:
            packet: Session, block and symbol of the packet.
            stamp_us: Its time stamp.
            now_s: Time at the receiver.
            alive_s: Time at which the current sequence last continued.
            silent_s: Time for which the current sequence must have been silent.
        """
        session, block, symbol = packet
        if alive_s >= self.began_s:
            self._votes = 0
        transit_s = now_s - stamp_us * 1e-6
        near = (
            session == self._session
            and abs(block - self._block) <= NEAR_BLOCKS
            and abs(transit_s - self._transit_s) < NEAR_S
        )
        if self._votes and not near:
            self._votes -= 1
            if self._votes:
                return False
        elif self._votes:
            overtaken = stamp_us < self._stamp_us
            repeated = block == self._block and symbol == self._symbol
            if overtaken or repeated:
                return False
        if not self._votes:
            self.began_s = now_s
        self._votes += 1
        self._session = session
        self._block = block
        self._symbol = symbol
        self._stamp_us = stamp_us
        self._transit_s = transit_s
        return self._votes >= AGREEING and now_s - alive_s >= silent_s
