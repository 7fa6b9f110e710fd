"""A file in large coded blocks, sent until it has arrived (Gabrielyan 2007, section 4.3.3 and eq. 29): sender and
receiver as state machines.

Sans-I/O: bytes and a time in seconds in, packets and a due time out. The code of a block is given (RaptorQ,
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
from fec.protocol.framing import VERSION, check_seal, checksum

HEADER = struct.Struct(">BBHIHHHHII")
"""version << 4 | type, flags, stream id, RFC 6330 payload id (block << 24 | symbol), symbols a block, blocks, symbol
bytes, zero, time stamp in microseconds, CRC32: 24 bytes."""
ACKNOWLEDGEMENT = struct.Struct(">BBHII32sI")
"""version << 4 | type, flags, stream id, newest time stamp seen, packets received, bitmap of decoded blocks, CRC32."""
LARGE_SYMBOL, LARGE_ACKNOWLEDGEMENT = 4, 5
MAX_BLOCKS = 256
MAX_SYMBOLS = 56403
"""Source symbols in one block of RFC 6330."""
_PREAMBLE = struct.Struct(">Q32s")
"""In front of the file inside its first block: its length and SHA-256."""
PREAMBLE_BYTES = _PREAMBLE.size
_CRC_OFFSET = HEADER.size - 4
MEASURED_OVER = 100
"""Packets sent between two measurements of the loss."""
MAX_BURST_S = 0.05
MAX_LOSS = 0.9
"""No rate makes up for more: where so much is lost, there is no way left, and the rate stays as it was before."""
_EXTRA_SYMBOLS = 1.03
"""Where so much more arrives than was requested, the last link's queue is full, and what is lost is lost there."""


class BlockEncoder(Protocol):
    """Gives any encoding symbol of one block; symbols below K are the data itself."""

    def symbol(self, number: int) -> bytes: ...


class BlockDecoder(Protocol):
    """Takes symbols of one block in any order; ``add`` returns the block's data once it can be decoded, else None."""

    def add(self, number: int, symbol: bytes) -> bytes | None: ...


class BlockCode(Protocol):
    """``most_symbols``: source symbols in one block; ``excess``: symbols beyond K that decoding may ask for, rounded
    up."""

    @property
    def name(self) -> str: ...
    @property
    def most_symbols(self) -> int: ...
    @property
    def excess(self) -> int: ...
    def encoder(self, data: bytes, symbol_bytes: int) -> BlockEncoder: ...
    def decoder(self, symbols: int, symbol_bytes: int) -> BlockDecoder: ...


class LargePacket(NamedTuple):
    """One packet to send: its label, its bytes, block and symbol number."""

    label: int
    data: bytes
    block: int
    symbol: int


@dataclass(frozen=True, kw_only=True)
class LargeBlockParameters:
    """``arrival_pps``: packets a second that shall arrive (the last link's rate); ``most_pps``: most that is ever sent.

    ``block_symbols``: source symbols a block (K); ``ack_interval_s``: the receiver reports at least so often.
    """

    symbol_bytes: int = 1024
    block_symbols: int = 500
    arrival_pps: float = 500.0
    most_pps: float = 5000.0
    ack_interval_s: float = 0.05
    stream_id: int = 1

    def __post_init__(self) -> None:
        if not 8 <= self.symbol_bytes <= 8192 or self.symbol_bytes % 8:
            raise FecError(
                f"symbols of {self.symbol_bytes} bytes; give a multiple of 8 from 8 to 8192"
            )
        if not 1 <= self.block_symbols <= MAX_SYMBOLS:
            raise FecError(f"{self.block_symbols} symbols a block; give 1 to {MAX_SYMBOLS}")
        if not 0 < self.arrival_pps <= self.most_pps:
            raise FecError(
                f"{self.arrival_pps} packets/s arriving, {self.most_pps} sent: the first is above 0, the second no less"
            )


@dataclass
class _Block:
    symbols: int
    encoder: BlockEncoder | None
    sent: int = 0


class LargeBlockSender:
    """Sends a file block after block, each until the receiver says that it is decoded.

    Of each block as many symbols as should suffice at the loss measured from the acknowledgements; what turns out to be
    missing is sent when nothing new is left. The rate follows the loss, so that ``arrival_pps`` arrive (Gabrielyan
    2007, section 4.3.3).
    """

    def __init__(
        self,
        data: bytes,
        parameters: LargeBlockParameters,
        code: BlockCode,
        labels: Callable[[int], int],
    ) -> None:
        p = self.parameters = parameters
        if p.block_symbols > code.most_symbols:
            raise FecError(
                f"{code.name}: {p.block_symbols} symbols a block; at most {code.most_symbols}"
            )
        whole = _PREAMBLE.pack(len(data), hashlib.sha256(data).digest()) + data
        size = p.block_symbols * p.symbol_bytes
        if len(whole) > MAX_BLOCKS * size:
            raise FecError(
                f"file of {len(data)} bytes in more than {MAX_BLOCKS} blocks of {size}; give larger blocks"
            )
        self._code, self._labels = code, labels
        self._pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        self._blocks = {
            i: _Block(symbols=-(-len(piece) // p.symbol_bytes), encoder=None)
            for i, piece in enumerate(self._pieces)
        }
        self.blocks = len(self._pieces)
        self.source_symbols = sum(block.symbols for block in self._blocks.values())
        self.sent = 0
        self.loss = 0.0
        self._due_s = self.skipped_s = 0.0
        self._turn = 0
        self._stamps: deque[tuple[int, int]] = deque()
        self._seen = (0, 0, 0)
        self._covered = (0, 0)

    @property
    def done(self) -> bool:
        """Whether the receiver has said that every block is decoded."""
        return not self._blocks

    def next_due_s(self) -> float:
        return math.inf if self.done else self._due_s

    def packets_due(self, now_s: float, limit: int = 64) -> list[LargePacket]:
        """What falls due until now, at most ``limit``; a sender that was kept waiting does not burst for longer than 50
        ms: the rest of its lag is added to ``skipped_s``."""
        packets: list[LargePacket] = []
        skipped_s = max(0.0, now_s - MAX_BURST_S - self._due_s)
        self.skipped_s += skipped_s
        self._due_s += skipped_s
        while self._due_s <= now_s and len(packets) < limit and not self.done:
            packets.append(self._packet(now_s))
            pace = min(self.parameters.most_pps, self.parameters.arrival_pps / (1 - self.loss))
            self._due_s += 1 / pace
        return packets

    def receive(self, data: bytes) -> None:
        """One acknowledgement; anything else is left alone."""
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
            piece = self._pieces[number].ljust(block.symbols * self.parameters.symbol_bytes, b"\0")
            block.encoder = self._code.encoder(piece, self.parameters.symbol_bytes)
        esi = block.sent
        block.sent += 1
        stamp = int(now_s * 1e6) & 0xFFFFFFFF
        symbol = LargeSymbol(
            number, esi, block.symbols, self.blocks, stamp, block.encoder.symbol(esi)
        )
        data = encode_symbol(self.parameters.stream_id, symbol)
        label = self._labels(self.sent)
        self.sent += 1
        self._stamps.append((stamp, self.sent))
        return LargePacket(label, data, number, esi)

    def _choose(self) -> int:
        """The first block that has not had what should suffice; else the unfinished ones in turn."""
        for number, block in self._blocks.items():
            if block.sent < math.ceil((block.symbols + self._code.excess) / (1 - self.loss) + 1):
                return number
        numbers = list(self._blocks)
        self._turn += 1
        return numbers[self._turn % len(numbers)]

    def _measure(self, newest_us: int, received: int) -> None:
        """Loss between two acknowledgements at least a hundred sent packets apart, by the time stamps they echo.

        A sender that answered the losses of its own congestion with more packets would keep the queue full: where more
        arrives than was requested, half of the loss is believed.
        """
        while self._stamps and (newest_us - self._stamps[0][0]) & 0xFFFFFFFF < 1 << 31:
            self._covered = self._stamps.popleft()
        (stamp_us, sent), (seen_us, seen_sent, seen_received) = self._covered, self._seen
        if sent - seen_sent < MEASURED_OVER:
            return
        arrived, span_s = received - seen_received, ((stamp_us - seen_us) & 0xFFFFFFFF) / 1e6
        congested = arrived > _EXTRA_SYMBOLS * self.parameters.arrival_pps * span_s
        loss = max(0.0, 1 - arrived / (sent - seen_sent))
        if loss <= MAX_LOSS:
            self.loss = loss / 2 if congested else loss
        self._seen = (stamp_us, sent, received)


class LargeBlockReceiver:
    """Decodes blocks from whatever symbols arrive, and acknowledges them; ``file`` is the whole, checked against its
    SHA-256.

    ``counters``: packets by what became of them: useful, after_decoding, and a word for each kind of damage.
    ``longest_s``: that a packet was under way, where the sender's clock is the receiver's.
    """

    def __init__(self, stream_id: int, code: BlockCode, *, ack_interval_s: float = 0.05) -> None:
        self.counters: Counter[str] = Counter()
        self.received = 0
        self.file: bytes | None = None
        self.corrupted = False
        self._stream_id, self._code, self._interval_s = stream_id, code, ack_interval_s
        self._decoders: dict[int, tuple[BlockDecoder, int, int]] = {}
        self._decoded: dict[int, bytes] = {}
        self._blocks: int | None = None
        self.longest_s = 0.0
        self._newest_us = 0
        self._next_ack_s = math.inf
        self._urgent = False

    @property
    def done(self) -> bool:
        """Whether every block is decoded."""
        return self._blocks is not None and len(self._decoded) == self._blocks

    def receive(self, data: bytes, now_s: float) -> None:
        """One packet of the network; what is not an undamaged symbol of this stream is counted and left alone."""
        try:
            number, symbol_id, symbols, blocks, stamp, symbol = decode_symbol(data, self._stream_id)
            decoder = self._decoder(number, symbols, blocks, len(symbol))
        except MalformedPacket as error:
            self.counters[error.reason] += 1
            return
        self.received += 1
        if self.received == 1 or 0 < (stamp - self._newest_us) & 0xFFFFFFFF < 1 << 31:
            self._newest_us = stamp
        delay_us = (int(now_s * 1e6) - stamp + (1 << 31)) % (1 << 32) - (1 << 31)
        self.longest_s = max(self.longest_s, delay_us / 1e6)
        self._next_ack_s = min(self._next_ack_s, now_s + self._interval_s)
        if decoder is None:
            self.counters["after_decoding"] += 1
            return
        self.counters["useful"] += 1
        found = decoder.add(symbol_id, symbol)
        if found is not None:
            self._decoded[number] = found
            self._decoders.pop(number)
            self._urgent = True
            if self.done:
                self._assemble()

    def next_deadline_s(self) -> float:
        return -math.inf if self._urgent else self._next_ack_s

    def acknowledgements_due(self, now_s: float) -> list[bytes]:
        """At most one packet: at once after a block was decoded, else at every interval while packets come."""
        if not self._urgent and now_s < self._next_ack_s:
            return []
        self._urgent = False
        self._next_ack_s = now_s + self._interval_s
        return [
            encode_acknowledgement(self._stream_id, self._newest_us, self.received, self._decoded)
        ]

    def _decoder(
        self, number: int, symbols: int, blocks: int, symbol_bytes: int
    ) -> BlockDecoder | None:
        """The block's decoder, None where it is decoded; MalformedPacket for one that contradicts what is known."""
        if self._blocks is not None and blocks != self._blocks:
            raise MalformedPacket(
                "block", f"a file of {blocks} blocks where {self._blocks} were announced"
            )
        if symbols > self._code.most_symbols:
            raise MalformedPacket("block", f"{symbols} symbols in a block of {self._code.name}")
        self._blocks = blocks
        if number in self._decoded:
            return None
        if number not in self._decoders:
            try:
                self._decoders[number] = (
                    self._code.decoder(symbols, symbol_bytes),
                    symbols,
                    symbol_bytes,
                )
            except FecError as error:
                raise MalformedPacket("block", str(error)) from None
        decoder, known_symbols, known_bytes = self._decoders[number]
        if (symbols, symbol_bytes) != (known_symbols, known_bytes):
            raise MalformedPacket(
                "block", f"block {number} of {symbols} symbols where {known_symbols} were announced"
            )
        return decoder

    def _assemble(self) -> None:
        whole = b"".join(self._decoded[i] for i in range(len(self._decoded)))
        length, digest = _PREAMBLE.unpack_from(whole.ljust(PREAMBLE_BYTES, b"\0"))
        file = whole[_PREAMBLE.size : _PREAMBLE.size + length]
        self.corrupted = len(file) != length or hashlib.sha256(file).digest() != digest
        self.file = None if self.corrupted else file


class LargeSymbol(NamedTuple):
    """One coded symbol of a file: symbol ``symbol_id`` of block ``block``, which has ``symbols`` source symbols; the
    file has ``blocks``. ``stamp_us``: the sender's time stamp, modulo 2^32."""

    block: int
    symbol_id: int
    symbols: int
    blocks: int
    stamp_us: int
    symbol: bytes


def encode_symbol(stream_id: int, packet: LargeSymbol) -> bytes:
    """One packet: 24 bytes of header, then the symbol; the CRC covers both."""
    block, symbol_id, symbols, blocks, stamp_us, symbol = packet
    front = HEADER.pack(
        VERSION << 4 | LARGE_SYMBOL,
        0,
        stream_id,
        block << 24 | symbol_id,
        symbols,
        blocks,
        len(symbol),
        0,
        stamp_us,
        0,
    )
    return b"".join((front[:_CRC_OFFSET], checksum(front, symbol), symbol))


def decode_symbol(data: bytes, stream_id: int) -> LargeSymbol:
    """The symbol in a packet; raises a MalformedPacket that names its reason."""
    _check_kind(data, LARGE_SYMBOL, HEADER.size)
    _, flags, stream, payload_id, symbols, blocks, length, spare, stamp, _ = HEADER.unpack_from(
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
    if (
        not 1 <= blocks <= MAX_BLOCKS
        or block >= blocks
        or not 1 <= symbols <= MAX_SYMBOLS
        or length % 8
        or not length
    ):
        raise MalformedPacket(
            "block", f"block {block} of {blocks} with {symbols} symbols of {length} bytes"
        )
    return LargeSymbol(block, payload_id & 0xFFFFFF, symbols, blocks, stamp, data[HEADER.size :])


def encode_acknowledgement(
    stream_id: int, newest_us: int, received: int, decoded: dict[int, bytes]
) -> bytes:
    """What the receiver has: the newest time stamp seen, packets received, decoded blocks."""
    bitmap = sum(1 << number for number in decoded).to_bytes(32, "big")
    front = ACKNOWLEDGEMENT.pack(
        VERSION << 4 | LARGE_ACKNOWLEDGEMENT,
        0,
        stream_id,
        newest_us,
        received & 0xFFFFFFFF,
        bitmap,
        0,
    )
    return front[:-4] + zlib.crc32(front[:-4]).to_bytes(4, "big")


def decode_acknowledgement(data: bytes, stream_id: int) -> tuple[int, int, int]:
    """Newest time stamp, packets received, bitmap of decoded blocks; raises a MalformedPacket."""
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
