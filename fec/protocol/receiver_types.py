"""The parameters of a receiver, its open blocks, and the events that it returns.

Events are named tuples, because there is one for every packet.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from fec.code.checked import whole
from fec.errors import FecError
from fec.protocol.framing import MAX_STREAM_ID, MAX_SYMBOL_BYTES, MAX_SYMBOL_ID


class SourceDelivered(NamedTuple):
    """A source packet is delivered.

    Attributes:
        index: Number of the packet in the stream.
        payload: Payload of the packet.
        at_s: Time of the delivery.
        recovered: The code recovered the packet.
    """

    index: int  # type: ignore[assignment]
    payload: bytes
    at_s: float
    recovered: bool


class BlockComplete(NamedTuple):
    """A block is complete, because M of its symbols have arrived.

    Attributes:
        block: Number of the block.
        arrived: Number of its packets that have arrived.
        recovered: Number of source packets that the code recovered.
        at_s: Time of the event.
    """

    block: int
    arrived: int
    recovered: int
    at_s: float


class BlockUndecodable(NamedTuple):
    """The deadline of a block has passed, and fewer than M of its symbols have arrived.

    Attributes:
        block: Number of the block.
        arrived: Number of symbols that have arrived.
        missing: Number of source packets that are lost.
        at_s: Time of the event.
    """

    block: int
    arrived: int
    missing: int
    at_s: float


class BlocksSkipped(NamedTuple):
    """The stream has jumped ahead by more blocks than a receiver can hold.

    Attributes:
        first: The first block that is lost.
        stop: The first block after those that are lost.
        at_s: Time of the event.
    """

    first: int
    stop: int
    at_s: float


class StreamRestarted(NamedTuple):
    """The receiver follows a new sequence of packets, because the sender has restarted.

    Attributes:
        block: The first block of the new sequence.
        at_s: Time of the event.
    """

    block: int
    at_s: float


class PlayoutMoved(NamedTuple):
    """Playback is delayed, because several blocks in a row were complete but too late.

    Attributes:
        later_s: The additional delay, in seconds.
        at_s: Time of the event.
    """

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
    """A block whose deadline has not passed.

    Attributes:
        number: Number of the block.
        start_us: Time at which its first packet was sent, on the sender's clock.
        size: Block size N, from its packets.
        symbols: The symbols that have arrived; empty when the block is complete.
        bitmap: Bit e is set if symbol e has arrived.
        complete: M symbols have arrived.
        spoilt: Bit i is set if source packet i was decoded, but its content is invalid.
    """

    number: int
    start_us: int
    size: int
    symbols: dict[int, bytes] = field(default_factory=dict)
    bitmap: int = 0
    complete: bool = False
    spoilt: int = 0


@dataclass(frozen=True, kw_only=True)
class ReceiverParameters:
    """Parameters of a receiver.

    Attributes:
        source_packets: M, the number of source packets per block.
        symbol_bytes: Length of a symbol.
        playback_s: Time from the sending of a block's first packet until the block is closed, in
            seconds.
        report_interval_s: Time from one loss report to the next, in seconds.
        report_packets: Number of packets after which a report is sent sooner.
        urgent_s: Time to the next report if more packets of a block are lost than its parity can
            repair, in seconds.
        stream_id: Number of the stream.
        key: The sender's key, at least 16 bytes. Packets without its seal are rejected, and reports
            are sealed with it. None for no key.

    Raises:
        FecError: A value is out of range.
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
        positive = (self.playback_s, self.report_interval_s, self.report_packets, self.urgent_s)
        if not all(value > 0 for value in positive):
            raise FecError(
                "playback, report interval, report packets and urgent interval must all be above 0"
            )
