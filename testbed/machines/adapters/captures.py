"""Recordings of links on several machines: each at the machine where the link's packets arrive, brought here with its
times on our clock."""

import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.emulation.network.kernel.packet_capture import Capture
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError
from testbed.machines.adapters.distributed_network import DistributedNetwork
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.rpc import MachineState
from topologies.network import LinkId, label_of

_HEAD = struct.Struct("=IHHiIII")
_RECORD = struct.Struct("=IIII")
_SECOND = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class RemoteCapture:
    """``files``: link -> pcap file, whose times are of the machine's wall clock, ``wall_ns`` ahead of its monotonic
    one; the recording lasted from ``from_s`` to ``to_s`` of that."""

    files: Mapping[LinkId, bytes]
    wall_ns: int
    from_s: float
    to_s: float


def start_captures(machine: MachineState, links: Sequence[LinkId]) -> None:
    """Record what arrives over links that end here."""
    folder = Path(
        machine.objects["built"].enter_context(
            tempfile.TemporaryDirectory(prefix="pcap-", dir=require_sandbox() / "tmp")
        )
    )
    captures: dict[LinkId, Capture] = {}
    machine.objects["recordings"] = captures, time.monotonic()
    for number, link in enumerate(links):
        captures[link] = network_of(machine).start_capture(link, folder / str(number))


def stop_captures(machine: MachineState) -> RemoteCapture:
    """End them; what they hold."""
    captures, from_s = machine.objects.pop("recordings")
    for capture in captures.values():
        capture.stop()
    wall_ns = time.time_ns() - time.monotonic_ns()
    files = {link: capture.path.read_bytes() for link, capture in captures.items()}
    return RemoteCapture(files=files, wall_ns=wall_ns, from_s=from_s, to_s=time.monotonic())


def retimed(data: bytes, ours_ns: Callable[[int], int]) -> tuple[bytes, int]:
    """A pcap file (nanoseconds, this machine's byte order) with every time put through ``ours_ns``, and its packets'
    number."""
    parts, at, count = [data[: _HEAD.size]], _HEAD.size, 0
    while at + _RECORD.size <= len(data):
        seconds, nanoseconds, retained, whole = _RECORD.unpack_from(data, at)
        own_s, own_ns = divmod(ours_ns(seconds * _SECOND + nanoseconds), _SECOND)
        parts += (_RECORD.pack(own_s & 0xFFFFFFFF, own_ns, retained, whole), data[at + _RECORD.size :][:retained])
        at, count = at + _RECORD.size + retained, count + 1
    return b"".join(parts), count


@contextmanager
def captured(
    network: DistributedNetwork, files: Mapping[LinkId, Path], reported: Callable[[str], None]
) -> Iterator[None]:
    """Record those links meanwhile; afterwards the files are written, and each is ``told`` in a line with how well its
    times are known.

    Raises InputError where a file cannot be written.
    """
    for path in files.values():
        try:
            path.touch()
        except OSError as error:
            raise InputError(f"pcap file {path}: {error.strerror}; name a file in a directory that exists") from None
    wiring, links = network.wiring, dict[int, list[LinkId]]()
    ends = network.placement.device_machines(wiring)
    for link in files:
        cable = wiring.cable_of(link)
        links.setdefault(ends[cable.b if cable.forward == link else cable.a], []).append(link)
    for one in [network.machines.call(k, start_captures, own) for k, own in links.items()]:
        one.result()
    yield
    for k in links:
        _write(network, k, network.machines.call(k, stop_captures).result(), files, reported)


def _write(
    network: DistributedNetwork,
    machine: int,
    found: RemoteCapture,
    files: Mapping[LinkId, Path],
    reported: Callable[[str], None],
) -> None:
    clock = network.machines.clock(machine).bound(found.from_s, found.to_s)
    ours_wall_ns = time.time_ns() - time.monotonic_ns()
    name = network.machines.names[machine]
    for link, data in found.files.items():
        own, count = retimed(data, lambda at_ns: clock.to_ours_ns(at_ns - found.wall_ns) + ours_wall_ns)
        files[link].write_bytes(own)
        reported(
            f"recorded {label_of(link)} on {name}: {count} packets in {files[link]}, "
            f"their times turned into this machine's to within {clock.uncertainty_ns / 1e6:.2g} ms"
        )
