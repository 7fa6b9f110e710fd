"""What a stream's receiver is told beforehand, keeps of a block, and tells: source packets delivered, blocks complete,
blocks and packets lost for good (named tuples, because there is one for every packet).
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from fec.code.checked import whole
from fec.errors import FecError
from fec.protocol.framing import MAX_STREAM_ID, MAX_SYMBOL_BYTES, MAX_SYMBOL_ID


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


class PlayoutMoved(NamedTuple):
    """Blocks on end came whole but too late: from now on they are played out ``later_s`` later."""

    later_s: float
    at_s: float


Event: TypeAlias = (
    SourceDelivered
    | BlockComplete
    | BlockUndecodable
    | BlocksSkipped
    | StreamRestarted
    | PlayoutMoved
)


@dataclass(slots=True)
class OpenBlock:
    """``start_us``: when its first packet was sent, on the sender's clock; ``size``: N as its packets say; ``symbols``:
    what came of it, until it is complete; ``bitmap``: bit e for symbol e; ``spoilt``: bit i for a source packet that
    was decoded and could not be read."""

    number: int
    start_us: int
    size: int
    symbols: dict[int, bytes] = field(default_factory=dict)
    bitmap: int = 0
    complete: bool = False
    spoilt: int = 0


@dataclass(frozen=True, kw_only=True)
class ReceiverParameters:
    """FecError for values that cannot be used.

    ``playback_s``: a block is over so long after its first packet was sent. A report is due every ``report_interval_s``
    or ``report_packets`` packets, and ``urgent_s`` after the last one when a block cannot be repaired by what was sent
    of it. ``key``: of 16 bytes or more, the sender's; packets without its seal are refused, and reports bear it.
    """

    source_packets: int
    symbol_bytes: int
    playback_s: float = 0.4
    report_interval_s: float = 0.1
    report_packets: int = 100
    urgent_s: float = 0.02
    stream_id: int = 1
    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        whole(self.source_packets, "source_packets", 1, MAX_SYMBOL_ID)
        whole(self.symbol_bytes, "symbol_bytes", 3, MAX_SYMBOL_BYTES)
        whole(self.stream_id, "stream_id", 0, MAX_STREAM_ID)
        if not all(
            v > 0
            for v in (self.playback_s, self.report_interval_s, self.report_packets, self.urgent_s)
        ):
            raise FecError(
                "playback, report interval, report packets and urgent interval must all be above 0"
            )
