"""The common fields of coded packets and loss reports: version, type, flags, session and seal.

The seal has four bytes. It is a CRC32, which detects damage, or with a key a keyed BLAKE2b of four
bytes (RFC 7693), which detects forgery. One of 2^32 forged packets is accepted, as with the short
tags of RFC 3711 for voice. The seal covers the complete packet, with zeros in its own field.
``row_seals`` computes the seals of many packets in one call.
"""

import hashlib
import zlib
from collections.abc import Callable
from enum import IntEnum
from hmac import compare_digest

from fec.errors import FecError, MalformedPacket

VERSION = 3

# Flag: the last four bytes of the header are a keyed hash instead of a CRC.
KEYED_FLAG = 0x02

# Flag: parity of a block with fewer source packets than M. The header says how many there are. The
# others are zeros, which both ends know.
SHORT_FLAG = 0x04

# Block numbers are modulo this.
BLOCK_NUMBERS = 1 << 24

MAX_SYMBOL_ID = 254
MAX_SESSION = (1 << 32) - 1
MAX_STREAM_ID = (1 << 16) - 1
MAX_SYMBOL_BYTES = 65_535
MIN_KEY_BYTES = 16
SEAL_BYTES = 4
NO_SEAL = bytes(SEAL_BYTES)
_MAX_KEY_BYTES = hashlib.blake2b.MAX_KEY_SIZE

# Returns the seal of a packet: the arguments are the header with zeros in the field of the seal,
# and the bytes that follow the header.
Seal = Callable[[bytes, bytes | memoryview], bytes]


class PacketType(IntEnum):
    """The type of a packet, in the low four bits of its first byte."""

    DATA = 1
    PARITY = 2
    REPORT = 3


def as_bytes(data: bytes | bytearray | memoryview) -> bytes:
    """Return the data as bytes.

    Other types are copied, because their owner may change them later.

    Raises:
        FecError: The data is not bytes-like.
    """
    if type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise FecError(f"a {type(data).__name__} where bytes were expected") from None


def checksum(front: bytes, body: bytes | memoryview) -> bytes:
    """Return the seal of a packet without a key, a CRC32."""
    return zlib.crc32(body, zlib.crc32(front)).to_bytes(SEAL_BYTES, "big")


def hash_key(key: bytes) -> bytes:
    """Return the key for BLAKE2b, which has at most 64 bytes; a longer key is hashed.

    Raises:
        FecError: The key is shorter than 16 bytes.
    """
    key = as_bytes(key)
    if len(key) < MIN_KEY_BYTES:
        raise FecError(f"a key of {len(key)} bytes; give at least {MIN_KEY_BYTES}")
    if len(key) > _MAX_KEY_BYTES:
        return hashlib.blake2b(key).digest()
    return key


def sealed_with(key: bytes | None) -> Seal:
    """Return the function that computes seals with a key, or CRC32s without one.

    Raises:
        FecError: The key is shorter than 16 bytes.

    >>> sealed_with(bytes(16))(b"header", b"symbol").hex()
    '176d2e8d'
    """
    if key is None:
        return checksum
    keyed = hashlib.blake2b(key=hash_key(key), digest_size=SEAL_BYTES)

    def seal(front: bytes, body: bytes | memoryview) -> bytes:
        # Hashing the key again for every packet would take 50 % longer.
        state = keyed.copy()
        state.update(front)
        state.update(body)
        return state.digest()

    return seal


def check_seal(data: memoryview, header_bytes: int, keyed: bool, seal: Seal | None) -> None:
    """Check that the last four bytes of the header are the seal of the packet.

    Args:
        data: The packet.
        header_bytes: Length of the header.
        keyed: The packet says that it is sealed with a key.
        seal: Computes seals with the key of this side. Without a key, a keyed packet is not
            checked.

    Raises:
        MalformedPacket: The seal is wrong, or the packet is not keyed but this side has a key.
    """
    if seal is not None and not keyed:
        raise MalformedPacket("key", "packet without a key where one is required")
    if keyed and seal is None:
        return
    seal_start = header_bytes - SEAL_BYTES
    expected = (seal or checksum)(bytes(data[:seal_start]) + NO_SEAL, data[header_bytes:])
    if not compare_digest(expected, data[seal_start:header_bytes]):
        if keyed:
            raise MalformedPacket("key", "packet sealed with another key, or changed on its way")
        raise MalformedPacket("checksum", "packet's CRC does not match its bytes")


def peek_type(data: bytes | bytearray | memoryview) -> PacketType:
    """Return the type of a packet from its first byte; nothing else is checked.

    Raises:
        MalformedPacket: The packet is empty, or version or type are unknown.
    """
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
    """Return the number in [-modulus / 2, modulus / 2) that is congruent to ``difference``.

    >>> signed(7, 8), signed(-4, 8)
    (-1, -4)
    """
    return (difference + modulus // 2) % modulus - modulus // 2
