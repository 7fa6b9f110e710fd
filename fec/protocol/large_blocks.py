"""Transfers a file in large coded blocks (Gabrielyan 2007, section 4.3.3 and eq. 29).

Sender and receiver are state machines without I/O: the caller gives bytes and a time in seconds,
and gets packets and the time of the next one. The code of a block is an argument (RaptorQ or
Reed-Solomon).
"""

import hashlib
import math
import struct
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fec.errors import FecError, MalformedPacket
from fec.protocol.framing import VERSION, check_seal, checksum, signed

# version << 4 | type, flags, stream id, RFC 6330 payload id (block << 24 | symbol), symbols per
# block, number of blocks, symbol length, zero, time stamp in microseconds, CRC32: 24 bytes.
HEADER = struct.Struct(">BBHIHHHHII")

# version << 4 | type, flags, stream id, newest time stamp received, packets received, bitmap of
# decoded blocks, CRC32.
ACKNOWLEDGEMENT = struct.Struct(">BBHII32sI")
_BITMAP_BYTES = 32

# The types of packets.
LARGE_SYMBOL = 4
LARGE_ACKNOWLEDGEMENT = 5

MAX_BLOCKS = 256

# Maximum number of source symbols of a block of RFC 6330.
MAX_SYMBOLS = 56403

# Length and SHA-256 of the file, in front of it in the first block.
_PREAMBLE = struct.Struct(">Q32s")
PREAMBLE_BYTES = _PREAMBLE.size
_CRC_OFFSET = HEADER.size - 4

# Time stamps and counters are modulo 2^32. One that is less than half of this ahead is later.
_WORD = (1 << 32) - 1
_HALF_WORDS = 1 << 31

# Minimum number of packets sent between two measurements of the loss.
MEASURED_OVER = 100

# A sender that was delayed catches up on this time at most.
MAX_BURST_S = 0.05

# If more packets are lost, there is no path left, and a higher rate would not help. The rate then
# stays unchanged.
MAX_LOSS = 0.9

# If this much more arrives than was requested, the queue of the last link is full, and packets are
# lost there.
_EXTRA_SYMBOLS = 1.03


class BlockEncoder(Protocol):
    """Generates the symbols of one block."""

    def symbol(self, number: int) -> bytes:
        """Return a symbol; symbols below K are the source symbols."""
        ...


class BlockDecoder(Protocol):
    """Decodes one block from symbols in any order."""

    def add(self, number: int, symbol: bytes) -> bytes | None:
        """Add a symbol, and return the data of the block if it can be decoded."""
        ...


class BlockCode(Protocol):
    """A code for blocks of many symbols."""

    @property
    def name(self) -> str:
        """Name of the code."""
        ...

    @property
    def max_symbols(self) -> int:
        """Maximum number of source symbols of a block."""
        ...

    @property
    def excess(self) -> int:
        """Number of symbols beyond K that decoding may require, rounded up."""
        ...

    def encoder(self, data: bytes, symbol_bytes: int) -> BlockEncoder:
        """Return the encoder of a block with these source symbols."""
        ...

    def decoder(self, symbols: int, symbol_bytes: int) -> BlockDecoder:
        """Return the decoder of a block with this number of source symbols."""
        ...


class LargePacket(NamedTuple):
    """A packet to send.

    Attributes:
        label: Label of the packet.
        data: Content of the packet.
        block: Number of the block.
        symbol: Number of the symbol in the block.
    """

    label: int
    data: bytes
    block: int
    symbol: int


class LargeSymbol(NamedTuple):
    """A coded symbol of a file.

    Attributes:
        block: Number of the block.
        symbol_id: Number of the symbol.
        symbols: K, the number of source symbols of the block.
        blocks: Number of blocks of the file.
        stamp_us: Time stamp of the sender, modulo 2^32.
        symbol: The symbol.
    """

    block: int
    symbol_id: int
    symbols: int
    blocks: int
    stamp_us: int
    symbol: bytes


@dataclass(frozen=True, kw_only=True)
class LargeBlockParameters:
    """Parameters of a transfer.

    Attributes:
        symbol_bytes: Length of a symbol, a multiple of 8.
        block_symbols: K, the number of source symbols per block.
        arrival_pps: Packets per second that should arrive; the rate of the last link.
        max_pps: Maximum number of packets per second that are sent.
        ack_interval_s: Maximum time between two acknowledgements.
        stream_id: The stream.

    Raises:
        FecError: A value is out of range.
    """

    symbol_bytes: int = 1024
    block_symbols: int = 500
    arrival_pps: float = 500.0
    max_pps: float = 5000.0
    ack_interval_s: float = 0.05
    stream_id: int = 1

    def __post_init__(self) -> None:
        if not 8 <= self.symbol_bytes <= 8192 or self.symbol_bytes % 8:
            raise FecError(
                f"symbols of {self.symbol_bytes} bytes; give a multiple of 8 from 8 to 8192"
            )
        if not 1 <= self.block_symbols <= MAX_SYMBOLS:
            raise FecError(f"{self.block_symbols} symbols a block; give 1 to {MAX_SYMBOLS}")
        if not 0 < self.arrival_pps <= self.max_pps:
            raise FecError(
                f"{self.arrival_pps} packets/s arriving, {self.max_pps} sent: "
                "the first is above 0, the second no less"
            )


@dataclass
class _Block:
    """A block that the receiver has not decoded.

    Attributes:
        symbols: K.
        encoder: Its encoder; None before the first symbol.
        sent: Number of symbols that were sent.
    """

    symbols: int
    encoder: BlockEncoder | None
    sent: int = 0


class LargeBlockSender:
    """Sends the blocks of a file until the receiver has decoded them.

    Of each block, the sender first sends the number of symbols that should suffice at the current
    loss, which it measures from the acknowledgements. When there is no new block, it sends more
    symbols of the blocks that are not decoded. The rate follows the loss, so that ``arrival_pps``
    packets arrive (Gabrielyan 2007, section 4.3.3).

    Args:
        data: The file.
        parameters: The parameters of the transfer.
        code: The code of the blocks.
        labels: Returns the label of the packet with this number.

    Attributes:
        blocks: Number of blocks of the file.
        source_symbols: Number of source symbols of the file.
        sent: Number of packets sent.
        loss: The measured loss.
        skipped_s: Time for which the sender was delayed and on which it did not catch up.

    Raises:
        FecError: The file or a block is too large.
    """

    def __init__(
        self,
        data: bytes,
        parameters: LargeBlockParameters,
        code: BlockCode,
        labels: Callable[[int], int],
    ) -> None:
        if parameters.block_symbols > code.max_symbols:
            raise FecError(
                f"{code.name}: {parameters.block_symbols} symbols a block; "
                f"at most {code.max_symbols}"
            )
        content = _PREAMBLE.pack(len(data), hashlib.sha256(data).digest()) + data
        block_bytes = parameters.block_symbols * parameters.symbol_bytes
        if len(content) > MAX_BLOCKS * block_bytes:
            raise FecError(
                f"file of {len(data)} bytes in more than {MAX_BLOCKS} blocks of {block_bytes}; "
                "give larger blocks"
            )
        self.parameters = parameters
        self._code = code
        self._labels = labels
        # The content of each block, and the blocks that are not decoded.
        self._contents: list[bytes] = []
        self._blocks: dict[int, _Block] = {}
        self.source_symbols = 0
        for start in range(0, len(content), block_bytes):
            block_content = content[start : start + block_bytes]
            symbols = -(-len(block_content) // parameters.symbol_bytes)
            self._blocks[len(self._contents)] = _Block(symbols=symbols, encoder=None)
            self._contents.append(block_content)
            self.source_symbols += symbols
        self.blocks = len(self._contents)
        self.sent = 0
        self.loss = 0.0
        self._due_s = 0.0
        self.skipped_s = 0.0
        self._turn = 0
        # Time stamp and number of each packet after the newest one that was acknowledged, and of
        # that one.
        self._stamps: deque[tuple[int, int]] = deque()
        self._acknowledged = (0, 0)
        # Time stamp, packets sent and packets received at the last measurement.
        self._measured_at = (0, 0, 0)

    @property
    def done(self) -> bool:
        """True once the receiver has acknowledged every block."""
        return not self._blocks

    def next_due_s(self) -> float:
        """Return the time of the next packet, or infinity."""
        return math.inf if self.done else self._due_s

    def packets_due(self, now_s: float, limit: int = 64) -> list[LargePacket]:
        """Return the packets that are due, at most ``limit``.

        A sender that was delayed catches up on 50 ms at most. The rest of the delay is added to
        ``skipped_s``.
        """
        packets: list[LargePacket] = []
        skipped_s = max(0.0, now_s - MAX_BURST_S - self._due_s)
        self.skipped_s += skipped_s
        self._due_s += skipped_s
        while self._due_s <= now_s and len(packets) < limit and not self.done:
            packets.append(self._packet(now_s))
            pace = min(self.parameters.max_pps, self.parameters.arrival_pps / (1 - self.loss))
            self._due_s += 1 / pace
        return packets

    def receive(self, data: bytes) -> None:
        """Process an acknowledgement; any other packet is ignored."""
        try:
            newest_us, received, decoded = decode_acknowledgement(data, self.parameters.stream_id)
        except MalformedPacket:
            return
        for number in [n for n in self._blocks if decoded >> n & 1]:
            del self._blocks[number]
        self._measure(newest_us, received)

    def _packet(self, now_s: float) -> LargePacket:
        number = self._choose()
        block = self._blocks[number]
        if block.encoder is None:
            block_bytes = block.symbols * self.parameters.symbol_bytes
            content = self._contents[number].ljust(block_bytes, b"\0")
            block.encoder = self._code.encoder(content, self.parameters.symbol_bytes)
        symbol_id = block.sent
        block.sent += 1
        stamp_us = int(now_s * 1e6) & _WORD
        symbol = LargeSymbol(
            block=number,
            symbol_id=symbol_id,
            symbols=block.symbols,
            blocks=self.blocks,
            stamp_us=stamp_us,
            symbol=block.encoder.symbol(symbol_id),
        )
        data = encode_symbol(self.parameters.stream_id, symbol)
        label = self._labels(self.sent)
        self.sent += 1
        self._stamps.append((stamp_us, self.sent))
        return LargePacket(label, data, number, symbol_id)

    def _choose(self) -> int:
        """Return the block of the next packet.

        It is the first block of which fewer symbols were sent than should suffice, or otherwise one
        of the blocks that are not decoded, in turn.
        """
        for number, block in self._blocks.items():
            sufficient = (block.symbols + self._code.excess) / (1 - self.loss) + 1
            if block.sent < math.ceil(sufficient):
                return number
        numbers = list(self._blocks)
        self._turn += 1
        return numbers[self._turn % len(numbers)]

    def _measure(self, newest_us: int, received: int) -> None:
        """Measure the loss between two acknowledgements that are at least 100 packets apart.

        A sender that answers the losses of its own congestion with more packets would keep the
        queue full. If more packets arrive than were requested, only half of the loss is used.

        Args:
            newest_us: The newest time stamp received.
            received: Number of packets received.
        """
        while self._stamps and (newest_us - self._stamps[0][0]) & _WORD < _HALF_WORDS:
            self._acknowledged = self._stamps.popleft()
        stamp_us, sent = self._acknowledged
        last_us, last_sent, last_received = self._measured_at
        if sent - last_sent < MEASURED_OVER:
            return
        arrived = received - last_received
        span_s = ((stamp_us - last_us) & _WORD) / 1e6
        congested = arrived > _EXTRA_SYMBOLS * self.parameters.arrival_pps * span_s
        loss = max(0.0, 1 - arrived / (sent - last_sent))
        if loss <= MAX_LOSS:
            self.loss = loss / 2 if congested else loss
        self._measured_at = (stamp_us, sent, received)


class _PartialBlock(NamedTuple):
    """A block of which symbols have arrived, but not enough to decode it.

    Attributes:
        decoder: Its decoder.
        symbols: K.
        symbol_bytes: Length of a symbol.
    """

    decoder: BlockDecoder
    symbols: int
    symbol_bytes: int


class LargeBlockReceiver:
    """Decodes the blocks of a file from any symbols, and acknowledges them.

    Args:
        stream_id: The stream.
        code: The code of the blocks.
        ack_interval_s: Maximum time between two acknowledgements.

    Attributes:
        counters: Number of packets that were useful, that arrived after_decoding, and that were
            rejected for each reason.
        received: Number of valid packets.
        file: The file, when it is complete and its SHA-256 is correct.
        corrupted: The file is complete, and its SHA-256 is wrong.
        longest_s: Longest transit time of a packet, if sender and receiver have the same clock.
    """

    def __init__(self, stream_id: int, code: BlockCode, *, ack_interval_s: float = 0.05) -> None:
        self.counters: Counter[str] = Counter()
        self.received = 0
        self.file: bytes | None = None
        self.corrupted = False
        self._stream_id = stream_id
        self._code = code
        self._interval_s = ack_interval_s
        self._partial: dict[int, _PartialBlock] = {}
        self._decoded: dict[int, bytes] = {}
        self._blocks: int | None = None
        self.longest_s = 0.0
        self._newest_us = 0
        self._next_ack_s = math.inf
        self._urgent = False

    @property
    def done(self) -> bool:
        """True once every block is decoded."""
        return self._blocks is not None and len(self._decoded) == self._blocks

    def receive(self, data: bytes, now_s: float) -> None:
        """Process a packet; it is counted and ignored if it is not a valid symbol of this stream.

        Args:
            data: The packet.
            now_s: Time at the receiver.
        """
        try:
            packet = decode_symbol(data, self._stream_id)
            decoder = self._decoder(packet)
        except MalformedPacket as error:
            self.counters[error.reason] += 1
            return
        self.received += 1
        if self.received == 1 or 0 < (packet.stamp_us - self._newest_us) & _WORD < _HALF_WORDS:
            self._newest_us = packet.stamp_us
        delay_us = signed(int(now_s * 1e6) - packet.stamp_us, _WORD + 1)
        self.longest_s = max(self.longest_s, delay_us / 1e6)
        self._next_ack_s = min(self._next_ack_s, now_s + self._interval_s)
        if decoder is None:
            self.counters["after_decoding"] += 1
            return
        self.counters["useful"] += 1
        content = decoder.add(packet.symbol_id, packet.symbol)
        if content is not None:
            self._decoded[packet.block] = content
            self._partial.pop(packet.block)
            self._urgent = True
            if self.done:
                self._assemble()

    def next_deadline_s(self) -> float:
        """Return the time of the next acknowledgement, or infinity."""
        return -math.inf if self._urgent else self._next_ack_s

    def acknowledgements_due(self, now_s: float) -> list[bytes]:
        """Return the acknowledgement that is due, if any.

        It is due as soon as a block is decoded, and otherwise at every interval while packets
        arrive.
        """
        if not self._urgent and now_s < self._next_ack_s:
            return []
        self._urgent = False
        self._next_ack_s = now_s + self._interval_s
        return [
            encode_acknowledgement(self._stream_id, self._newest_us, self.received, self._decoded)
        ]

    def _decoder(self, packet: LargeSymbol) -> BlockDecoder | None:
        """Return the decoder of a packet's block, or None if the block is decoded.

        Raises:
            MalformedPacket: The packet contradicts an earlier one.
        """
        number = packet.block
        symbols = packet.symbols
        symbol_bytes = len(packet.symbol)
        if self._blocks is not None and packet.blocks != self._blocks:
            raise MalformedPacket(
                "block", f"a file of {packet.blocks} blocks where {self._blocks} were announced"
            )
        if symbols > self._code.max_symbols:
            raise MalformedPacket("block", f"{symbols} symbols in a block of {self._code.name}")
        self._blocks = packet.blocks
        if number in self._decoded:
            return None
        if number not in self._partial:
            try:
                decoder = self._code.decoder(symbols, symbol_bytes)
            except FecError as error:
                raise MalformedPacket("block", str(error)) from None
            self._partial[number] = _PartialBlock(decoder, symbols, symbol_bytes)
        block = self._partial[number]
        if symbols != block.symbols or symbol_bytes != block.symbol_bytes:
            raise MalformedPacket(
                "block", f"block {number} of {symbols} symbols where {block.symbols} were announced"
            )
        return block.decoder

    def _assemble(self) -> None:
        """Join the decoded blocks to the file, and check it."""
        content = b"".join(self._decoded[number] for number in range(len(self._decoded)))
        length, digest = _PREAMBLE.unpack_from(content.ljust(PREAMBLE_BYTES, b"\0"))
        file = content[PREAMBLE_BYTES : PREAMBLE_BYTES + length]
        self.corrupted = len(file) != length or hashlib.sha256(file).digest() != digest
        self.file = None if self.corrupted else file


def encode_symbol(stream_id: int, packet: LargeSymbol) -> bytes:
    """Return a packet with a symbol: 24 bytes of header, and the symbol; the CRC covers both."""
    front = HEADER.pack(
        VERSION << 4 | LARGE_SYMBOL,
        0,
        stream_id,
        packet.block << 24 | packet.symbol_id,
        packet.symbols,
        packet.blocks,
        len(packet.symbol),
        0,
        packet.stamp_us,
        0,
    )
    seal = checksum(front, packet.symbol)
    return b"".join((front[:_CRC_OFFSET], seal, packet.symbol))


def decode_symbol(data: bytes, stream_id: int) -> LargeSymbol:
    """Return the symbol in a packet of this stream.

    Raises:
        MalformedPacket: The packet is not valid. The error names the reason.
    """
    _check_kind(data, LARGE_SYMBOL, HEADER.size)
    _, flags, stream, payload_id, symbols, blocks, length, spare, stamp_us, _ = HEADER.unpack_from(
        data
    )
    if len(data) != HEADER.size + length:
        raise MalformedPacket(
            "length", f"packet of {len(data)} bytes, its length field says {HEADER.size + length}"
        )
    check_seal(memoryview(data), HEADER.size, False, None)
    if flags or spare or stream != stream_id:
        raise MalformedPacket(
            "flags", f"flags {flags:#x}, spare {spare:#x}, stream {stream}: not of this stream"
        )
    block = payload_id >> 24
    is_block = 1 <= blocks <= MAX_BLOCKS and block < blocks
    if not is_block or not 1 <= symbols <= MAX_SYMBOLS or length % 8 or length == 0:
        raise MalformedPacket(
            "block", f"block {block} of {blocks} with {symbols} symbols of {length} bytes"
        )
    return LargeSymbol(block, payload_id & 0xFFFFFF, symbols, blocks, stamp_us, data[HEADER.size :])


def encode_acknowledgement(
    stream_id: int, newest_us: int, received: int, decoded: dict[int, bytes]
) -> bytes:
    """Return the packet of an acknowledgement.

    Args:
        stream_id: The stream.
        newest_us: The newest time stamp received.
        received: Number of packets received.
        decoded: The decoded blocks by number.
    """
    bitmap = sum(1 << number for number in decoded).to_bytes(_BITMAP_BYTES, "big")
    front = ACKNOWLEDGEMENT.pack(
        VERSION << 4 | LARGE_ACKNOWLEDGEMENT,
        0,
        stream_id,
        newest_us,
        received & _WORD,
        bitmap,
        0,
    )
    return front[:-4] + zlib.crc32(front[:-4]).to_bytes(4, "big")


def decode_acknowledgement(data: bytes, stream_id: int) -> tuple[int, int, int]:
    """Decode an acknowledgement of this stream.

    Returns:
        The newest time stamp received, the number of packets received, and the bitmap of decoded
        blocks.

    Raises:
        MalformedPacket: The packet is not valid. The error names the reason.
    """
    _check_kind(data, LARGE_ACKNOWLEDGEMENT, ACKNOWLEDGEMENT.size)
    if len(data) != ACKNOWLEDGEMENT.size:
        raise MalformedPacket(
            "length", f"acknowledgement of {len(data)} bytes; it has {ACKNOWLEDGEMENT.size}"
        )
    _, flags, stream, newest_us, received, bitmap, crc = ACKNOWLEDGEMENT.unpack(data)
    if crc != zlib.crc32(data[:-4]):
        raise MalformedPacket("checksum", "acknowledgement's CRC does not match its bytes")
    if flags or stream != stream_id:
        raise MalformedPacket("flags", f"flags {flags:#x}, stream {stream}: not of this stream")
    return newest_us, received, int.from_bytes(bitmap, "big")


def _check_kind(data: bytes, kind: int, size: int) -> None:
    """Check the length, the version and the type of a packet."""
    if len(data) < size:
        raise MalformedPacket(
            "truncated", f"packet of {len(data)} bytes, shorter than its header of {size}"
        )
    if data[0] >> 4 != VERSION:
        raise MalformedPacket(
            "version", f"packet of version {data[0] >> 4}; this side speaks version {VERSION}"
        )
    if data[0] & 0x0F != kind:
        raise MalformedPacket("type", f"packet type {data[0] & 0x0F} where {kind} was expected")
