"""The sending end of a coded stream as a state machine: time and loss reports in, labelled packets and a next deadline
out.

No clock, socket or thread: the caller asks what is due, sends it, and hands reports over.
"""

import itertools
import math
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

import numpy as np

from fec.code.checked import whole
from fec.code.reed_solomon import ReedSolomonCode
from fec.errors import FecError, MalformedPacket
from fec.protocol.framing import (
    BLOCK_NUMBERS,
    KEYED_FLAG,
    MAX_SESSION,
    MAX_STREAM_ID,
    MAX_SYMBOL_BYTES,
    SHORT_FLAG,
    VERSION,
    PacketType,
    as_bytes,
    sealed_with,
    signed,
)
from fec.protocol.loss_report import LossReport, decode_report
from fec.protocol.path_counts import PathNumbers, PathReports
from fec.protocol.path_deadlines import Arrived, PathDeadlines, SentBlock, forget_older
from fec.protocol.wire import CRC_OFFSET, HEADER, protect
from fec.redundancy.block_size_control import MAX_BLOCK, BlockSizeControl, PacketReport
from fec.redundancy.labels import LabelOrder

_LATE_PER_SOURCE, _MAX_LATE_STEP_S = 8, 0.001
"""Late parity leaves at so many times the rate of source packets, or one packet a millisecond where that is quicker."""
STAMPS = 1 << 32
_HALF_STAMPS = STAMPS // 2
_NUMBERS_AHEAD = 10_000
"""By which a report's number may be above the sender's clock in microseconds: reports that tell of no newer packet
count on by one."""
_BLOCKS_AHEAD = 4
"""Beyond what was sent, at most so far a forged packet can lead a receiver; what the report tells of the others
holds."""
_AGREEING, _REPEAT_S = 3, 1.0
"""Reports numbered again, and the time without others, after which their numbers are followed."""
_pack = HEADER.pack
_new_tuple = tuple.__new__  # a named tuple's own constructor takes twice the time, for every packet
DATA = VERSION << 4 | PacketType.DATA
PARITY = VERSION << 4 | PacketType.PARITY


@dataclass(frozen=True, kw_only=True)
class SenderParameters:
    """How a stream is coded and paced. FecError for values that cannot be used.

    ``rate_pps``: source packets a second; ``source_packets``: M; ``playback_s``: late parity is sent only for blocks
    younger than this. ``late_parity_pps``: late parity packets a second (None: eight times the rate, 1000 at least).
    ``session``: of 32 bits, another one for each start of a sender (by default drawn), so that receivers tell it from
    the one before: of two starts with one number, blocks less than a playback time old are taken for the same.
    ``key``: of 16 bytes or more, seals every packet, and only reports that it seals are believed. ``delay_of_label``:
    in seconds, planned for each of the 65,536 labels' paths; None where nothing is planned. After ``silence_s`` without
    a report blocks are of ``silent_size`` at least: whoever hears nothing does not know that nothing is lost.
    """

    source_packets: int
    symbol_bytes: int
    rate_pps: float
    playback_s: float = 0.4
    stream_id: int = 1
    late_parity_pps: float | None = None
    session: int = field(default_factory=lambda: secrets.randbits(32))
    key: bytes | None = field(default=None, repr=False)
    delay_of_label: Sequence[float] | None = field(default=None, repr=False)
    silence_s: float = math.inf
    silent_size: int = 0

    def __post_init__(self) -> None:
        whole(self.source_packets, "source_packets", 1, MAX_BLOCK)
        whole(self.symbol_bytes, "symbol_bytes", 3, MAX_SYMBOL_BYTES)
        whole(self.stream_id, "stream_id", 0, MAX_STREAM_ID)
        whole(self.session, "session", 0, MAX_SESSION)
        if self.late_parity_pps is not None and not self.late_parity_pps > 0:
            raise FecError(
                f"late parity at {self.late_parity_pps} packets/s; give more than 0, or None"
            )
        if not (
            math.isfinite(self.rate_pps)
            and self.rate_pps > 0
            and self.playback_s > 0
            and self.silence_s > 0
        ):
            times = f"playback {self.playback_s} s, silence {self.silence_s} s"
            raise FecError(f"rate {self.rate_pps} packets/s, {times}: all must be above 0")


class OutgoingPacket(NamedTuple):
    """One packet to be sent now: ``data`` is header and symbol, ``label`` goes into the UDP source port."""

    due_s: float
    label: int
    data: bytes
    block: int
    symbol: int
    block_size: int


class StreamSender:
    """Paces source packets at ``rate_pps`` and each block's parity evenly over the next block's time.

    ``source(i)`` gives the payload of source packet i (at most ``symbol_bytes - 2`` bytes); ``control`` decides N.
    Packet e of block b carries the label of index base(b) + e with base(b + 1) = base(b) + N(b), N as it was when the
    block began: a block is a window of consecutive labels, also when late parity makes it longer.

    Times are seconds of stream time: source packet i is due at i / rate_pps. ``path_of_label`` (65,536 bytes, see
    ``PathNumbers``) has every header name its path and its number on it; without it both stay 0.

    >>> from fec.redundancy.labels import StratifiedLabels
    >>> from fec.code.reed_solomon import ReedSolomonCode
    >>> from fec.redundancy.block_size_control import fixed_block_size
    >>> parameters = SenderParameters(source_packets=2, symbol_bytes=8, rate_pps=100)
    >>> code = ReedSolomonCode(2, "reedsolo")
    >>> sender = StreamSender(parameters, code, StratifiedLabels(), fixed_block_size(3), lambda i: b"x")
    >>> [(p.block, p.symbol) for p in sender.packets_due(0.03)]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    """

    def __init__(
        self,
        parameters: SenderParameters,
        code: ReedSolomonCode,
        labels: LabelOrder,
        control: BlockSizeControl,
        source: Callable[[int], bytes],
        path_of_label: bytes | None = None,
    ) -> None:
        size = control.block_size_at(0.0)
        if not parameters.source_packets <= size <= control.largest:
            raise FecError(
                f"M = {parameters.source_packets}, N = {size}, largest {control.largest}: give M <= N <= largest"
            )
        self.parameters = parameters
        self._numbers = PathNumbers(path_of_label) if path_of_label is not None else None
        self._path_reports = PathReports()
        self._counts = {
            "late_parity_blocks": 0,
            "reports": 0,
            "repeated_reports": 0,
            "bad_reports": 0,
            "spurious_losses": 0,
        }
        self._parity_sent = self._late_sent = 0
        self._code = code
        self._label_of = labels.label
        self._labels_of = labels.labels
        self._source = source
        self._m = parameters.source_packets
        self.control = control
        self._interval, self._symbol_bytes = 1 / parameters.rate_pps, parameters.symbol_bytes
        self._seal = sealed_with(parameters.key)
        self._identity = (
            0 if parameters.key is None else KEYED_FLAG,
            parameters.stream_id,
            parameters.session,
        )
        usual_s = min(self._interval / _LATE_PER_SOURCE, _MAX_LATE_STEP_S)
        self._late_step_s = (
            1 / parameters.late_parity_pps if parameters.late_parity_pps is not None else usual_s
        )
        self._full_prefix = protect(bytes(parameters.symbol_bytes - 2))[:2]
        """What ``protect`` writes before a payload that fills its symbol."""
        self._next_source, self._next_label = 0, 0
        self._blocks: dict[int, SentBlock] = {}
        self._filling: SentBlock | None = None
        self._parity: deque[tuple[float, SentBlock, int]] = deque()
        self._late: deque[tuple[float, SentBlock, int]] = deque()
        self._deadlines = PathDeadlines(parameters.delay_of_label, most_s=parameters.playback_s / 2)
        self._ended = False
        self._last_report, self._last_report_s, self._again_s = 0, -math.inf, -math.inf
        self._older_number = self._older_reports = self._received = 0
        self.newest_reported_sent_s = -math.inf
        """When the newest packet that a report has told of was sent."""
        self.on_judgement: Callable[[int, int, bool, float], None] | None = None
        """Told of each packet (block, symbol) that is taken for lost (true), and of each of those that came after all
        (false), and when."""

    @property
    def path_reports(self) -> dict[int, tuple[int, int]]:
        """Path -> (lost, came), as reports have told so far, over all receivers there were."""
        return self._path_reports.totals

    @property
    def counters(self) -> dict[str, int]:
        """Totals: source, parity, late_parity (of the parity), late_parity_blocks, reports, repeated_reports,
        bad_reports, spurious_losses (packets taken for lost that came after all)."""
        return {
            "source": self._next_source,
            "parity": self._parity_sent,
            "late_parity": self._late_sent,
            **self._counts,
        }

    @property
    def block_size(self) -> int:
        """N of the blocks begun from now on."""
        return self._size_at(self._next_source * self._interval)

    def _size_at(self, begins_s: float) -> int:
        size, heard_s = (
            self.control.block_size_at(begins_s),
            max(self._last_report_s, self.parameters.playback_s),
        )
        silent = begins_s > heard_s + self.parameters.silence_s
        return min(self.control.largest, max(size, self.parameters.silent_size) if silent else size)

    def finish_source(self) -> None:
        """No block is begun any more; the one under way is completed."""
        self._ended = True

    def next_due_s(self) -> float:
        """When the next packet is due (inf where none waits)."""
        due = (
            math.inf if self._ended and self._source_over() else self._next_source * self._interval
        )
        if self._parity and self._parity[0][0] < due:
            due = self._parity[0][0]
        if self._late and self._late[0][0] < due:
            due = self._late[0][0]
        return due

    def packets_due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """At most ``limit`` packets due by now, in the order of their due times; the caller sends them at once."""
        out: list[OutgoingPacket] = []
        stamp = int(now_s * 1e6) % STAMPS
        late, parity, interval = self._late, self._parity, self._interval
        while len(out) < limit:
            due = math.inf if self._ended and self._source_over() else self._next_source * interval
            queue = None
            if parity and parity[0][0] <= due:
                due, queue = parity[0][0], parity
            if late and late[0][0] <= due:
                due, queue = late[0][0], late
            if due > now_s:
                break
            if queue is None:
                block, symbol = self._take_source(due)
            else:
                _, block, symbol = queue.popleft()
                if queue is late:
                    if now_s > block.started_s + self.parameters.playback_s:
                        continue  # it would come in vain
                    self._late_sent += 1
                self._parity_sent += 1
            out.append(self._packet(block, symbol, due, now_s, stamp))
        return out

    def receive(self, data: bytes, now_s: float) -> None:
        """A datagram of the return path. What is no report, or no newer than one already seen, is counted and left."""
        try:
            report = decode_report(data, self._seal if self.parameters.key is not None else None)
        except MalformedPacket:
            self._counts["bad_reports"] += 1
            return
        begun = -(-self._next_source // self._m)
        highest = _expand_block_number(report.highest_block, begun)
        # a seal without a key to check it is no seal
        own = (data[1], report.stream_id, report.session) == self._identity
        # a number is a time stamp that came back, or some more: one from the time to come is none of this sender's
        early_us = signed(report.number - int(now_s * 1e6), STAMPS)
        if not own or highest >= max(1, begun) + _BLOCKS_AHEAD or early_us > _NUMBERS_AHEAD:
            self._counts["bad_reports"] += 1
        elif not self._is_newer(report.number, now_s):
            self._counts["repeated_reports"] += 1
        else:
            self._last_report, self._last_report_s, self._older_reports = report.number, now_s, 0
            self._counts["reports"] += 1
            self._path_reports.add(report.paths)
            self._process_report(report, highest, now_s)

    def _is_newer(self, number: int, now_s: float) -> bool:
        """By the signed difference of numbers, which are time stamps: after half their range without a report any is
        new. So is the third of older numbers in rising order, where no newer one has come for a while: their receiver
        counts again."""
        ahead = (number - self._last_report) % STAMPS
        if 0 < ahead < _HALF_STAMPS or (now_s - self._last_report_s) * 1e6 > _HALF_STAMPS:
            return True
        rising = 0 < (number - self._older_number) % STAMPS < _HALF_STAMPS
        self._older_reports = self._older_reports + 1 if rising else 1
        self._older_number = number
        return self._older_reports >= _AGREEING and now_s > self._last_report_s + _REPEAT_S

    def _source_over(self) -> bool:
        return self._ended and self._next_source % self._m == 0

    def _take_source(self, due_s: float) -> tuple[SentBlock, int]:
        m, block = self._m, self._filling
        symbol = len(block.sources) if block is not None else m
        if block is None or symbol == m:
            block, symbol = self._begin_block(self._next_source // m, due_s), 0
        block.sources.append(self._symbol(self._source(self._next_source)))
        self._next_source += 1
        if symbol == m - 1:
            self._queue_parity([(block, due_s)])
        return block, symbol

    def _source_symbols(self, first: int, stop: int) -> list[bytes]:
        """Return the symbols of the source packets first .. stop - 1."""
        payloads = list(map(self._source, range(first, stop)))
        if {*map(type, payloads)} == {bytes} and {*map(len, payloads)} == {self._symbol_bytes - 2}:
            prefix = self._full_prefix
            return [prefix + payload for payload in payloads]
        return list(map(self._symbol, payloads))

    def _symbol(self, payload: bytes) -> bytes:
        """Return the symbol that carries a payload."""
        payload = as_bytes(payload)
        if len(payload) == self._symbol_bytes - 2:
            return self._full_prefix + payload
        return protect(payload, self._symbol_bytes)

    def _queue_parity(self, complete: Sequence[tuple[SentBlock, float]]) -> None:
        """Make the parity of blocks, due evenly over the time of the next block.

        Args:
            complete: Blocks with all their source packets, and when the last of these was due.
        """
        m = self._m
        blocks_by_size: dict[int, list[SentBlock]] = {}
        for block, _ in complete:
            blocks_by_size.setdefault(block.size, []).append(block)
        for size, blocks in blocks_by_size.items():
            if size > m:
                self._encode(blocks, size)
        for block, due_s in complete:
            count = len(block.parity)
            for k in range(count):
                step_s = m * self._interval / count
                self._parity.append((due_s + (k + 0.5) * step_s, block, m + k))

    def _encode(self, blocks: Sequence[SentBlock], size: int) -> None:
        """Compute the parity of blocks of one size.

        The code handles each byte of a symbol separately. Symbols of several blocks side by side
        can therefore be encoded as one symbol.
        """
        if len(blocks) == 1:
            blocks[0].parity = self._code.parity(blocks[0].sources, self._m, size)
            return
        columns = zip(*[block.sources for block in blocks], strict=True)
        parity = self._code.parity(list(map(b"".join, columns)), self._m, size)
        for block, at in zip(blocks, range(0, len(parity[0]), self._symbol_bytes), strict=True):
            block.parity = [symbols[at : at + self._symbol_bytes] for symbols in parity]

    def _begin_block(self, number: int, due_s: float) -> SentBlock:
        size = self._size_at(due_s)
        block = SentBlock(number, (number % BLOCK_NUMBERS) << 8, self._next_label, due_s, size)
        self._next_label += block.size
        self._blocks[number] = self._filling = block
        forget_older(
            self._blocks, due_s - self.parameters.playback_s - 2 * self._m * self._interval
        )
        return block

    def _label(self, block: SentBlock, symbol: int) -> int:
        return self._label_of(block.first_label + symbol)

    def _size_now(self, block: SentBlock) -> int:
        """N of a block that would begin now with as many source packets as this one."""
        return self.block_size

    def _packet(
        self, block: SentBlock, symbol: int, due_s: float, now_s: float, stamp: int
    ) -> OutgoingPacket:
        k = m = self._m
        if symbol < m:
            kind, body = DATA, block.sources[symbol]
        else:
            kind, body, k = PARITY, block.parity[symbol - m], m - block.absent
        block.sent += 1
        # fec.protocol.wire's PacketHeader.encode without the dataclass: the same bytes, as a test holds, at a third of
        # the time.
        ids, size = block.wire_number | symbol, block.size
        label = self._label(block, symbol)
        self._deadlines.add(now_s, block.number, symbol, label)
        path, number = self._numbers.next(label) if self._numbers is not None else (0, 0)
        flags, stream, session = self._identity
        marks = flags if k == m else flags | SHORT_FLAG
        front = _pack(kind, marks, stream, ids, session, k, size, path, number, len(body), stamp, 0)
        trailer = self._seal(front, body) if flags else crc32(body, crc32(front)).to_bytes(4, "big")
        data = b"".join((front[:CRC_OFFSET], trailer, body))
        return _new_tuple(OutgoingPacket, (due_s, label, data, block.number, symbol, size))

    def _process_report(self, report: LossReport, highest: int, now_s: float) -> None:
        """Judge what was due before a packet that arrived, adapt N, and help blocks that can still be
        saved."""
        arrived = {
            _expand_block_number(number, highest): bitmap for number, bitmap in report.blocks
        }
        oldest = min(arrived, default=highest + 1)
        self._handle_spurious_losses(arrived, now_s)
        now_us = int(now_s * 1e6)
        newest_s = self.newest_reported_sent_s = (
            now_us - max(0, signed(now_us - report.newest_us, STAMPS))
        ) / 1e6
        came = Arrived(arrived)
        known = self._deadlines.known(came, newest_s, now_s)
        if signed(report.received - self._received, STAMPS) < 0:
            self._again_s = (
                newest_s  # a receiver of its own, which knows nothing of what came before
            )
        self._received = report.received
        known = known[
            (known[:, 1] >= oldest) & (known[:, 0] >= self._again_s)
        ]  # of others the report tells nothing
        lost = ~came.has(known)
        rows = zip(
            known[:, 3].astype(np.int64).tolist(), lost.tolist(), known[:, 0].tolist(), strict=True
        )
        reports = list(map(_new_tuple, itertools.repeat(PacketReport), rows))
        first = int(known[:, 1].min()) if len(known) else 0
        for number, count in enumerate(
            np.bincount(known[:, 1].astype(np.int64) - first).tolist(), first
        ):
            if count and (block := self._blocks.get(number)) is not None:
                block.judged += count
        for number, symbol in known[lost, 1:3].astype(np.int64).tolist():
            if (block := self._blocks.get(number)) is not None:
                block.judged_lost |= 1 << symbol
            if self.on_judgement is not None:
                self.on_judgement(number, symbol, True, now_s)
        trip_s = max(0.0, now_s - newest_s - report.newest_age_us / 1e6)
        self.control.on_packet_reports(reports, now_s, trip_s)
        if self.control.late_parity:
            recent = itertools.takewhile(
                lambda block: block.number >= oldest, reversed(self._blocks.values())
            )
            for block in reversed(list(recent)):
                count = (arrived.get(block.number, 0) | block.known).bit_count()
                block.complete = block.complete or count >= self._m
                if not block.complete and now_s < block.started_s + self.parameters.playback_s:
                    self._send_late_parity(block, count, now_s)

    def _handle_spurious_losses(self, arrived: dict[int, int], now_s: float) -> None:
        """Packets judged lost that came after all: do not trust the estimate."""
        found = 0
        for number, bitmap in arrived.items():
            block = self._blocks.get(number)
            if block is not None and block.judged_lost & bitmap:
                received = block.judged_lost & bitmap
                found += received.bit_count()
                block.judged_lost &= ~bitmap
                if self.on_judgement is not None:
                    for symbol in filter(
                        lambda bit: received >> bit & 1, range(received.bit_length())
                    ):
                        self.on_judgement(number, symbol, False, now_s)
        if found:
            self._counts["spurious_losses"] += found
            self.control.restart_estimate()

    def _send_late_parity(self, block: SentBlock, arrived: int, now_s: float) -> None:
        """Late parity up to today's N, or as many more as a block is missing of which all that was sent is judged."""
        stop = self._size_now(block)
        if block.sent == block.judged == block.size - block.absent:
            lacking = math.ceil((self._m - arrived) / max(0.1, 1 - self.control.loss))
            stop = max(stop, block.size + lacking)
        stop = min(stop, self.control.largest)
        if stop <= block.size:
            return
        first, block.size = block.size, stop
        if self._next_source < (block.number + 1) * self._m:
            return  # still growing: its parity is made, of the new size, when it is whole
        self._counts["late_parity_blocks"] += 1
        self._queue_late_parity(block, first, stop, now_s)

    def _queue_late_parity(self, block: SentBlock, first: int, stop: int, now_s: float) -> None:
        block.parity += self._code.parity(block.sources, first, stop)
        step = self._late_step_s
        start = max(now_s, self._late[-1][0] + step) if self._late else now_s
        self._late.extend(
            (start + k * step, block, symbol) for k, symbol in enumerate(range(first, stop))
        )


def _expand_block_number(number: int, reference: int) -> int:
    """The block whose number modulo 2^24 is ``number``, nearest to ``reference``."""
    return reference + signed(number - reference, BLOCK_NUMBERS)
