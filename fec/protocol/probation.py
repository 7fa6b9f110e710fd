"""Which packets a receiver believes: a schedule that no block may be far ahead of, and a probation for packets of
another sequence.

After RFC 3550, appendix A.1 (MAX_DROPOUT, MAX_MISORDER, MIN_SEQUENTIAL): a packet that does not continue the sequence
followed is not believed until several that agree in number and in time have come. Here the sequence followed wins as
long as it goes on; it is left only when it has been silent for a while.
"""

import math
from typing import Any

AGREEING = 8
"""Packets by which those that agree must outnumber other strays before another sequence is followed."""
SILENT_BLOCKS = 1.5
"""Times of a block, or of eight source packets, for which the sequence followed must have been silent by then."""
NEAR_BLOCKS = 64
"""Between packets that agree."""
NEAR_S = 2.5
"""Between the times on the way of packets that agree."""
EARLY_BLOCKS = 30
"""How far ahead a block may be while the schedule is not known yet."""
CLOCK_JUMP_S = 5.0
"""A packet that seems to have been sent this much later than it arrived, or a playback time and this much earlier, is
not of this stream's clock, until several agree."""
QUICKER = 1 / 3
"""Of the playback time: by so much less than usual a single packet can shorten the way."""
STEP = 1 / 16
"""Of that, by which what is usual follows, a block."""
RESTART_PLAYBACKS = 4
"""So many playback times behind, a packet is taken for one of a sender that was started again; and for so long the
sequence followed must have been silent before a session that was left is followed again."""
SESSIONS_LEFT = 16
"""The latest ones that were left: what is still under way of them is not mistaken for a sender started again."""
LATE_BLOCKS = 8
"""That came whole but too late, on end, before the play-out clock is set again."""
_LATER = 1 / 8
"""Of the playback time, by which all that came late must have been later than usual: late parity is not."""
EARLY_PERIODS, RATE_SLACK, ODD = 2.5, 0.1, 3
"""Of a schedule: blocks' time that a packet may be early by, a share of the way there more, and how many packets on end
that are out of time are believed."""


FIRST_BLOCK, FIRST_US, LAST_BLOCK, LAST_US, PERIOD_US, ODD_ONES = range(6)
"""Of a schedule's ``state``: the first and the last block of which half had come, and when; -1 where there is none, and
where no period is known; how many on end were out of time."""
_NOTHING = (-1.0, 0.0, 0.0, 0.0, -1.0, 0.0)


def half_arrived(state: Any, block: int, stamp_us: int) -> None:
    """See ``Schedule``; compiled code has a state of its own."""
    if state[FIRST_BLOCK] < 0:
        state[FIRST_BLOCK], state[FIRST_US], state[LAST_BLOCK], state[LAST_US] = (
            block,
            stamp_us,
            block,
            stamp_us,
        )
    elif block > state[LAST_BLOCK]:
        odd = False
        if state[PERIOD_US] >= 0:
            usual_us = state[LAST_US] + state[PERIOD_US] * (block - state[LAST_BLOCK])
            odd = abs(stamp_us - usual_us) > usual_us - earliest_us(state, block)
        state[ODD_ONES] = state[ODD_ONES] + 1 if odd else 0
        if not 0 < state[ODD_ONES] < ODD:
            state[LAST_BLOCK], state[LAST_US] = block, stamp_us
            state[PERIOD_US] = max(0.0, (stamp_us - state[FIRST_US]) / (block - state[FIRST_BLOCK]))


def earliest_us(state: Any, block: int) -> float:
    """See ``Schedule``."""
    if state[PERIOD_US] < 0:
        return -math.inf
    ahead, blocks, period_us = (
        block - state[LAST_BLOCK],
        state[LAST_BLOCK] - state[FIRST_BLOCK],
        state[PERIOD_US],
    )
    if ahead > 0:
        period_us = period_us * blocks / (blocks + 1)
    return float(state[LAST_US] + period_us * (ahead - abs(ahead) * RATE_SLACK - EARLY_PERIODS))


class Schedule:
    """When blocks are sent, by the time stamps of the packets with which half the source packets of each had come.

    A sender sends nothing before its time, and the network does not change stamps: what is stamped too early for its
    block is forged or of another sequence. ``state``: where it is kept, by default a list of its own.

    >>> schedule = Schedule()
    >>> schedule.earliest_us(7)
    -inf
    >>> schedule.half_arrived(0, 10_000), schedule.half_arrived(10, 210_000)
    (None, None)
    >>> round(schedule.earliest_us(60))
    982727
    """

    def __init__(self, state: Any = None) -> None:
        self._state = [0.0] * len(_NOTHING) if state is None else state
        self._state[:] = _NOTHING

    @property
    def confirmed(self) -> bool:
        """Half a block has come: more than a stray packet."""
        return bool(self._state[FIRST_BLOCK] >= 0)

    @property
    def period_us(self) -> float | None:
        """None where it is not known."""
        period_us = float(self._state[PERIOD_US])
        return None if period_us < 0 else period_us

    def half_arrived(self, block: int, stamp_us: int) -> None:
        """Half the symbols of a block that it takes are there; the last of them was sent then. One that is out of time
        is not believed, but the third of them in a row is."""
        half_arrived(self._state, block, stamp_us)

    def earliest_us(self, block: int) -> float:
        """No packet of the block is stamped earlier: two and a half blocks' time of slack, and a tenth of the time from
        here to there.

        The time of a block is known to one block's time over all blocks so far: ahead counts the shortest that it can
        be.
        """
        return earliest_us(self._state, block)

    def may_begin(self, block: int, highest: int, stamp_us: int) -> bool:
        """Whether a block later than all before, of which ``highest`` is the last (-1: none), can have begun by
        then."""
        if self.period_us is None:
            return highest < 0 or block <= highest + EARLY_BLOCKS
        return stamp_us >= self.earliest_us(block)

    def silent_s(self, source_packets: int) -> float:
        """For how long nothing must have come before another sequence is followed."""
        return max(SILENT_BLOCKS, AGREEING / source_packets) * (self.period_us or 0.0) / 1e6


class LateBlocks:
    """Blocks that came whole after their deadlines, with none in time between them: the way has grown for good, or this
    end's clock was set. Those that come more than twice as quickly as they were sent only waited, for an end that
    stood still or in a queue, and tell nothing of those behind them.

    >>> late = LateBlocks(playback_s=0.4)
    >>> [late.arrived(True, 0.5, 0.0, k / 8) for k in range(8)]
    [None, None, None, None, None, None, None, 0.5]
    >>> late.in_time()
    >>> any(late.arrived(True, 0.9 - k / 10, 0.0, 1.0) for k in range(8))
    False
    """

    def __init__(self, *, playback_s: float) -> None:
        self._least_later_s = playback_s * _LATER
        self.in_time()

    def in_time(self) -> None:
        """A block was complete before its deadline."""
        self.count, self._least_s, self._first_s = 0, math.inf, math.inf
        self._first_sent_s, self._last_sent_s = math.inf, -math.inf

    def arrived(self, whole: bool, transit_s: float, usual_s: float, now_s: float) -> float | None:
        """A packet of a block that is over, and whether it makes it whole: by how much the clock must be set later,
        once that is sure. ``usual_s``: the shortest time on the way, as it was."""
        self.count += whole
        self._least_s, self._first_s = min(self._least_s, transit_s), min(self._first_s, now_s)
        self._first_sent_s = min(self._first_sent_s, now_s - transit_s)
        self._last_sent_s = max(self._last_sent_s, now_s - transit_s)
        later_s = self._least_s - usual_s
        waited = 2 * (now_s - self._first_s) < self._last_sent_s - self._first_sent_s
        return (
            later_s
            if self.count >= LATE_BLOCKS and later_s > self._least_later_s and not waited
            else None
        )


class Probation:
    """Counts packets that agree with one another and not with the sequence followed.

    >>> probation = Probation()
    >>> [probation.agreed((0, 70_000, k), 1000 * k, k / 1000, -math.inf, 0.0) for k in range(8)].count(True)
    1
    """

    def __init__(self) -> None:
        self._votes = 0
        self._session = self._block = self._symbol = self._stamp_us = 0
        self._transit_s = self.began_s = 0.0

    def agreed(
        self,
        packet: tuple[int, int, int],
        stamp_us: int,
        now_s: float,
        alive_s: float,
        silent_s: float,
    ) -> bool:
        """Whether this stray packet (session, block, symbol) is the one that turns the scale. ``alive_s``: when the
        sequence followed last went on; it must have been silent for ``silent_s``."""
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
        elif self._votes and (
            stamp_us < self._stamp_us or (block, symbol) == (self._block, self._symbol)
        ):
            return False  # overtaken, or one packet again and again
        if not self._votes:
            self.began_s = now_s
        self._votes += 1
        self._session, self._block, self._symbol, self._stamp_us = session, block, symbol, stamp_us
        self._transit_s = transit_s
        return self._votes >= AGREEING and now_s - alive_s >= silent_s
