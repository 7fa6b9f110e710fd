"""Links of different capacity and messages of different size: equal chunks over equal channels, with a bound on what is
lost.

What the thesis assumes equal is made equal: the result is a traffic of plain transfers that every scheduler takes. One
message to many receivers (multicast) is not covered: its copies are transfers of their own.
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
    """Chunks of ``chunk_bytes`` over channels of ``channel_bps``; a time frame lasts ``frame_s``.

    ``transfers[k]``: the channels of chunk k, (link, number of the channel); ``message[k]``: whose chunk it is. With T
    time frames the exchange lasts T * ``frame_s``. ``fluid_s``: what no schedule, however fine, can beat: the time the
    busiest link needs for its bytes. ``bottleneck_load``: time frames a liquid schedule of the chunks takes.
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
        return self.chunk_bytes * 8 / self.channel_bps

    @property
    def liquid_s(self) -> Fraction:
        """How long a liquid schedule of the chunks lasts."""
        return self.bottleneck_load * self.frame_s

    @property
    def loss(self) -> Fraction:
        """Share of the throughput that chunks and channels cost a liquid schedule, 0 where none; at most ``bound``."""
        return 1 - self.fluid_s / self.liquid_s


def split_messages(
    paths: Sequence[Sequence[Name]],
    sizes_bytes: Sequence[int],
    capacities_bps: Mapping[Name, float],
    *,
    chunk_bytes: int,
    channel_bps: float | None = None,
) -> Chunks:
    """Messages of any size over links of any capacity as transfers of one size over channels of one rate.

    Message i, of ``sizes_bytes[i]`` over the links ``paths[i]``, becomes ceil(size / chunk) transfers (the last one is
    filled up); a link of capacity C has floor(C / channel) channels, ``channel_bps`` being the least capacity where
    None. Chunks take the channels of a link in turn, so that no channel bears more than ceil(chunks / channels): the
    busiest link's need, and hence the liquid schedule, is kept. Loss is at most 1 - 1 / ((1 + a)(1 + b) + c), where a =
    chunk / least message (filling up), b = channel / least capacity (what is left over; 0 where channels divide the
    capacities) and c = time of a frame / time of the whole (the last frame of a link whose channels do not divide its
    chunks). Raises InputError.
    """
    _check(paths, sizes_bytes, capacities_bps, chunk_bytes)
    used = {link for path in paths for link in path}
    exact = {link: Fraction(capacities_bps[link]) for link in used}
    rate = Fraction(channel_bps) if channel_bps is not None else min(exact.values())
    if not 0 < rate <= min(exact.values()):
        raise InputError(
            f"channels of {float(rate):g} bit/s: give more than 0 and at most the least capacity, "
            f"{float(min(exact.values())):g}"
        )
    channels = {link: int(capacity // rate) for link, capacity in exact.items()}
    transfers, message, turn = [], [], Counter[Name]()
    for i, path in enumerate(paths):
        for _ in range(-(-sizes_bytes[i] // chunk_bytes)):
            transfers.append(tuple((link, turn[link] % channels[link]) for link in path))
            message.append(i)
            turn.update(dict.fromkeys(path, 1))
    load = max(-(-turn[link] // channels[link]) for link in used)
    bytes_over: Counter[Name] = Counter()
    for path, size in zip(paths, sizes_bytes, strict=True):
        for link in dict.fromkeys(path):
            bytes_over[link] += size
    fluid = max(bytes_over[link] * 8 / exact[link] for link in used)
    frame = chunk_bytes * 8 / rate
    padding = (
        Fraction(chunk_bytes, min(sizes_bytes))
        if any(size % chunk_bytes for size in sizes_bytes)
        else Fraction(0)
    )
    left_over = max(
        (exact[link] / (channels[link] * rate) - 1 for link in used), default=Fraction(0)
    )
    last = frame / fluid if any(turn[link] % channels[link] for link in used) else Fraction(0)
    return Chunks(
        transfers=tuple(transfers),
        message=tuple(message),
        chunk_bytes=chunk_bytes,
        channel_bps=rate,
        channels=channels,
        bottleneck_load=load,
        fluid_s=fluid,
        bound=1 - 1 / ((1 + padding) * (1 + left_over) + last),
    )


def _check(
    paths: Sequence[Sequence[Name]],
    sizes_bytes: Sequence[int],
    capacities_bps: Mapping[Name, float],
    chunk_bytes: int,
) -> None:
    if chunk_bytes < 1:
        raise InputError(f"chunks of {chunk_bytes} bytes: give 1 or more")
    if not paths or len(paths) != len(sizes_bytes):
        raise InputError(
            f"{len(paths)} transfers and {len(sizes_bytes)} sizes: give one size for each, and at least one"
        )
    for i, (path, size) in enumerate(zip(paths, sizes_bytes, strict=True)):
        if not path:
            raise InputError(f"transfer {i} uses no link; name at least one")
        if size < 1:
            raise InputError(f"transfer {i} has a message of {size} bytes; give 1 or more")
        unknown = next((link for link in path if not capacities_bps.get(link, 0) > 0), None)
        if unknown is not None:
            raise InputError(
                f"transfer {i}: link {unknown!r} has no capacity; give one above 0 bit/s"
            )
    chunks = sum(-(-size // chunk_bytes) for size in sizes_bytes)
    if chunks > MAX_CHUNKS:
        raise InputError(
            f"{chunks} chunks of {chunk_bytes} bytes: more than {MAX_CHUNKS}; give larger chunks"
        )
