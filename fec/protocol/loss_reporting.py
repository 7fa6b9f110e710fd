"""Decides when a receiver sends a loss report, and what the report contains.

A report contains the symbols of the latest blocks, totals, and the counts of the paths. The module
has no clock: the caller gives the time.
"""

import math
from collections import Counter

from fec.protocol.framing import BLOCK_NUMBERS, Seal, signed
from fec.protocol.loss_report import MAX_BLOCKS, LossReport, most_blocks
from fec.protocol.path_counts import PathArrivals
from fec.protocol.receiver_types import ReceiverParameters

# After an alarm (see ``LossReporter.alarm``), reports are sent at the urgent rate for this time, in
# seconds.
_ALERT_S = 0.3

# Number of blocks that a report lists if the paths have equal delays.
USUAL_BLOCKS = 30

# Modulus of time stamps and counters.
STAMPS = 1 << 32

# Mask of the 32 bits of a field.
_WORD = STAMPS - 1


class LossReporter:
    """Builds the loss reports of a receiver.

    If packets have arrived, a report is due every ``report_interval_s``, and sooner after
    ``report_packets`` packets. After an alarm, it is due ``urgent_s`` after the previous one.

    The receiver updates ``waiting`` and ``recent`` itself, because this is done for every packet.

    Attributes:
        waiting: Number of packets since the last report.
        recent: Number -> bitmap of the received symbols of each of the latest blocks, in order.
        paths: The counts of the paths.
        blocks_apart: Number of older blocks that a report lists in addition to the usual ones,
            because their packets may still arrive over slower paths.
        urgent: An alarm was raised since the last report.

    >>> reporter = LossReporter(ReceiverParameters(source_packets=20, symbol_bytes=256))
    >>> reporter.waiting, reporter.due(5.0)
    (0, False)
    >>> reporter.waiting = 1
    >>> reporter.due(5.0)
    True
    >>> _ = reporter.report(
    ...     5.0, newest_us=0, newest_at_s=5.0, highest=0, received=1, totals=Counter()
    ... )
    >>> reporter.waiting, reporter.next_s()
    (0, inf)
    """

    def __init__(
        self, parameters: ReceiverParameters, session: int = 0, seal: Seal | None = None
    ) -> None:
        self._parameters = parameters
        self._session = session
        self._seal = seal
        self.recent: dict[int, int] = {}
        self.paths = PathArrivals()
        self.waiting = 0
        self.blocks_apart = 0
        self.urgent = False
        self._last_s = -math.inf
        self._alert_until_s = -math.inf
        self._last_number: int | None = None

    def alarm(self, now_s: float) -> None:
        """Make the next report urgent, because a block cannot be decoded.

        More of its packets are missing than its parity packets can repair.
        """
        self.urgent = True
        self._alert_until_s = now_s + _ALERT_S

    def note(self, number: int, bits: int, highest: int) -> None:
        """Add symbols of a block to the next reports, if it is one of the latest blocks.

        Args:
            number: Number of the block.
            bits: Bitmap of the symbols.
            highest: Number of the newest of the other blocks.
        """
        recent = self.recent
        if number in recent:
            recent[number] |= bits
        elif number > max(-1, highest - MAX_BLOCKS):
            later: list[int] = []
            if recent and next(reversed(recent)) > number:
                later = [n for n in recent if n > number]
            recent[number] = bits
            # Later blocks move behind this one, to keep the order of the numbers.
            for n in later:
                recent[n] = recent.pop(n)
            oldest = max(highest, number) - MAX_BLOCKS
            while (first := next(iter(recent))) <= oldest:
                del recent[first]

    def next_s(self) -> float:
        """Return when the next report is due if no packet arrives, or infinity for none."""
        if not self.waiting:
            return math.inf
        return self._last_s + self._interval_s()

    def due(self, now_s: float) -> bool:
        """Return whether a report is due now."""
        if not self.waiting:
            return False
        # If the clock was set back, a report is due.
        early = self._last_s <= now_s < self._last_s + self._interval_s()
        return not early or self.waiting >= self._parameters.report_packets

    def report(
        self,
        now_s: float,
        *,
        newest_us: int,
        newest_at_s: float,
        highest: int,
        received: int,
        totals: Counter[str],
    ) -> bytes:
        """Return an encoded loss report, and begin the next interval.

        Args:
            now_s: Time at the receiver, in seconds.
            newest_us: The newest time stamp received, on the sender's clock.
            newest_at_s: Time of its arrival, on the receiver's clock.
            highest: The highest block number received; -1 for none.
            received: Number of packets received.
            totals: Counters of the receiver, in which the report is counted.
        """
        if self.urgent:
            totals["urgent_reports"] += 1
        totals["reports"] += 1
        block_limit = min(USUAL_BLOCKS + self.blocks_apart, most_blocks(self.recent.values()))
        blocks = []
        for number, bitmap in list(self.recent.items())[-block_limit:]:
            blocks.append((number % BLOCK_NUMBERS, bitmap))
        report = LossReport(
            stream_id=self._parameters.stream_id,
            number=self._next_number(newest_us),
            newest_us=newest_us % STAMPS,
            newest_age_us=min(_WORD, max(0, int((now_s - newest_at_s) * 1e6))),
            highest_block=max(0, highest) % BLOCK_NUMBERS,
            received=received & _WORD,
            decoded_blocks=totals["decoded_blocks"] & _WORD,
            undecodable_blocks=totals["undecodable_blocks"] & _WORD,
            unused_parity=totals["unused_parity"] & _WORD,
            blocks=tuple(blocks),
            paths=self.paths.entries(),
            session=self._session,
        )
        self.waiting = 0
        self._last_s = now_s
        self.urgent = False
        return report.encode(self._seal)

    def _next_number(self, newest_us: int) -> int:
        """Return the number of the next report.

        It is the newest time stamp, or one more than the last number if the time stamp is not
        greater. Numbers therefore increase even across a restart of the receiver, because the
        sender's clock continues.
        """
        number = newest_us & _WORD
        last = self._last_number
        if last is not None and signed(number - last, STAMPS) <= 0:
            number = (last + 1) & _WORD
        self._last_number = number
        return number

    def _interval_s(self) -> float:
        """Return the current time from one report to the next."""
        if self.urgent or self._last_s < self._alert_until_s:
            return min(self._parameters.urgent_s, self._parameters.report_interval_s)
        return self._parameters.report_interval_s
