"""Reads the packets of one stream at its receiver, and counts rejected datagrams by reason."""

from collections import Counter
from hmac import compare_digest
from typing import NamedTuple
from zlib import crc32

from fec.errors import MalformedPacket
from fec.protocol.framing import (
    KEYED_FLAG,
    MAX_SYMBOL_ID,
    NO_SEAL,
    VERSION,
    PacketType,
    as_bytes,
    checksum,
    sealed_with,
)
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.wire import CRC_OFFSET, HEADER, HEADER_BYTES, decode_header

# The first byte of a packet of parity, and of a packet of source data.
FIRST_BYTES = (VERSION << 4 | PacketType.PARITY, VERSION << 4 | PacketType.DATA)


class Packet(NamedTuple):
    """The fields of a packet of this stream.

    Attributes:
        session: Session of the sender.
        block: Number of the block, modulo 2^24.
        symbol: Number of the symbol.
        block_size: Block size N when the packet was sent.
        stamp_us: Time stamp of the sender, modulo 2^32.
        body: The symbol.
        path: Number of the path; 0 if paths are not numbered.
        path_sequence: Number of the packet on its path, modulo 2^16.
    """

    session: int
    block: int
    symbol: int
    block_size: int
    stamp_us: int
    body: bytes
    path: int
    path_sequence: int


# The fields of a `Packet` in its order. A tuple takes less time than a `Packet`, which only unusual
# packets need.
Fields = tuple[int, int, int, int, int, bytes, int, int]


class PacketReader:
    """Reads packets and rejects invalid ones, without raising an error.

    Attributes:
        rejected: Number of rejected datagrams by reason.
        seal: Computes the seals of the stream's key; None without a key.

    Raises:
        FecError: The key is too short.
    """

    def __init__(self, parameters: ReceiverParameters) -> None:
        key = parameters.key
        self.rejected: Counter[str] = Counter()
        self.seal = sealed_with(key) if key is not None else None
        self._flags = 0 if key is None else KEYED_FLAG
        self._stream_id = parameters.stream_id
        self._m = parameters.source_packets
        self._symbol_bytes = parameters.symbol_bytes
        self._packet_bytes = HEADER_BYTES + parameters.symbol_bytes

    def read(self, data: bytes) -> Fields | None:  # noqa: PLR0914 - the fields of a header
        """Return the fields of a packet, or None if it is rejected.

        This runs for every packet. A valid packet is therefore recognized here, without a call of
        ``decode_header``, which finds the reason for which another one is rejected.
        """
        data = as_bytes(data)
        if len(data) == self._packet_bytes:
            first, flags, stream, ids, session, k, n, path, sequence, length, stamp, crc = (
                HEADER.unpack_from(data)
            )
            body = data[HEADER_BYTES:]
            symbol = ids & 0xFF
            if flags != self._flags:
                sealed = False
            elif flags:
                sealed = self._is_sealed(data, body)
            else:
                sealed = crc32(body, crc32(NO_SEAL, crc32(data[:CRC_OFFSET]))) == crc
            if (
                sealed
                and k == self._m
                and n >= k
                and stream == self._stream_id
                and first == FIRST_BYTES[symbol < k]
                and symbol <= MAX_SYMBOL_ID
                and length == self._symbol_bytes
            ):
                return session, ids >> 8, symbol, n, stamp, body, path, sequence
        self.rejected[self._reason(data)] += 1
        return None

    def _is_sealed(self, data: bytes, body: bytes) -> bool:
        seal = self.seal or checksum
        expected = seal(data[:CRC_OFFSET] + NO_SEAL, body)
        return compare_digest(expected, data[CRC_OFFSET:HEADER_BYTES])

    def _reason(self, data: bytes) -> str:
        """Return the reason for which a datagram is not a packet of this stream, as a word."""
        try:
            header = decode_header(data, self.seal)
        except MalformedPacket as error:
            return error.reason
        if header.stream_id != self._stream_id:
            return "stream"
        if header.keyed and self.seal is None:
            return "key"
        return "shape"
