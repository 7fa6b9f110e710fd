"""Datagrams of one stream taken apart at its receiver; what does not belong to it is counted by reason."""

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

FIRST_BYTES = (VERSION << 4 | PacketType.PARITY, VERSION << 4 | PacketType.DATA)


class Packet(NamedTuple):
    """The fields of a packet of this stream, as they stand in its header."""

    session: int
    block: int
    symbol: int
    block_size: int
    stamp_us: int
    body: bytes
    path: int
    path_sequence: int


Fields = tuple[int, int, int, int, int, bytes, int, int]
"""Those of a ``Packet`` in its order: to name them takes time, and only packets out of the ordinary need it."""
_unpack = HEADER.unpack_from


class PacketReader:
    """``read`` gives a packet's fields, or None and one more in ``rejected``; nothing is raised, whatever the bytes
    are.

    FecError for a key that is too short.
    """

    def __init__(self, parameters: ReceiverParameters) -> None:
        key = parameters.key
        self.rejected: Counter[str] = Counter()
        self.seal = sealed_with(key) if key is not None else None
        self._flags = 0 if key is None else KEYED_FLAG
        self._stream_id, self._m = parameters.stream_id, parameters.source_packets
        self._symbol_bytes = parameters.symbol_bytes
        self._packet_bytes = HEADER_BYTES + parameters.symbol_bytes

    def read(self, data: bytes) -> Fields | None:
        data = as_bytes(data)
        if len(data) == self._packet_bytes:
            first, flags, stream, ids, session, k, n, path, sequence, length, stamp, crc = _unpack(
                data
            )
            body = data[HEADER_BYTES:]
            symbol = ids & 0xFF
            if (
                flags == self._flags
                and (
                    self._is_sealed(data, body)
                    if flags
                    else crc32(body, crc32(NO_SEAL, crc32(data[:CRC_OFFSET]))) == crc
                )
                and k == self._m <= n
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
        return compare_digest(
            seal(data[:CRC_OFFSET] + NO_SEAL, body), data[CRC_OFFSET:HEADER_BYTES]
        )

    def _reason(self, data: bytes) -> str:
        """Why a datagram is no packet of this stream, in a word."""
        try:
            header = decode_header(data, self.seal)
        except MalformedPacket as error:
            return error.reason
        if header.stream_id != self._stream_id:
            return "stream"
        if header.keyed and self.seal is None:
            return "key"
        return "shape"
