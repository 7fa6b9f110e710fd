"""The sending end of a coded stream without a fixed packet rate, as a state machine.

The caller gives packets, the time and loss reports, and gets labelled packets and the next
deadline.

A packet is sent at once. A block is closed, and its parity sent, when it has M packets, or
``flush_s`` after its first one. A block of fewer than four packets waits four times as long,
because its parity costs more than its packets. A short block has zeros instead of the other source
symbols, and its parity packets say so. The padding of symbols is for the code only and is not sent.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from fec.code.variable_lengths import VariableLengthCode
from fec.errors import FecError
from fec.protocol.framing import as_bytes
from fec.protocol.path_deadlines import SentBlock
from fec.protocol.sender import OutgoingPacket, SenderParameters, StreamSender
from fec.redundancy.block_size_control import BlockSizeControl
from fec.redundancy.labels import LabelOrder

FLOWS = 256

# A block of fewer than FEW packets waits for PATIENCE flush times.
FEW = 4
PATIENCE = 4

# In front of each payload: number of bytes of the symbol that follow, flow << 24 | number of the
# packet in its flow.
FRAMING = struct.Struct(">HI")

# Packet numbers of a flow are modulo this.
NUMBERS = 1 << 24

_LENGTH_BYTES = 2


def flow_of(*fields: bytes) -> int:
    """Return the number of a flow, 0 to 255, from the fields that its packets have in common.

    Flows with the same number are delivered in order together.
    """
    return crc32(b"\0".join(fields)) % FLOWS


@dataclass(frozen=True, kw_only=True)
class EventPolicy:
    """Decides when blocks are closed, and how much parity short blocks have.

    Attributes:
        parity_of: Returns the number of parity packets of a short block, from its number of source
            packets and N of a block of M source packets.
        flush_s: Time after which a block is closed.

    Raises:
        FecError: The flush time is invalid.
    """

    parity_of: Callable[[int, int], int]
    flush_s: float = 0.02

    def __post_init__(self) -> None:
        if not (math.isfinite(self.flush_s) and self.flush_s > 0):
            raise FecError(f"flush after {self.flush_s} s; give more than 0")


class EventSender(StreamSender):
    """Sends packets when they are offered.

    ``offer``, ``flush`` and ``due`` return the packets to send now.

    Labels are used in the order of sending. Parity follows the last source packet, so a short block
    also has consecutive labels. ``parameters.rate_pps`` only affects the rate of late parity.

    Args:
        parameters: The parameters of the sender.
        code: The code of the stream.
        labels: The order of the labels.
        control: Decides N.
        policy: Decides when blocks are closed, and how much parity short blocks have.
        path_of_label: See ``StreamSender``.

    Attributes:
        largest_payload: Maximum length of a payload.
        numbers: Number of the next packet of each flow.

    >>> from fec.redundancy.labels import StratifiedLabels
    >>> from fec.redundancy.block_size_control import fixed_block_size
    >>> parameters = SenderParameters(source_packets=4, symbol_bytes=64, rate_pps=1000)
    >>> policy = EventPolicy(parity_of=lambda k, size: 1)
    >>> code = VariableLengthCode(4, "reedsolo")
    >>> sender = EventSender(parameters, code, StratifiedLabels(), fixed_block_size(5), policy)
    >>> [p.symbol for p in sender.offer(b"ping", 0.0)], sender.next_due_s()
    ([0], 0.08)
    >>> [p.symbol for p in sender.due(0.08)]
    [4]
    """

    def __init__(
        self,
        parameters: SenderParameters,
        code: VariableLengthCode,
        labels: LabelOrder,
        control: BlockSizeControl,
        policy: EventPolicy,
        path_of_label: bytes | None = None,
    ) -> None:
        super().__init__(parameters, code, labels, control, _no_source, path_of_label)
        if policy.flush_s * PATIENCE > parameters.playback_s:
            raise FecError(
                f"flush after {policy.flush_s:g} s with playback after "
                f"{parameters.playback_s:g} s: a block may wait {PATIENCE} times the flush time; "
                f"give at most {parameters.playback_s / PATIENCE:g} s"
            )
        self.largest_payload = parameters.symbol_bytes - FRAMING.size
        self.numbers = [0] * FLOWS
        self._policy = policy
        self._offered = 0
        self._now_s = 0.0
        self._short_blocks = 0
        self._full_blocks = 0
        # Time of the first packet after the last report.
        self._unreported_s = -math.inf
        # No clock begins blocks.
        self.finish_source()

    @property
    def counters(self) -> dict[str, int]:
        """The counters of ``StreamSender``, and two numbers of blocks.

        - whole_blocks: blocks of M source packets.
        - short_blocks: blocks of fewer source packets.
        """
        return {
            **super().counters,
            "source": self._offered,
            "whole_blocks": self._full_blocks,
            "short_blocks": self._short_blocks,
        }

    @property
    def block_size(self) -> int:
        """N of the next block, if it has M source packets."""
        return self._size_at(self._now_s)

    def offer(self, payload: bytes, now_s: float, flow: int = 0) -> list[OutgoingPacket]:
        """Send a packet, and whatever else is due.

        Args:
            payload: Payload of the packet, at most ``largest_payload`` bytes.
            now_s: Time at the sender.
            flow: Flow of the packet, 0 to 255.

        Raises:
            FecError: The payload is too long, or the flow out of range.
        """
        payload = as_bytes(payload)
        if len(payload) > self.largest_payload or not 0 <= flow < FLOWS:
            raise FecError(
                f"packet of {len(payload)} bytes of flow {flow}: "
                f"give at most {self.largest_payload} bytes and a flow of 0 to {FLOWS - 1}"
            )
        packets = self.due(now_s)
        if self._unreported_s <= self._last_report_s:
            self._unreported_s = now_s
        block = self._filling
        if block is None:
            block = self._begin_block(self._next_source // self._m, now_s)
        number = self.numbers[flow]
        self.numbers[flow] = (number + 1) % NUMBERS
        front = FRAMING.pack(FRAMING.size - _LENGTH_BYTES + len(payload), flow << 24 | number)
        block.sources.append(front + payload)
        self._next_source += 1
        self._offered += 1
        packets.append(self._packet(block, len(block.sources) - 1, now_s, now_s, _stamp(now_s)))
        if len(block.sources) == self._m or now_s >= self._closing_s(block):
            packets += self.flush(now_s)
        return packets

    def flush(self, now_s: float) -> list[OutgoingPacket]:
        """Close the current block, and return its parity packets."""
        self._now_s = now_s
        block = self._filling
        if block is None:
            return []
        self._filling = None
        m = self._m
        k = len(block.sources)
        block.known = (1 << m) - (1 << k)
        block.sources += [b""] * (m - k)
        self._next_source = (block.number + 1) * m
        if k < m:
            self._short_blocks += 1
        else:
            self._full_blocks += 1
        block.size = self._size_now(block)
        block.parity = self._code.parity(block.sources, m, block.size)
        self._next_label = block.first_label + block.size - block.absent
        self._parity_sent += block.size - m
        return [
            self._packet(block, symbol, now_s, now_s, _stamp(now_s))
            for symbol in range(m, block.size)
        ]

    def due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """Return the parity packets of a block whose time has passed, and late parity packets.

        Args:
            now_s: Time at the sender.
            limit: Maximum number of late parity packets.
        """
        self._now_s = now_s
        packets: list[OutgoingPacket] = []
        if self._filling is not None and now_s >= self._closing_s(self._filling):
            packets += self.flush(now_s)
        return packets + super().packets_due(now_s, limit)

    def packets_due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """Return the same as ``due``."""
        return self.due(now_s, limit)

    def next_due_s(self) -> float:
        """Return when ``due`` has packets, or infinity if nothing is offered or reported."""
        due_s = self._late[0][0] if self._late else math.inf
        if self._filling is not None:
            due_s = min(due_s, self._closing_s(self._filling))
        return due_s

    def _closing_s(self, block: SentBlock) -> float:
        """Return the time at which a block is closed."""
        flush_times = 1 if len(block.sources) >= FEW else PATIENCE
        return block.started_s + flush_times * self._policy.flush_s

    def _source_over(self) -> bool:
        return True

    def _label(self, block: SentBlock, symbol: int) -> int:
        """Return the label of a symbol; symbols that a short block does not have need no label."""
        position = block.first_label + symbol
        if symbol >= self._m:
            position -= block.absent
        return self._label_of(position)

    def _size_at(self, begins_s: float) -> int:
        """Return N at this time.

        As in ``StreamSender``, N is larger if no report arrives. Here the silence begins with the
        first packet that a report should have followed.
        """
        size = self.control.block_size_at(begins_s)
        is_unreported = self._unreported_s > self._last_report_s
        if is_unreported and begins_s > self._unreported_s + self.parameters.silence_s:
            size = max(size, self.parameters.silent_size)
        return min(self.control.largest, size)

    def _size_now(self, block: SentBlock) -> int:
        """Return N of a block that is closed now."""
        size = self.block_size
        parity = size - self._m
        if block.absent:
            parity = self._policy.parity_of(self._m - block.absent, size)
        return min(self.control.largest, self._m + max(0, parity))


def _stamp(now_s: float) -> int:
    return int(now_s * 1e6) % (1 << 32)


def _no_source(index: int) -> bytes:
    raise FecError(
        f"source packet {index}: this sender has no clock, so that packets are offered to it"
    )
