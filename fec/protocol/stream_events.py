"""What a stream's receiver tells: source packets delivered, blocks complete, blocks and packets lost for good.

Named tuples, because there is one for every packet.
"""

from typing import NamedTuple, TypeAlias


class SourceDelivered(NamedTuple):
    """Source packet ``index`` is there for the listener; ``recovered``: by the code, not by arriving itself."""

    index: int  # type: ignore[assignment]
    payload: bytes
    at_s: float
    recovered: bool


class BlockComplete(NamedTuple):
    """M symbols of a block are there, ``arrived`` packets of it in all; ``recovered`` source packets came from the
    code."""

    block: int
    arrived: int
    recovered: int
    at_s: float


class BlockUndecodable(NamedTuple):
    """A block's playback deadline passed with ``arrived`` < M symbols; ``missing`` source packets are lost."""

    block: int
    arrived: int
    missing: int
    at_s: float


class BlocksSkipped(NamedTuple):
    """The stream moved on farther than a receiver keeps blocks for: all of blocks first .. stop - 1 are lost."""

    first: int
    stop: int
    at_s: float


class StreamRestarted(NamedTuple):
    """Another sequence of packets is followed, from ``block`` on: its sender was started again."""

    block: int
    at_s: float


Event: TypeAlias = SourceDelivered | BlockComplete | BlockUndecodable | BlocksSkipped | StreamRestarted
