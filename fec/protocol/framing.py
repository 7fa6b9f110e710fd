"""What coded packets and loss reports have in common: version, type, flags, session, and the four bytes that hold one
together.

Those four bytes are a CRC32 against damage, or with a key a keyed BLAKE2b of four bytes (RFC 7693) against forgery: a
forged packet passes once in 2^32 tries, as with the short tags of RFC 3711 for voice. Either covers the whole packet
with its own field taken as zero. ``row_seals`` computes the seals of many packets in one call.
"""

import hashlib
import zlib
from collections.abc import Callable
from enum import IntEnum
from hmac import compare_digest

from fec.errors import FecError, MalformedPacket

VERSION = 3
KEYED_FLAG = 0x02
"""The last four bytes of the header are a keyed hash, not a CRC."""
SHORT_FLAG = 0x04
"""Parity of a block with fewer source packets than M, as many as the header says: the others are zeros that both ends
know."""
BLOCK_NUMBERS = 1 << 24
"""Source block numbers before they repeat."""
MAX_SYMBOL_ID = 254
MAX_SESSION, MAX_STREAM_ID, MAX_SYMBOL_BYTES = (1 << 32) - 1, (1 << 16) - 1, 65_535
MIN_KEY_BYTES = 16
SEAL_BYTES = 4
NO_SEAL = bytes(SEAL_BYTES)
_MAX_KEY_BYTES = hashlib.blake2b.MAX_KEY_SIZE

Seal = Callable[[bytes, bytes | memoryview], bytes]
"""(header with zeros where the seal goes, what follows it) -> four bytes."""


class PacketType(IntEnum):
    """Low four bits of the first byte."""

    DATA = 1
    PARITY = 2
    REPORT = 3


def as_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """A copy of what is no bytes, whose owner may write into it again. FecError for what has no bytes."""
    if type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise FecError(f"a {type(data).__name__} where bytes were expected") from None


def checksum(front: bytes, rest: bytes | memoryview) -> bytes:
    """The seal of those who have no key."""
    return zlib.crc32(rest, zlib.crc32(front)).to_bytes(SEAL_BYTES, "big")


def hash_key(key: bytes) -> bytes:
    """Return the key as BLAKE2b takes it: at most 64 bytes, so that a longer key is hashed first.

    Raises:
        FecError: The key is shorter than 16 bytes.
    """
    key = as_bytes(key)
    if len(key) < MIN_KEY_BYTES:
        raise FecError(f"a key of {len(key)} bytes; give at least {MIN_KEY_BYTES}")
    return hashlib.blake2b(key).digest() if len(key) > _MAX_KEY_BYTES else key


def sealed_with(key: bytes | None) -> Seal:
    """Return the seal under a key of at least 16 bytes, or the CRC32 without one.

    Raises:
        FecError: The key is shorter than 16 bytes.

    >>> sealed_with(bytes(16))(b"header", b"symbol").hex()
    '176d2e8d'
    """
    if key is None:
        return checksum
    keyed = hashlib.blake2b(key=hash_key(key), digest_size=SEAL_BYTES)

    def seal(front: bytes, rest: bytes | memoryview) -> bytes:
        # To hash the key again for every packet would take half as long again.
        state = keyed.copy()
        state.update(front)
        state.update(rest)
        return state.digest()

    return seal


def check_seal(data: memoryview, header_bytes: int, keyed: bool, seal: Seal | None) -> None:
    """Whether the last four bytes of a header are the seal of the whole packet. ``keyed``: the packet says that it has
    one of a key; ``seal``: of this side's key. Raises MalformedPacket."""
    if seal is not None and not keyed:
        raise MalformedPacket("key", "packet without a key where one is required")
    if keyed and seal is None:
        return
    at = header_bytes - SEAL_BYTES
    right = (seal or checksum)(bytes(data[:at]) + NO_SEAL, data[header_bytes:])
    if not compare_digest(right, data[at:header_bytes]):
        if keyed:
            raise MalformedPacket("key", "packet sealed with another key, or changed on its way")
        raise MalformedPacket("checksum", "packet's CRC does not match its bytes")


def peek_type(data: bytes | bytearray | memoryview) -> PacketType:
    """Type of a packet by its first byte (nothing else is checked); raises MalformedPacket."""
    if len(data) < 1:
        raise MalformedPacket("truncated", "empty packet: no version, no type")
    if data[0] >> 4 != VERSION:
        raise MalformedPacket(
            "version", f"packet of version {data[0] >> 4}; this side speaks version {VERSION}"
        )
    try:
        return PacketType(data[0] & 0x0F)
    except ValueError:
        raise MalformedPacket("type", f"packet type {data[0] & 0x0F} is not known") from None


def signed(difference: int, modulus: int) -> int:
    """The number congruent to ``difference`` in [-modulus / 2, modulus / 2).

    >>> signed(7, 8), signed(-4, 8)
    (-1, -4)
    """
    return (difference + modulus // 2) % modulus - modulus // 2
