"""Errors of fec: the caller's mistakes, symbols that do not suffice, and packets that are not ours.

Every message is one line that says what, where and how to fix it.
"""


class FecError(ValueError):
    """Root of the package's errors; raised itself for a parameter that cannot be used."""


class NotDecodable(FecError):
    """Fewer symbols than the block has source symbols: ``received`` of ``needed``."""

    def __init__(self, received: int, needed: int) -> None:
        super().__init__(
            f"block not decodable: {received} of its symbols received, {needed} needed; wait for more"
        )
        self.received = received
        self.needed = needed


class EngineUnavailable(FecError):
    """A Reed-Solomon engine that this machine is missing, with what to install."""


class MalformedPacket(FecError):
    """Bytes that are not a packet of this protocol. ``reason``, a short word to count rejections under:

    truncated: shorter than its header; version: of another version of the protocol, or no packet of it at all; type:
    unknown, or one that contradicts the symbol id; flags: one that this version does not define; length: longer or
    shorter than its length fields say; checksum: damaged on the way, or forged; key: sealed with another key than this
    side's, or without one, or with one where this side has none; block: parameters that no encoder makes (k = 0, k > N,
    a symbol id above 254); path: a loss report on one that cannot be, numbered 0, or more of them than fit.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
