"""Messages from a traffic file: single messages with times, transfers, or a schedule's frames one after another.

A transfer longer than a packet is cut into packets; with packets as large as messages it holds its path like a circuit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from testbed.errors import InputError
from testbed.interconnect.network_model import zero_load_ticks
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.traffic.injection import Injections
from topologies import Network
from topologies.text.json_types import Json


def read_messages(document: Json, network: Network, parameters: SimulationParameters) -> Injections:
    """The messages of a traffic file, with their sizes.

    ``{"messages": [{"source", "destination", "time_s", "bytes"}]}``; ``{"transfers": [{"source", "destination",
    "bytes"}]}``: all at 0; ``{"frames": [[{"source", "destination"}, ...], ...]}`` (with ``transfers``: numbers into
    it): each frame begins when the longest of the frame before can have arrived. Ends may be pairs ``["h0", "h1"]``.
    ``bytes`` defaults to a packet. Raises InputError that names the entry.
    """
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    rows: list[tuple[int, int, int, int]] = []
    if "frames" in document:
        start = 0
        for number, frame in enumerate(_list(document["frames"], "frames")):
            known = document.get("transfers", [])
            longest = 0
            for place, item in enumerate(_list(frame, f"frames[{number}]")):
                entry = known[item] if isinstance(item, int) and 0 <= item < len(known) else item
                source, destination, size, _ = _entry(entry, f"frames[{number}][{place}]", hosts, parameters)
                rows += _packets(start, source, destination, size, parameters)
                packets = -(-size // parameters.packet_bytes)
                longest = max(longest, packets * parameters.serialization_ticks(parameters.packet_bytes))
            far = zero_load_ticks(parameters, len(network.switches), 1) if len(network.switches) < 64 else 0
            start += longest + far
    else:
        name = "messages" if "messages" in document else "transfers"
        if name not in document:
            raise InputError('traffic: it has none of "messages", "transfers" and "frames"; give one')
        for number, item in enumerate(_list(document[name], name)):
            source, destination, size, time_s = _entry(item, f"{name}[{number}]", hosts, parameters)
            rows += _packets(round(time_s * TICKS_PER_S), source, destination, size, parameters)
    if not rows:
        raise InputError("traffic: it has no message; give one or more")
    rows.sort(key=lambda row: (row[0], row[1]))
    columns = list(zip(*rows, strict=True))
    return Injections(
        time_ps=np.array(columns[0], dtype=np.int64) * 10,
        source=np.array(columns[1], dtype=np.int32),
        destination=np.array(columns[2], dtype=np.int32),
        size_bytes=np.array(columns[3], dtype=np.int64),
    )


def _list(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"traffic: {where} is no list; give one")
    return value


def _entry(
    item: object, where: str, hosts: Mapping[str, int], parameters: SimulationParameters
) -> tuple[int, int, int, float]:
    if isinstance(item, list) and len(item) >= 2:
        item = {"source": item[0], "destination": item[1]}
    if not isinstance(item, Mapping):
        raise InputError(f'traffic: {where} is {item!r}; give {{"source": ..., "destination": ...}}')
    ends = []
    for name in ("source", "destination"):
        host = item.get(name, item.get({"source": "from", "destination": "to"}[name]))
        if not isinstance(host, str) or host not in hosts:
            raise InputError(
                f"traffic: {where}: its {name} {host!r} is no host of the network; give one, as {next(iter(hosts))}"
            )
        ends.append(hosts[host])
    size, time_s = item.get("bytes", parameters.packet_bytes), item.get("time_s", 0.0)
    if not isinstance(size, int) or not 1 <= size <= 10**12:
        raise InputError(f"traffic: {where}: {size!r} bytes; give a whole number, 1 or more")
    if not isinstance(time_s, int | float) or not 0 <= time_s <= 18:
        raise InputError(f"traffic: {where}: time_s {time_s!r}; give 0 to 18 s")
    return ends[0], ends[1], size, float(time_s)


def _packets(
    tick: int, source: int, destination: int, size: int, parameters: SimulationParameters
) -> list[tuple[int, int, int, int]]:
    whole, rest = divmod(size, parameters.packet_bytes)
    if whole > 1_000_000:
        raise InputError(f"traffic: a message of {size} bytes is {whole} packets; give at most a million")
    return [(tick, source, destination, parameters.packet_bytes)] * whole + [(tick, source, destination, rest)] * bool(
        rest
    )
