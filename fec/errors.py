"""Errors of fec: the caller's mistakes, symbols that do not suffice, and packets that are not ours.

Every message is one line that says what, where and how to fix it.
"""


class FecError(ValueError):
    """Root of the package's errors; raised itself for a parameter that cannot be used."""


class NotDecodable(FecError):
    """Fewer symbols than the block has source symbols: ``received`` of ``needed``."""

    def __init__(self, received: int, needed: int) -> None:
        super().__init__(f"block not decodable: {received} of its symbols received, {needed} needed; wait for more")
        self.received = received
        self.needed = needed


class EngineUnavailable(FecError):
    """A Reed-Solomon engine that this machine is missing, with what to install."""


class MalformedPacket(FecError):
    """Bytes that are not a packet of this protocol. ``reason`` is a short word to count rejections under."""

    reason: str = "malformed"


class TruncatedPacket(MalformedPacket):
    """Shorter than its header."""

    reason = "truncated"


class WrongVersion(MalformedPacket):
    """Another version of the protocol, or no packet of it at all."""

    reason = "version"


class WrongType(MalformedPacket):
    """An unknown packet type, or one that contradicts the symbol id."""

    reason = "type"


class UnknownFlags(MalformedPacket):
    """A flag that this version does not define."""

    reason = "flags"


class WrongLength(MalformedPacket):
    """Longer or shorter than its length fields say."""

    reason = "length"


class WrongChecksum(MalformedPacket):
    """The CRC does not match: damaged on the way, or forged."""

    reason = "checksum"


class WrongKey(MalformedPacket):
    """Sealed with another key than this side's, or without one, or with one where this side has none."""

    reason = "key"


class ImpossibleBlock(MalformedPacket):
    """Block parameters that no encoder makes: k = 0, k > N, a symbol id above 254."""

    reason = "block"


class ImpossiblePath(MalformedPacket):
    """A loss report on a path that cannot be: numbered 0, or more of them than fit."""

    reason = "path"
