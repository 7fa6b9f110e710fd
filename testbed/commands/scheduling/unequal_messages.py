"""``--message-sizes``: messages of unequal lengths and links of unequal capacities as chunks over channels."""

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
    """The traffic of chunks over channels (``link`` or ``link/number``), and what it loses. InputError for a bad
    document."""
    if not isinstance(document, Mapping):
        raise InputError(
            f"{where}: give an object with sizes_bytes; testbed schema unequal has its keys"
        )
    refuse_unknown(document, "unequal", where)
    numbers = plain_numbers(document)
    assert isinstance(numbers, Mapping)
    document = numbers
    sizes = document.get("sizes_bytes")
    if isinstance(sizes, int) and not isinstance(sizes, bool):
        sizes = [sizes] * (len(traffic) // traffic.parts)
    if not isinstance(sizes, list) or not all(
        isinstance(s, int) and not isinstance(s, bool) for s in sizes
    ):
        raise InputError(
            f"{where}: sizes_bytes: give a whole number, or a list of one for each transfer"
        )
    parts = traffic.parts  # as equal as whole bytes can be; all first parts come first
    sizes = [
        size * (part + 1) // parts - size * part // parts for part in range(parts) for size in sizes
    ]
    chunk = document.get("chunk_bytes", min(sizes, default=0))
    if not isinstance(chunk, int) or isinstance(chunk, bool):
        raise InputError(f"{where}: chunk_bytes {chunk!r}: give a whole number")
    capacities: dict[Hashable, float] = {
        **_capacities(network),
        **_positive(document.get("capacities_bps", {}), where),
    }
    rate = document.get("channel_bps")
    paths = [[traffic.links[link] for link in path] for path in traffic.paths()]
    chosen = None if rate is None else _positive({"channel_bps": rate}, where)["channel_bps"]
    chunks = split_messages(paths, sizes, capacities, chunk_bytes=chunk, channel_bps=chosen)
    names = [
        [
            f"{link}/{number}" if chunks.channels[link] > 1 else str(link)
            for link, number in transfer
        ]
        for transfer in chunks.transfers
    ]
    return Traffic.from_transfers(names), chunks


def _capacities(network: str | None) -> dict[Hashable, float]:
    if network is None:
        return {}

    return {link.label: link.capacity_bps for link in load_network(network).links}


def _positive(found: object, where: str) -> dict[Hashable, float]:
    if not isinstance(found, Mapping):
        raise InputError(f"{where}: capacities_bps: give an object of links and their bit/s")
    for link, value in found.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 < value < float("inf")
        ):
            raise InputError(f"{where}: {link}: {value!r} is no rate; give bit/s above 0")
    return dict(found)


def chunks_document(chunks: Chunks) -> JsonObject:
    """What ``--message-sizes`` adds to the JSON object; times in seconds, exact values rounded to floats."""
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
