"""What a receiver tells the sender of losses, and when: the latest blocks' symbols, totals, the paths' counts.

No clock: the time is handed in.
"""

import math
from collections import Counter

from fec.protocol.framing import BLOCK_NUMBERS, Seal, signed
from fec.protocol.loss_report import MAX_BLOCKS, LossReport, most_blocks
from fec.protocol.path_counts import PathArrivals
from fec.protocol.receiver_types import ReceiverParameters

_ALERT_S = 0.3
"""After a block that its own packets could not repair, reports come at the urgent rate for so long."""
USUAL_BLOCKS = 30
"""The latest blocks that a report lists, where paths are equally long."""
STAMPS = 1 << 32
_WORD = STAMPS - 1


class LossReporter:
    """Due every ``report_interval_s`` or ``report_packets`` packets, and ``urgent_s`` after the last one once an alarm
    was given.

    The receiver itself counts ``waiting``, the packets since the last report, and writes into ``recent``, the bitmap of
    symbols of each of the latest blocks: that is done for every packet. ``blocks_apart``: so many more blocks are
    listed than usual, those of which packets on slower paths may still come.

    >>> reporter = LossReporter(ReceiverParameters(source_packets=20, symbol_bytes=256))
    >>> reporter.waiting, reporter.due(5.0)
    (0, False)
    >>> reporter.waiting = 1
    >>> reporter.due(5.0)
    True
    >>> _ = reporter.report(5.0, newest_us=0, newest_at_s=5.0, highest=0, received=1, totals=Counter())
    >>> reporter.waiting, reporter.next_s()
    (0, inf)
    """

    def __init__(
        self, parameters: ReceiverParameters, session: int = 0, seal: Seal | None = None
    ) -> None:
        self._parameters, self._session, self._seal = parameters, session, seal
        self.recent: dict[int, int] = {}
        self.paths = PathArrivals()
        self.waiting = self.blocks_apart = 0
        self.urgent = False
        self._last_s = self._alert_until_s = -math.inf
        self._last_number: int | None = None

    def alarm(self, now_s: float) -> None:
        """A block cannot be repaired by what was sent of it."""
        self.urgent, self._alert_until_s = True, now_s + _ALERT_S

    def note(self, number: int, bits: int, highest: int) -> None:
        """Have a block's symbols in the next reports, if it is among the latest; ``highest``: the newest block but for
        this one."""
        recent = self.recent
        if number in recent:
            recent[number] |= bits
        elif number > max(-1, highest - MAX_BLOCKS):
            later = (
                [n for n in recent if n > number]
                if recent and next(reversed(recent)) > number
                else []
            )
            recent[number] = bits
            for n in later:  # behind it: they stand in the order of their numbers
                recent[n] = recent.pop(n)
            oldest = max(highest, number) - MAX_BLOCKS
            while (first := next(iter(recent))) <= oldest:
                del recent[first]

    def next_s(self) -> float:
        """When a report is due, whatever arrives (inf: never)."""
        return self._last_s + self._after_s() if self.waiting else math.inf

    def due(self, now_s: float) -> bool:
        """Whether one is due now."""
        early = (
            self._last_s <= now_s < self._last_s + self._after_s()
        )  # the clock may have been set back
        return bool(self.waiting) and (self.waiting >= self._parameters.report_packets or not early)

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
        """The report as things are; ``newest_us``: the latest time stamp, that came at ``newest_at_s``. ``totals`` is
        counted up."""
        if self.urgent:
            totals["urgent_reports"] += 1
        totals["reports"] += 1
        most = min(USUAL_BLOCKS + self.blocks_apart, most_blocks(self.recent.values()))
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
            blocks=tuple(
                (number % BLOCK_NUMBERS, bitmap)
                for number, bitmap in [*self.recent.items()][-most:]
            ),
            paths=self.paths.entries(),
            session=self._session,
        )
        self.waiting, self._last_s, self.urgent = 0, now_s, False
        return report.encode(self._seal)

    def _next_number(self, newest_us: int) -> int:
        """The newest time stamp, or one more than the last number: the sender's clock goes on when a receiver starts
        again, and so do the numbers of its reports."""
        number, last = newest_us & _WORD, self._last_number
        if last is not None and signed(number - last, STAMPS) <= 0:
            number = (last + 1) & _WORD
        self._last_number = number
        return number

    def _after_s(self) -> float:
        """Time from one report to the next, as things are."""
        if self.urgent or self._last_s < self._alert_until_s:
            return min(self._parameters.urgent_s, self._parameters.report_interval_s)
        return self._parameters.report_interval_s
