"""Links of different capacity and messages of different size, as equal chunks over equal channels.

The thesis assumes equal links and messages. Here they are made equal, with a bound on the
throughput that this costs. The result is a traffic of plain transfers, which every scheduler takes.
Multicast (one message to many receivers) is not covered: its copies are separate transfers.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import InputError

Name = Hashable

MAX_CHUNKS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """Messages as equal chunks over equal channels.

    A schedule of T time frames lasts T * ``frame_s``.

    Attributes:
        transfers: The channels of each chunk, each as a link and the number of the channel.
        message: Number of the message of each chunk.
        chunk_bytes: Size of a chunk in bytes.
        channel_bps: Rate of a channel in bits per second.
        channels: Number of channels of each link.
        bottleneck_load: Number of time frames of a liquid schedule of the chunks.
        fluid_s: Time in seconds that the busiest link needs for its bytes. No schedule can be
            shorter, however small its chunks.
        bound: Largest possible ``loss``.
    """

    transfers: tuple[tuple[tuple[Name, int], ...], ...]
    message: tuple[int, ...]
    chunk_bytes: int
    channel_bps: Fraction
    channels: Mapping[Name, int]
    bottleneck_load: int
    fluid_s: Fraction
    bound: Fraction

    @property
    def frame_s(self) -> Fraction:
        """Duration of a time frame in seconds."""
        return self.chunk_bytes * 8 / self.channel_bps

    @property
    def liquid_s(self) -> Fraction:
        """Duration of a liquid schedule of the chunks in seconds."""
        return self.bottleneck_load * self.frame_s

    @property
    def loss(self) -> Fraction:
        """Share of the throughput that chunks and channels cost a liquid schedule."""
        return 1 - self.fluid_s / self.liquid_s


def split_messages(
    paths: Sequence[Sequence[Name]],
    sizes_bytes: Sequence[int],
    capacities_bps: Mapping[Name, float],
    *,
    chunk_bytes: int,
    channel_bps: float | None = None,
) -> Chunks:
    """Divide messages into equal chunks, and links into equal channels.

    A message becomes ceil(size / chunk) transfers, the last of which is filled up. A link of
    capacity C has floor(C / channel) channels. Chunks take the channels of a link in turn, so no
    channel carries more than ceil(chunks / channels). Therefore the time of the busiest link, and
    with it the liquid schedule, remains the same.

    The loss is at most 1 - 1 / ((1 + a)(1 + b) + c). Here a = chunk / smallest message (filling
    up); b is the largest part of a capacity that its channels leave over; and c = duration of a
    frame / duration of the exchange (the last frame of a link whose channels do not divide its
    chunks).

    Args:
        paths: The links of each message.
        sizes_bytes: Size of each message in bytes.
        capacities_bps: Capacity of each link in bits per second.
        chunk_bytes: Size of a chunk in bytes.
        channel_bps: Rate of a channel in bits per second; the smallest capacity by default.

    Raises:
        InputError: An argument is invalid, or there would be more than MAX_CHUNKS chunks.
    """
    _check_arguments(paths, sizes_bytes, capacities_bps, chunk_bytes)
    capacities = {}
    for path in paths:
        for link in path:
            capacities[link] = Fraction(capacities_bps[link])
    smallest_capacity = min(capacities.values())
    rate = smallest_capacity if channel_bps is None else Fraction(channel_bps)
    if not 0 < rate <= smallest_capacity:
        raise InputError(
            f"channels of {float(rate):g} bit/s: give more than 0 and at most the least capacity, "
            f"{float(smallest_capacity):g}"
        )
    channels = {link: int(capacity // rate) for link, capacity in capacities.items()}
    transfers = []
    message = []
    # Number of chunks, and of bytes, over each link.
    chunks_over = Counter[Name]()
    bytes_over = Counter[Name]()
    for i, (path, size) in enumerate(zip(paths, sizes_bytes, strict=True)):
        links = set(path)
        for _ in range(_chunks_of(size, chunk_bytes)):
            transfers.append(tuple((link, chunks_over[link] % channels[link]) for link in path))
            message.append(i)
            chunks_over.update(links)
        for link in links:
            bytes_over[link] += size
    fluid_s = max(bytes_over[link] * 8 / capacity for link, capacity in capacities.items())
    return Chunks(
        transfers=tuple(transfers),
        message=tuple(message),
        chunk_bytes=chunk_bytes,
        channel_bps=rate,
        channels=channels,
        bottleneck_load=max(-(-chunks_over[link] // channels[link]) for link in channels),
        fluid_s=fluid_s,
        bound=_loss_bound(
            padding=_padding(sizes_bytes, chunk_bytes),
            left_over=_left_over(capacities, channels, rate),
            last_frame=_last_frame(chunks_over, channels, chunk_bytes * 8 / rate / fluid_s),
        ),
    )


def _chunks_of(size_bytes: int, chunk_bytes: int) -> int:
    """Return the number of chunks of a message; the last one may be filled up."""
    return -(-size_bytes // chunk_bytes)


def _padding(sizes_bytes: Sequence[int], chunk_bytes: int) -> Fraction:
    """Return the largest part by which filling up chunks can lengthen a message."""
    if any(size % chunk_bytes for size in sizes_bytes):
        return Fraction(chunk_bytes, min(sizes_bytes))
    return Fraction(0)


def _left_over(
    capacities: Mapping[Name, Fraction], channels: Mapping[Name, int], rate: Fraction
) -> Fraction:
    """Return the largest ratio of capacity that channels leave over to capacity that they use.

    Args:
        capacities: Capacity of each link in bits per second.
        channels: Number of channels of each link.
        rate: Rate of a channel in bits per second.
    """
    return max(capacities[link] / (number * rate) - 1 for link, number in channels.items())


def _last_frame(
    chunks_over: Mapping[Name, int], channels: Mapping[Name, int], frame_part: Fraction
) -> Fraction:
    """Return the part of the exchange that incomplete last frames can cost.

    Args:
        chunks_over: Number of chunks over each link.
        channels: Number of channels of each link.
        frame_part: Duration of a frame over duration of the exchange.
    """
    if any(chunks_over[link] % number for link, number in channels.items()):
        return frame_part
    return Fraction(0)


def _loss_bound(*, padding: Fraction, left_over: Fraction, last_frame: Fraction) -> Fraction:
    return 1 - 1 / ((1 + padding) * (1 + left_over) + last_frame)


def _check_arguments(
    paths: Sequence[Sequence[Name]],
    sizes_bytes: Sequence[int],
    capacities_bps: Mapping[Name, float],
    chunk_bytes: int,
) -> None:
    """Raise InputError if an argument is invalid, or there would be too many chunks."""
    if chunk_bytes < 1:
        raise InputError(f"chunks of {chunk_bytes} bytes: give 1 or more")
    if not paths or len(paths) != len(sizes_bytes):
        raise InputError(
            f"{len(paths)} transfers and {len(sizes_bytes)} sizes: give one size for each, and at "
            "least one"
        )
    for i, (path, size) in enumerate(zip(paths, sizes_bytes, strict=True)):
        if not path:
            raise InputError(f"transfer {i} uses no link; name at least one")
        if size < 1:
            raise InputError(f"transfer {i} has a message of {size} bytes; give 1 or more")
        for link in path:
            if not capacities_bps.get(link, 0) > 0:
                raise InputError(
                    f"transfer {i}: link {link!r} has no capacity; give one above 0 bit/s"
                )
    chunks = sum(_chunks_of(size, chunk_bytes) for size in sizes_bytes)
    if chunks > MAX_CHUNKS:
        raise InputError(
            f"{chunks} chunks of {chunk_bytes} bytes: more than {MAX_CHUNKS}; give larger chunks"
        )
