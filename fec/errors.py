"""The errors of ``fec``: invalid arguments, too few symbols, and invalid packets.

Every message is one line that says what is wrong, where, and how to fix it.
"""


class FecError(ValueError):
    """An argument is invalid. The other errors of the package are subclasses."""


class NotDecodable(FecError):
    """A block has fewer symbols than source symbols.

    Attributes:
        received: Number of symbols received.
        needed: Number of source symbols.
    """

    def __init__(self, received: int, needed: int) -> None:
        super().__init__(
            f"block not decodable: {received} of its symbols received, {needed} needed; "
            "wait for more"
        )
        self.received = received
        self.needed = needed


class EngineUnavailable(FecError):
    """A Reed-Solomon engine is missing on this machine. The message says what to install."""


class MalformedPacket(FecError):
    """Bytes are not a valid packet of this protocol.

    Attributes:
        reason: A short word, by which rejected packets are counted:

            - truncated: The packet is shorter than its header.
            - version: It has another version of the protocol, or is no packet of it.
            - type: The type is unknown, or contradicts the symbol id.
            - flags: This version does not define one of the flags.
            - length: The packet is longer or shorter than its length fields say.
            - checksum: It was corrupted in transit, or forged.
            - key: It is sealed with another key than this side's, or only one side has a key.
            - block: No encoder generates these parameters (M = 0, M > N, a symbol id above 254).
            - path: A loss report has counts for a path with number 0, or for too many paths.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
