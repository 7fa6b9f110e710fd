"""Arrays that a receiver shares with the C module.

One array has a single record, whose fields are attributes of the receiver. All fields have 64 bits.
``fec/protocol/_receiver.c`` declares the same records.
"""

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fec.protocol.open_blocks import FARTHEST_AHEAD

# Why ``receive`` of the C module stops before the end of a batch.
# The next packet is not an ordinary one; ``StreamReceiver`` has to receive it.
OTHER = 1
# With the last packet a block can be decoded, and Python has to decode it.
DECODABLE = 2
# Slots for blocks: 8192 may be open, and 4096 more may be opened at once.
SLOTS = 4 * FARTHEST_AHEAD
# Number of places; a place holds the symbols of one block that is open and not complete.
PLACES = 2 * FARTHEST_AHEAD + 1
_TIMES = (
    "newest_at_s",
    "alive_s",
    "window_s",
    "offset_s",
    "least_s",
    "usual_s",
    "closing_s",
    "worst_reordering_s",
)
_FIXED_TIMES = ("playback_s", "quicker_s", "latest_s")
COUNTED = (
    "duplicate",
    "reordered",
    "unused_parity",
    "unused_sources",
    "decoded_blocks",
    "recovered",
)
_BLOCKS = (
    "highest",
    "oldest",
    "stop",
    "touched",
    "in_time",
    "urgent",
    "decodable",
    "free",
    "accepted",
    "delivered",
)
_PACKETS = (
    "known",
    "newest_us",
    "session",
    "waiting",
    "next",
    "count",
    "noted",
    "logged",
    "restored",
)
_FIXED = ("m", "half", "symbol_bytes", "flags", "stream_id", "prepare_at", "multiply_at")
# - ``known``: whether ``newest_us``, the newest time stamp, is known
# - ``oldest``, ``stop``: the open blocks, from the oldest up to, but not including, ``stop``
# - ``touched``: the lowest block with a symbol that no report contains yet
# - ``alarm_s``: when a block could not be repaired, or minus infinity
# - ``next``, ``count``: the next packet of the batch, and the number of packets
# - ``noted``, ``logged``, ``restored``: number of used rows of ``noted``, of ``log``, and for
#   recovered symbols
# - ``prepare_at``, ``multiply_at``: addresses of ISA-L's functions, or 0
RECEIVER = np.dtype(
    [(name, "f8") for name in (*_TIMES, *_FIXED_TIMES, "alarm_s")]
    + [(name, "i8") for name in (*COUNTED, *_BLOCKS, *_PACKETS, *_FIXED)]
)
_BLOCK = ("number", "start_us", "size", "arrived", "top", "complete", "spoilt", "place")
# ``top`` is one more than the highest symbol that has arrived. ``place`` is the index of the
# block's symbols in ``ReceiverTables.bodies``, or -1 if it has none.
BLOCK = np.dtype([(name, "i8") for name in _BLOCK])


class ReceiverTables(NamedTuple):
    """The arrays that the C module works on, in its order.

    Attributes:
        receiver: One ``RECEIVER``.
        blocks: A ``BLOCK`` in the slot of its number.
        bits: Bitmap of the symbols of each block that have arrived.
        symbols: Numbers of the symbols at each place, in the order of their arrival.
        bodies: Bytes of the symbols at each place, until their block is complete.
        free: The free places; the place that was released last is at the end.
        paths: See ``fec.protocol.path_counts.PathArrivals``.
        schedule: See ``fec.protocol.probation.Schedule``.
        rows: The packets of a batch, then ``MAX_RECEIVED`` rows for symbols that the code recovers.
        lengths: Bytes of each packet.
        times: When each packet arrived.
        good: Whether the seal of each packet is right.
        noted: A row for each event, with five numbers. For a delivered source packet: its index,
            where its payload begins and stops in the used part of ``rows``, 1 if it was recovered,
            and the packet of the batch that caused the event. For a complete block: its number, -1,
            the packets that arrived, the source packets that were recovered, and the packet of the
            batch.
        log: Time, block number as in the packet, and symbol of each packet of the stream.
        coefficients: Memory for the decoding matrix and for ISA-L's tables.
        powers: Powers of the generator of the field.
        logarithms: Logarithms in the field.
    """

    receiver: NDArray[Any]
    blocks: NDArray[Any]
    bits: NDArray[np.int64]
    symbols: NDArray[np.uint8]
    bodies: NDArray[np.uint8]
    free: NDArray[np.int64]
    paths: NDArray[np.int64]
    schedule: NDArray[np.float64]
    rows: NDArray[np.uint8]
    lengths: NDArray[np.int64]
    times: NDArray[np.float64]
    good: NDArray[np.uint8]
    noted: NDArray[np.int64]
    log: NDArray[np.float64]
    coefficients: NDArray[np.uint8]
    powers: NDArray[np.uint8]
    logarithms: NDArray[np.int64]


class Tabled:
    """An object that keeps some attributes in the fields of a record.

    Attributes:
        table: An array with the one record.
        integers: All fields, read as integers, by index.
        reals: All fields, read as floating point numbers, by index.
    """

    def keep_in(self, table: NDArray[Any]) -> None:
        """Keep the attributes in this record."""
        self.table = table
        self.integers: Any = memoryview(table.view(np.int64))  # type: ignore[arg-type]
        self.reals: Any = memoryview(table.view(np.float64))  # type: ignore[arg-type]

    def write(self, **values: float) -> None:
        """Set the fields of these names."""
        for name, value in values.items():
            self.table[name] = value


def fields(record: np.dtype[Any], *names: str) -> list[Any]:
    """Return properties that read and write these fields."""
    return [_field(record, name) for name in names]


def _field(record: np.dtype[Any], name: str) -> Any:
    index = (record.names or ()).index(name)
    view = attrgetter("reals" if record[name].kind == "f" else "integers")

    def read(owner: Tabled) -> Any:
        return view(owner)[index]

    def write(owner: Tabled, value: Any) -> None:
        view(owner)[index] = value

    return property(read, write)
