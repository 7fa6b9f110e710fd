"""The sending end of a coded stream, without a clock, a socket or a thread.

The caller asks which packets are due, sends them, and passes on the loss reports that arrive.
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
from numpy.typing import NDArray

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
from fec.protocol.path_deadlines import (
    Arrived,
    Packets,
    PathDeadlines,
    SentBlock,
    forget_older,
)
from fec.protocol.wire import CRC_OFFSET, HEADER, protect
from fec.redundancy.block_size_control import MAX_BLOCK, BlockSizeControl, PacketReport
from fec.redundancy.labels import LabelOrder

# By default, late parity is sent at this multiple of the rate of source packets, and at least
# one packet in this time.
_LATE_PER_SOURCE = 8
_MAX_LATE_STEP_S = 0.001
# Time stamps in packets, and the numbers of reports, are in microseconds modulo this.
STAMPS = 1 << 32
_HALF_STAMPS = STAMPS // 2
# The number of a report is the newest time stamp received, or the last number plus one if there is
# no newer time stamp. It may exceed the sender's clock, by at most this number of microseconds.
_NUMBERS_AHEAD = 10_000
# A report may contain a block number that exceeds the last block sent by this number. A forged
# packet can mislead a receiver by that much, and the rest of its report is still right.
_BLOCKS_AHEAD = 4
# Reports with older numbers are accepted after this number of them in a row, if there was no newer
# report for this time, in seconds. Then the receiver has restarted.
_AGREEING = 3
_REPEAT_S = 1.0
# These are called for every packet. A module's variable is faster than an attribute, and the
# constructor of a tuple is faster than that of a named tuple.
_pack = HEADER.pack
_new_tuple = tuple.__new__
# The first byte of a packet.
DATA = VERSION << 4 | PacketType.DATA
PARITY = VERSION << 4 | PacketType.PARITY
# When a parity packet is due, its block, and the number of its symbol.
QueuedParity = tuple[float, SentBlock, int]


@dataclass(frozen=True, kw_only=True)
class SenderParameters:
    """The coding and the pace of a stream.

    Attributes:
        source_packets: M.
        symbol_bytes: Length of a symbol in bytes: the payload, and two bytes for its length.
        rate_pps: Source packets per second.
        playback_s: Length of the receiver's playback buffer, in seconds. Late parity is sent only
            for blocks that began less than this time ago.
        stream_id: Number of the stream, 16 bits.
        late_parity_pps: Late parity packets per second. None: eight times the rate of source
            packets, and at least 1,000.
        session: Number of 32 bits, random by default, by which receivers notice that the sender has
            restarted. If it is the same after a restart, a receiver mixes the blocks of both for
            one playback time.
        key: At least 16 bytes. Every packet is sealed with it, and only reports that are sealed
            with it are accepted.
        delay_of_label: Planned delay in seconds of the path of each of the 65,536 labels. None: no
            delays are planned.
        silence_s: If no report arrives for this time, in seconds, blocks have at least
            ``silent_size`` packets, because reports may be lost like packets.
        silent_size: Smallest N while no report arrives.

    Raises:
        FecError: A value is outside its range.
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
        times_are_valid = self.playback_s > 0 and self.silence_s > 0
        if not (math.isfinite(self.rate_pps) and self.rate_pps > 0 and times_are_valid):
            times = f"playback {self.playback_s} s, silence {self.silence_s} s"
            raise FecError(f"rate {self.rate_pps} packets/s, {times}: all must be above 0")


class OutgoingPacket(NamedTuple):
    """A packet to send now.

    Attributes:
        due_s: When it was due, in seconds of stream time.
        label: Its UDP source port.
        data: Header and symbol.
        block: Number of its block.
        symbol: Number of its symbol in the block.
        block_size: N of the block.
    """

    due_s: float
    label: int
    data: bytes
    block: int
    symbol: int
    block_size: int


class StreamSender:
    """Sends source packets at a constant rate, and the parity of each block during the next block.

    Source packet i is due at i / rate_pps seconds of stream time. Packet e of a block has the label
    of index first + e, where the index of the first packet advances by N from block to block. N is
    the block's size when it begins, so that a block is a window of consecutive labels even if late
    parity is added to it.

    Attributes:
        parameters: See ``SenderParameters``.
        control: Chooses N.
        newest_reported_sent_s: When the newest packet that a report has mentioned was sent.
        on_judgement: Called with block, symbol, whether the packet is lost, and the time. It is
            called with True for each packet that the sender considers lost, and with False for each
            of them that a later report contains.

    >>> from fec.redundancy.labels import StratifiedLabels
    >>> from fec.code.reed_solomon import ReedSolomonCode
    >>> from fec.redundancy.block_size_control import fixed_block_size
    >>> parameters = SenderParameters(source_packets=2, symbol_bytes=8, rate_pps=100)
    >>> code = ReedSolomonCode(2, "reedsolo")
    >>> control = fixed_block_size(3)
    >>> sender = StreamSender(parameters, code, StratifiedLabels(), control, lambda i: b"x")
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
        """Prepare the stream.

        Args:
            parameters: The code and the rates of the stream.
            code: The code with M source packets.
            labels: The order of labels.
            control: Chooses N.
            source: Returns the payload of a source packet, given its index: at most
                ``symbol_bytes - 2`` bytes.
            path_of_label: The path of each of the 65,536 labels, one byte each (``PathNumbers``).
                With it, every header contains the packet's path and its number on this path.
                With None, both are 0.

        Raises:
            FecError: The first N is less than M or more than the largest N of ``control``.
        """
        size = control.block_size_at(0.0)
        if not parameters.source_packets <= size <= control.largest:
            raise FecError(
                f"M = {parameters.source_packets}, N = {size}, largest {control.largest}:"
                " give M <= N <= largest"
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
        self._parity_sent = 0
        self._late_sent = 0
        self._code = code
        self._label_of = labels.label
        self._labels_of = labels.labels
        self._source = source
        self._m = parameters.source_packets
        self.control = control
        self._interval = 1 / parameters.rate_pps
        self._symbol_bytes = parameters.symbol_bytes
        self._seal = sealed_with(parameters.key)
        flags = 0 if parameters.key is None else KEYED_FLAG
        # Every packet of this stream has these in its header.
        self._identity = (flags, parameters.stream_id, parameters.session)
        self._late_step_s = min(self._interval / _LATE_PER_SOURCE, _MAX_LATE_STEP_S)
        if parameters.late_parity_pps is not None:
            self._late_step_s = 1 / parameters.late_parity_pps
        # Bytes that ``protect`` writes before a payload that fills its symbol.
        self._full_prefix = protect(bytes(parameters.symbol_bytes - 2))[:2]
        self._next_source = 0
        self._next_label = 0
        self._blocks: dict[int, SentBlock] = {}
        self._filling: SentBlock | None = None
        self._parity: deque[QueuedParity] = deque()
        self._late: deque[QueuedParity] = deque()
        self._deadlines = PathDeadlines(parameters.delay_of_label, most_s=parameters.playback_s / 2)
        self._ended = False
        # Number and time of the last report.
        self._last_report = 0
        self._last_report_s = -math.inf
        # Reports in a row that have older numbers, and the number of the last of them.
        self._older_reports = 0
        self._older_number = 0
        # The receiver's count of packets; if it falls, the receiver was started again. It knows
        # nothing of packets that were sent before this time.
        self._received = 0
        self._receiver_began_s = -math.inf
        self.newest_reported_sent_s = -math.inf
        self.on_judgement: Callable[[int, int, bool, float], None] | None = None

    @property
    def path_reports(self) -> dict[int, tuple[int, int]]:
        """Packets lost and arrived on each path, by all reports."""
        return self._path_reports.totals

    @property
    def counters(self) -> dict[str, int]:
        """The counters of the sender.

        - source, parity: packets sent; parity includes late_parity.
        - late_parity, late_parity_blocks: late parity packets, and blocks with late parity.
        - reports, repeated_reports, bad_reports: reports that were accepted, that were not newer
          than the last one, and that were invalid.
        - spurious_losses: packets that were considered lost and arrived later.
        """
        return {
            "source": self._next_source,
            "parity": self._parity_sent,
            "late_parity": self._late_sent,
            **self._counts,
        }

    @property
    def block_size(self) -> int:
        """N of a block that begins now."""
        return self._size_at(self._next_source * self._interval)

    def _size_at(self, begins_s: float) -> int:
        """Return N of a block that begins at this time."""
        size = self.control.block_size_at(begins_s)
        # No report is expected during the first playback time.
        heard_s = max(self._last_report_s, self.parameters.playback_s)
        if begins_s > heard_s + self.parameters.silence_s:
            size = max(size, self.parameters.silent_size)
        return min(self.control.largest, size)

    def finish_source(self) -> None:
        """Begin no more blocks; the present one is completed."""
        self._ended = True

    def next_due_s(self) -> float:
        """Return when the next packet is due, or infinity if there is none."""
        due_s = self._next_source_due_s()
        if self._parity and self._parity[0][0] < due_s:
            due_s = self._parity[0][0]
        if self._late and self._late[0][0] < due_s:
            due_s = self._late[0][0]
        return due_s

    def _next_source_due_s(self) -> float:
        if self._ended and self._source_over():
            return math.inf
        return self._next_source * self._interval

    def packets_due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """Return packets that are due by now, in the order of their due times.

        The caller sends them at once.

        Args:
            now_s: Stream time in seconds.
            limit: Maximum number of packets.
        """
        out: list[OutgoingPacket] = []
        stamp = int(now_s * 1e6) % STAMPS
        late = self._late
        parity = self._parity
        while len(out) < limit:
            due_s = self._next_source_due_s()
            queue = None
            # Late parity is before parity, and parity before a source packet, if due at once.
            if parity and parity[0][0] <= due_s:
                due_s = parity[0][0]
                queue = parity
            if late and late[0][0] <= due_s:
                due_s = late[0][0]
                queue = late
            if due_s > now_s:
                break
            if queue is None:
                block, symbol = self._take_source(due_s)
            else:
                _, block, symbol = queue.popleft()
                if queue is late:
                    if now_s > block.started_s + self.parameters.playback_s:
                        # It would arrive after the deadline.
                        continue
                    self._late_sent += 1
                self._parity_sent += 1
            out.append(self._packet(block, symbol, due_s, now_s, stamp))
        return out

    def receive(self, data: bytes, now_s: float) -> None:
        """Process a datagram of the return path.

        Datagrams that are no report of this stream, and reports that are not newer than the last
        one, are counted and ignored.
        """
        try:
            report = decode_report(data, self._seal if self.parameters.key is not None else None)
        except MalformedPacket:
            self._counts["bad_reports"] += 1
            return
        begun_blocks = -(-self._next_source // self._m)
        highest = _expand_block_number(report.highest_block, begun_blocks)
        # Flags are compared, too: without a key, a seal cannot be checked.
        is_of_stream = (data[1], report.stream_id, report.session) == self._identity
        # A number is at most slightly above the time stamp of a packet that was sent.
        ahead_us = signed(report.number - int(now_s * 1e6), STAMPS)
        is_too_far = highest >= max(1, begun_blocks) + _BLOCKS_AHEAD or ahead_us > _NUMBERS_AHEAD
        if not is_of_stream or is_too_far:
            self._counts["bad_reports"] += 1
        elif not self._is_newer(report.number, now_s):
            self._counts["repeated_reports"] += 1
        else:
            self._last_report = report.number
            self._last_report_s = now_s
            self._older_reports = 0
            self._counts["reports"] += 1
            self._path_reports.add(report.paths)
            self._process_report(report, highest, now_s)

    def _is_newer(self, number: int, now_s: float) -> bool:
        """Return whether a report is newer than the last one.

        Numbers are time stamps modulo 2^32, so their signed difference decides. After half their
        range without a report any number is new. A receiver that has restarted may send older
        numbers: the third one in rising order is accepted if no newer one arrived for one second.
        """
        ahead = (number - self._last_report) % STAMPS
        if 0 < ahead < _HALF_STAMPS or (now_s - self._last_report_s) * 1e6 > _HALF_STAMPS:
            return True
        if 0 < (number - self._older_number) % STAMPS < _HALF_STAMPS:
            self._older_reports += 1
        else:
            self._older_reports = 1
        self._older_number = number
        return self._older_reports >= _AGREEING and now_s > self._last_report_s + _REPEAT_S

    def _source_over(self) -> bool:
        """Return whether the stream has ended, and its last block has all source packets."""
        return self._ended and self._next_source % self._m == 0

    def _take_source(self, due_s: float) -> tuple[SentBlock, int]:
        """Return the block and the symbol number of the next source packet."""
        m = self._m
        block = self._filling
        if block is None or len(block.sources) == m:
            block = self._begin_block(self._next_source // m, due_s)
        symbol = len(block.sources)
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
        """Compute the parity of blocks, and schedule it evenly over the time of the next block.

        Args:
            complete: Blocks with all their source packets, each with the time at which its last
                source packet was due.
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
        self._blocks[number] = block
        self._filling = block
        # Blocks are needed until their deadline, and two block times more for reports in transit.
        kept_s = self.parameters.playback_s + 2 * self._m * self._interval
        forget_older(self._blocks, due_s - kept_s)
        return block

    def _label(self, block: SentBlock, symbol: int) -> int:
        return self._label_of(block.first_label + symbol)

    def _size_now(self, block: SentBlock) -> int:
        """Return N of a block that begins now with as many source packets as this one."""
        return self.block_size

    def _packet(
        self, block: SentBlock, symbol: int, due_s: float, now_s: float, stamp: int
    ) -> OutgoingPacket:
        """Return a packet of a block.

        It equals ``fec.protocol.wire.PacketHeader.encode`` (there is a test), which takes three
        times as long.
        """
        m = self._m
        if symbol < m:
            kind = DATA
            body = block.sources[symbol]
            source_packets = m
        else:
            kind = PARITY
            body = block.parity[symbol - m]
            source_packets = m - block.absent
        block.sent += 1
        label = self._label(block, symbol)
        self._deadlines.add(now_s, block.number, symbol, label)
        path = 0
        sequence = 0
        if self._numbers is not None:
            path, sequence = self._numbers.next(label)
        keyed, stream, session = self._identity
        flags = keyed if source_packets == m else keyed | SHORT_FLAG
        front = _pack(
            kind,
            flags,
            stream,
            block.wire_number | symbol,
            session,
            source_packets,
            block.size,
            path,
            sequence,
            len(body),
            stamp,
            0,
        )
        if keyed:
            trailer = self._seal(front, body)
        else:
            trailer = crc32(body, crc32(front)).to_bytes(4, "big")
        data = b"".join((front[:CRC_OFFSET], trailer, body))
        return _new_tuple(OutgoingPacket, (due_s, label, data, block.number, symbol, block.size))

    def _process_report(self, report: LossReport, highest: int, now_s: float) -> None:
        """Decide which packets are lost, adapt N, and queue late parity.

        Args:
            report: The report.
            highest: The newest block in the report, as a number that is not modulo 2^24.
            now_s: When it arrived.
        """
        arrived = {
            _expand_block_number(number, highest): bitmap for number, bitmap in report.blocks
        }
        oldest = min(arrived, default=highest + 1)
        self._handle_spurious_losses(arrived, now_s)
        now_us = int(now_s * 1e6)
        newest_s = (now_us - max(0, signed(now_us - report.newest_us, STAMPS))) / 1e6
        self.newest_reported_sent_s = newest_s
        packets_arrived = Arrived(arrived)
        judged = self._deadlines.known(packets_arrived, newest_s, now_s)
        if signed(report.received - self._received, STAMPS) < 0:
            self._receiver_began_s = newest_s
        self._received = report.received
        # The report says nothing of other packets.
        can_be_reported = (judged[:, 1] >= oldest) & (judged[:, 0] >= self._receiver_began_s)
        judged = judged[can_be_reported]
        lost = ~packets_arrived.has(judged)
        self._note_judgements(judged, lost, now_s)
        sent_s = judged[:, 0].tolist()
        labels = judged[:, 3].astype(np.int64).tolist()
        rows = zip(labels, lost.tolist(), sent_s, strict=True)
        reports = list(map(_new_tuple, itertools.repeat(PacketReport), rows))
        trip_s = max(0.0, now_s - newest_s - report.newest_age_us / 1e6)
        self.control.on_packet_reports(reports, now_s, trip_s)
        if self.control.late_parity:
            self._send_late_parity_from(oldest, arrived, now_s)

    def _note_judgements(self, judged: Packets, lost: NDArray[np.bool_], now_s: float) -> None:
        """Record in each block which packets have arrived or are considered lost.

        Args:
            judged: Packets whose fate has become known.
            lost: Mask of the packets among them that are lost, shape (packets,).
            now_s: The time.
        """
        numbers = judged[:, 1].astype(np.int64)
        first = int(numbers.min()) if len(numbers) else 0
        for number, count in enumerate(np.bincount(numbers - first).tolist(), first):
            block = self._blocks.get(number)
            if count and block is not None:
                block.judged += count
        for number, symbol in judged[lost, 1:3].astype(np.int64).tolist():
            block = self._blocks.get(number)
            if block is not None:
                block.judged_lost |= 1 << symbol
            if self.on_judgement is not None:
                self.on_judgement(number, symbol, True, now_s)

    def _handle_spurious_losses(self, arrived: dict[int, int], now_s: float) -> None:
        """Correct packets that were considered lost but have arrived, and restart the estimate.

        Args:
            arrived: The bitmap of symbols that have arrived, of each block in a report.
            now_s: The time.
        """
        spurious = 0
        for number, bitmap in arrived.items():
            block = self._blocks.get(number)
            if block is None or not block.judged_lost & bitmap:
                continue
            received = block.judged_lost & bitmap
            spurious += received.bit_count()
            block.judged_lost &= ~bitmap
            if self.on_judgement is not None:
                for symbol in range(received.bit_length()):
                    if received >> symbol & 1:
                        self.on_judgement(number, symbol, False, now_s)
        if spurious:
            self._counts["spurious_losses"] += spurious
            self.control.restart_estimate()

    def _send_late_parity_from(self, oldest: int, arrived: dict[int, int], now_s: float) -> None:
        """Queue late parity for the blocks from ``oldest`` on that can still be decoded in time."""
        recent: list[SentBlock] = []
        for block in reversed(self._blocks.values()):
            if block.number < oldest:
                break
            recent.append(block)
        for block in reversed(recent):
            count = (arrived.get(block.number, 0) | block.known).bit_count()
            block.complete = block.complete or count >= self._m
            if not block.complete and now_s < block.started_s + self.parameters.playback_s:
                self._send_late_parity(block, count, now_s)

    def _send_late_parity(self, block: SentBlock, arrived: int, now_s: float) -> None:
        """Queue late parity for a block.

        It is extended to the present N. If the fate of all its packets is known, it is extended at
        least by the symbols that the receiver still lacks, divided by the share that arrives.

        Args:
            block: The block.
            arrived: Number of its symbols that have arrived, or that the receiver knows anyway.
            now_s: The time.
        """
        stop = self._size_now(block)
        if block.sent == block.judged == block.size - block.absent:
            # At most 90 % is assumed to be lost, so that the number stays finite.
            lacking = math.ceil((self._m - arrived) / max(0.1, 1 - self.control.loss))
            stop = max(stop, block.size + lacking)
        stop = min(stop, self.control.largest)
        if stop <= block.size:
            return
        first = block.size
        block.size = stop
        if self._next_source < (block.number + 1) * self._m:
            # The block still lacks source packets. Its parity is computed when it has all of them.
            return
        self._counts["late_parity_blocks"] += 1
        self._queue_late_parity(block, first, stop, now_s)

    def _queue_late_parity(self, block: SentBlock, first: int, stop: int, now_s: float) -> None:
        block.parity += self._code.parity(block.sources, first, stop)
        start_s = max(now_s, self._late[-1][0] + self._late_step_s) if self._late else now_s
        for k, symbol in enumerate(range(first, stop)):
            self._late.append((start_s + k * self._late_step_s, block, symbol))


def _expand_block_number(number: int, reference: int) -> int:
    """Return the block nearest to ``reference`` whose number is ``number`` modulo 2^24."""
    return reference + signed(number - reference, BLOCK_NUMBERS)
