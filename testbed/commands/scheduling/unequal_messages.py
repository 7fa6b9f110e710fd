"""``--message-sizes``: schedules of messages and links that differ.

Messages of unequal sizes are divided into chunks, and links of unequal capacities into channels.
"""

import math
from collections.abc import Hashable, Mapping

from testbed.errors import InputError
from testbed.model.options.quantities import plain_numbers
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import Traffic
from testbed.scheduling.fast.unequal import Chunks, split_messages
from topologies import JsonObject, load_network


def split_traffic(
    document: object, where: str, traffic: Traffic, network: str | None
) -> tuple[Traffic, Chunks]:
    """Divide messages into chunks, and links into channels.

    Args:
        document: The JSON document of ``--message-sizes`` (``testbed schema unequal``).
        where: Name of the document's file, for messages.
        traffic: The messages.
        network: Name of the network, whose links have their capacities unless the document gives
            others; None if there is no network.

    Returns:
        The transfers of chunks over channels, which are called ``link`` or ``link/number``, and
        the chunks.

    Raises:
        InputError: The document is invalid.
    """
    if not isinstance(document, Mapping):
        raise InputError(
            f"{where}: give an object with sizes_bytes; testbed schema unequal has its keys"
        )
    refuse_unknown(document, "unequal", where)
    numbers = plain_numbers(document)
    assert isinstance(numbers, Mapping)
    sizes = _part_sizes(numbers.get("sizes_bytes"), where, traffic)
    chunk_bytes = numbers.get("chunk_bytes", min(sizes, default=0))
    if not _is_whole_number(chunk_bytes):
        raise InputError(f"{where}: chunk_bytes {chunk_bytes!r}: give a whole number")
    capacities: dict[Hashable, float] = {
        **_capacities(network),
        **_rates(numbers.get("capacities_bps", {}), where),
    }
    channel_bps = None
    if numbers.get("channel_bps") is not None:
        rates = _rates({"channel_bps": numbers["channel_bps"]}, where)
        channel_bps = rates["channel_bps"]
    paths: list[list[Hashable]] = []
    for path in traffic.paths():
        paths.append([traffic.links[link] for link in path])
    chunks = split_messages(
        paths, sizes, capacities, chunk_bytes=chunk_bytes, channel_bps=channel_bps
    )
    transfers: list[list[str]] = []
    for transfer in chunks.transfers:
        transfers.append([_channel_name(chunks, link, number) for link, number in transfer])
    return Traffic.from_transfers(transfers), chunks


def _is_whole_number(value: object) -> bool:
    # In Python, True is an int.
    return isinstance(value, int) and not isinstance(value, bool)


def _part_sizes(sizes: object, where: str, traffic: Traffic) -> list[int]:
    """Return the size of every part of every message, in bytes, all first parts first.

    The parts of a message are as equal as whole bytes can be.

    Args:
        sizes: The sizes of all messages, or one size.
        where: Name of the document's file, for messages.
        traffic: The messages.
    """
    if _is_whole_number(sizes):
        sizes = [sizes] * (len(traffic) // traffic.parts)
    if not isinstance(sizes, list) or not all(map(_is_whole_number, sizes)):
        raise InputError(
            f"{where}: sizes_bytes: give a whole number, or a list with one for each transfer"
        )
    parts = traffic.parts
    part_sizes: list[int] = []
    for part in range(parts):
        for size in sizes:
            part_sizes.append(size * (part + 1) // parts - size * part // parts)
    return part_sizes


def _channel_name(chunks: Chunks, link: Hashable, number: int) -> str:
    return f"{link}/{number}" if chunks.channels[link] > 1 else str(link)


def _capacities(network: str | None) -> dict[Hashable, float]:
    """Return the capacity of each link of the network, in bit/s."""
    if network is None:
        return {}
    return {link.label: link.capacity_bps for link in load_network(network).links}


def _rates(value: object, where: str) -> dict[Hashable, float]:
    """Return the rates of an object from links to bit/s, after a check."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: capacities_bps: give an object of links and their bit/s")
    for link, rate in value.items():
        is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
        if not is_number or not 0 < rate < math.inf:
            raise InputError(f"{where}: {link}: {rate!r} is not a valid rate; give bit/s above 0")
    return dict(value)


def chunks_document(chunks: Chunks) -> JsonObject:
    """Return the keys that ``--message-sizes`` adds to the JSON object.

    Times are in seconds. Exact values become floats.
    """
    return {
        "chunk_bytes": chunks.chunk_bytes,
        "channel_bps": float(chunks.channel_bps),
        "message": list(chunks.message),
        "frame_s": float(chunks.frame_s),
        "liquid_s": float(chunks.liquid_s),
        "fluid_s": float(chunks.fluid_s),
        "loss": float(chunks.loss),
        "loss_bound": float(chunks.bound),
    }
