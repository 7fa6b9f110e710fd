"""What an erasure code offers to senders and receivers.

Protocols only, so that a large-block code (RaptorQ) or another engine fits in without touching its users.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview


class ErasureCode(Protocol):
    """A systematic code of ``source_packets`` symbols a block; symbol ids below that are the source symbols
    themselves."""

    @property
    def source_packets(self) -> int: ...

    @property
    def largest_block(self) -> int: ...

    def encode(self, packets: Sequence[BytesLike], count: int) -> list[bytes]:
        """The block's symbols 0 .. count - 1."""
        ...

    def parity(self, packets: Sequence[BytesLike], first: int, stop: int) -> list[bytes]:
        """The block's symbols first .. stop - 1, the same whatever else was sent of it."""
        ...

    def decode(self, symbols: Mapping[int, BytesLike]) -> list[bytes]:
        """All source symbols, from any that suffice; raises NotDecodable."""
        ...
