"""The sending end of a coded stream whose packets come when they come, as a state machine: packets, time and loss
reports in, labelled packets and a next deadline out.

A packet leaves at once. A block closes, and its parity leaves, at M packets or ``flush_s`` after its first; while a
block has fewer than four it waits four times as long, since parity of so few costs more than they do. The source
symbols that a short block has not are zeros, of which its parity tells. Zeros that fill symbols up are for the code
alone and are not sent.
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
FEW, PATIENCE = 4, 4
"""A block of fewer packets waits for so many flush times."""
FRAMING = struct.Struct(">HI")
"""In front of each payload: bytes of the symbol that follow, flow << 24 | number of the packet in its flow."""
NUMBERS = 1 << 24
_LENGTH_BYTES = 2


def flow_of(*words: bytes) -> int:
    """A flow's number, 0 to 255, from what its packets have in common; flows of one number are kept in order
    together."""
    return crc32(b"\0".join(words)) % FLOWS


@dataclass(frozen=True, kw_only=True)
class EventPolicy:
    """When blocks close, and how much parity short ones get. FecError for values that cannot be used.

    ``parity_of``: (source packets k, N of a whole block) -> parity packets of a block of k; ``flush_s`` in seconds.
    """

    parity_of: Callable[[int, int], int]
    flush_s: float = 0.02

    def __post_init__(self) -> None:
        if not (math.isfinite(self.flush_s) and self.flush_s > 0):
            raise FecError(f"flush after {self.flush_s} s; give more than 0")


class EventSender(StreamSender):
    """``offer`` takes a payload, ``flush`` closes the block under way, ``due`` does what time asks for; each gives the
    packets to be sent now.

    Labels are handed out in the order of sending, parity right after the last source packet, so that a short block is a
    window of consecutive labels too. ``parameters.rate_pps`` only paces late parity.

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
                f"flush after {policy.flush_s:g} s with playback after {parameters.playback_s:g} s: a block may wait "
                f"{PATIENCE} times the flush time; give at most {parameters.playback_s / PATIENCE:g} s"
            )
        self.largest_payload = parameters.symbol_bytes - FRAMING.size
        self._policy, self.numbers, self._offered, self._now_s = policy, [0] * FLOWS, 0, 0.0
        self._short_blocks = self._whole_blocks = 0
        self._unheard_s = -math.inf
        self.finish_source()  # there is no clock that begins blocks

    @property
    def counters(self) -> dict[str, int]:
        """Those of the clocked sender, and whole_blocks, short_blocks."""
        blocks = {"whole_blocks": self._whole_blocks, "short_blocks": self._short_blocks}
        return {**super().counters, "source": self._offered, **blocks}

    @property
    def block_size(self) -> int:
        """N of whole blocks closed from now on."""
        return self._size_at(self._now_s)

    def offer(self, payload: bytes, now_s: float, flow: int = 0) -> list[OutgoingPacket]:
        """A packet of a flow (0 to 255), of 0 to ``largest_payload`` bytes; FecError for a longer one."""
        payload = as_bytes(payload)
        if len(payload) > self.largest_payload or not 0 <= flow < FLOWS:
            raise FecError(
                f"packet of {len(payload)} bytes of flow {flow}: give at most {self.largest_payload} bytes and a flow "
                f"of 0 to {FLOWS - 1}"
            )
        out = self.due(now_s)
        if self._unheard_s <= self._last_report_s:
            self._unheard_s = now_s
        block = self._filling
        if block is None:
            block = self._begin_block(self._next_source // self._m, now_s)
        number = self.numbers[flow]
        self.numbers[flow] = (number + 1) % NUMBERS
        front = FRAMING.pack(FRAMING.size - _LENGTH_BYTES + len(payload), flow << 24 | number)
        block.sources.append(front + payload)
        self._next_source += 1
        self._offered += 1
        out.append(self._packet(block, len(block.sources) - 1, now_s, now_s, _stamp(now_s)))
        if len(block.sources) == self._m or now_s >= self._closing_s(block):
            out += self.flush(now_s)
        return out

    def flush(self, now_s: float) -> list[OutgoingPacket]:
        """Close the block under way; its parity."""
        block, m = self._filling, self._m
        self._now_s = now_s
        if block is None:
            return []
        self._filling, k = None, len(block.sources)
        block.known = (1 << m) - (1 << k)
        block.sources += [b""] * (m - k)
        self._next_source = (block.number + 1) * m
        self._short_blocks += k < m
        self._whole_blocks += k == m
        block.size = self._size_now(block)
        block.parity = self._code.parity(block.sources, m, block.size)
        self._next_label = block.first_label + block.size - block.absent
        self._parity_sent += block.size - m
        return [
            self._packet(block, symbol, now_s, now_s, _stamp(now_s))
            for symbol in range(m, block.size)
        ]

    def due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """What time asks for: parity of a block whose time is over, then late parity, of which ``limit`` at most."""
        self._now_s = now_s
        closing = self._filling is not None and now_s >= self._closing_s(self._filling)
        return (self.flush(now_s) if closing else []) + super().packets_due(now_s, limit)

    def packets_due(self, now_s: float, limit: int = 64) -> list[OutgoingPacket]:
        """See ``due``."""
        return self.due(now_s, limit)

    def next_due_s(self) -> float:
        """When ``due`` has something to give (inf: never, if nothing is offered or reported)."""
        late_s = self._late[0][0] if self._late else math.inf
        return min(
            late_s, self._closing_s(self._filling) if self._filling is not None else math.inf
        )

    def _closing_s(self, block: SentBlock) -> float:
        patience = 1 if len(block.sources) >= FEW else PATIENCE
        return block.started_s + patience * self._policy.flush_s

    def _source_over(self) -> bool:
        return True

    def _label(self, block: SentBlock, symbol: int) -> int:
        return self._label_of(
            block.first_label + symbol - (block.absent if symbol >= self._m else 0)
        )

    def _size_at(self, begins_s: float) -> int:
        """As the clocked sender, but that silence counts from the first packet that a report should have followed."""
        size = self.control.block_size_at(begins_s)
        silent = (
            self._unheard_s > self._last_report_s
            and begins_s > self._unheard_s + self.parameters.silence_s
        )
        return min(self.control.largest, max(size, self.parameters.silent_size) if silent else size)

    def _size_now(self, block: SentBlock) -> int:
        size = self.block_size
        parity = (
            self._policy.parity_of(self._m - block.absent, size) if block.absent else size - self._m
        )
        return min(self.control.largest, self._m + max(0, parity))


def _stamp(now_s: float) -> int:
    return int(now_s * 1e6) % (1 << 32)


def _no_source(index: int) -> bytes:
    raise FecError(
        f"source packet {index}: this sender has no clock, so that packets are offered to it"
    )
