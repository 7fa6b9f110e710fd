"""The process at one end of a tunnel: encodes the packets of programs, decodes those received."""

from __future__ import annotations

import gc
import math
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fec.adapters.raw_sockets import socket_drops
from fec.protocol.events.event_receiver import Delivered
from fec.protocol.framing import PacketType
from fec.protocol.sender import OutgoingPacket
from fec.protocol.wire import HEADER_BYTES
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.host_namespaces import inside_namespace
from testbed.emulation.sandbox.forked_process import OpenFile
from testbed.emulation.sandbox.shared_counters import shared_numbers
from testbed.model.wiring import WiredHost
from testbed.stream.emulated.endpoints import EndpointProcess, datagram_socket
from testbed.stream.emulated.ends import Arrivals, discard_until, warm_labels, warm_up
from testbed.stream.emulated.frames import Frames, frames_of
from testbed.stream.judgement.packet_logs import RowLog
from testbed.tunnel.emulated.tun_device import (
    TunDevice,
    open_tun,
    packets_unread,
    read_packet,
    write_packet,
)
from testbed.tunnel.ends import build_receiver, build_sender, flow_of_packet, is_ipv4
from testbed.tunnel.plan import FRAME_HEADERS_BYTES, EndLog, TunnelPlan, report_labels, report_pairs

# Shared numbers of an end: the request to stop, and counters that others read while it runs.
GAUGES = (
    "stop",
    "offered",
    "offered_bytes",
    "wire_packets",
    "wire_bytes",
    "delivered",
    "recovered",
    "block_size",
)
(
    _STOP,
    _OFFERED,
    _OFFERED_BYTES,
    _WIRE_PACKETS,
    _WIRE_BYTES,
    _DELIVERED,
    _RECOVERED,
    _BLOCK_SIZE,
) = range(len(GAUGES))
# Maximum number of packets in a log; later packets are only counted.
_MAX_ROWS = 2_000_000
# Number of packets of programs read before the timers are checked again.
_BATCH = 32
# Maximum time between two looks at the request to stop.
_IDLE_S = 0.05
# The fields of a log of packets. Offered packets were read at ``at_s``; ``came_s`` and
# ``recovered`` are unused. Delivered packets arrived at ``came_s``, and were delivered at ``at_s``.
PACKETS = [
    ("flow", "u1"),
    ("number", "u4"),
    ("at_s", "f8"),
    ("bytes", "u2"),
    ("came_s", "f8"),
    ("recovered", "?"),
]


def records_of(log: RowLog) -> NDArray[np.void]:
    """Return a log as numpy records of ``PACKETS``."""
    records = np.empty(len(log), dtype=PACKETS)
    for name, column in log.arrays().items():
        records[name] = column
    return records


@dataclass(frozen=True, kw_only=True)
class TunnelEndSpec:
    """The configuration of one end.

    Attributes:
        plan: The tunnel as this end sees it: ``there`` is the direction that it sends in.
        device: The name of its TUN device.
        address: The IPv4 address of its device.
        peer: The address of the other end's device.
        udp_port: The UDP port of the coded packets.
        key: The key that authenticates the packets of both ends.
    """

    plan: TunnelPlan
    device: str
    address: str
    peer: str
    udp_port: int
    key: bytes = field(repr=False)


@contextmanager
def tunnel_end(
    net: EmulatedNetwork, host: WiredHost, peer_host: WiredHost, spec: TunnelEndSpec
) -> Iterator[EndpointProcess]:
    """Provide the process of one end.

    The device disappears with the process, however it ends.

    Args:
        net: The network.
        host: The host of this end.
        peer_host: The host of the other end.
        spec: The configuration of this end.
    """
    with ExitStack() as stack:
        frames = stack.enter_context(
            frames_of(net, host, peer_host, spec.plan.there.forward, spec.udp_port)
        )
        datagrams = stack.enter_context(datagram_socket(net, host, spec.udp_port))
        gauge = shared_numbers(len(GAUGES))
        namespace = OpenFile(net.namespaces.descriptor(host.name))
        prepare = partial(_prepare, spec, namespace, frames, datagrams, peer_host.ip, gauge)
        yield stack.enter_context(
            closing(EndpointProcess(f"tunnel end at {host.node}", prepare, gauge))
        )


def _prepare(
    spec: TunnelEndSpec,
    namespace: int,
    frames: Frames,
    datagrams: socket.socket,
    peer_ip: str,
    gauge: memoryview[float],
) -> Callable[[float], EndLog]:
    """Prepare an end in its process, and return the function that runs it."""
    with inside_namespace(namespace):
        tun = open_tun(spec.device, spec.address, spec.peer, spec.plan.mtu)
    return _End(spec, frames, datagrams, peer_ip, tun, gauge).run


class _End:
    """One end of a tunnel: reads packets from the TUN device and the network until it must stop."""

    def __init__(
        self,
        spec: TunnelEndSpec,
        frames: Frames,
        datagrams: socket.socket,
        peer_ip: str,
        tun: TunDevice,
        gauge: memoryview[float],
    ) -> None:
        self._sender = build_sender(spec.plan, spec.key)
        self._receiver = build_receiver(spec.plan, spec.key)
        largest = HEADER_BYTES + spec.plan.there.stream.symbol_bytes
        # One byte more than the longest packet, so that longer packets are noticed.
        self._arrivals = Arrivals(datagrams, largest + 1, peer=peer_ip)
        self._frames = frames
        self._datagrams = datagrams
        self._gauge = gauge
        self._device = tun
        self._tun = tun.descriptor
        self._labels_of_reports = report_pairs(report_labels(spec.plan.there.forward))
        fields = [name for name, _ in PACKETS]
        self._offered = RowLog(*fields)
        self._delivered = RowLog(*fields)
        self._counts = {"not_ipv4": 0, "not_taken": 0, "report_bytes": 0, "rows_left_out": 0}
        self._mtu = spec.plan.mtu
        warm_up(frames, warm_labels(spec.plan.there.forward), HEADER_BYTES)

    def run(self, start_s: float) -> EndLog:
        """Run until the request to stop, and return the counters and the packet logs.

        Args:
            start_s: Time zero on the monotonic clock.
        """
        # Garbage must be collected, because a tunnel may run for hours.
        gc.enable()
        poll = select.poll()
        for descriptor in (self._tun, self._datagrams.fileno()):
            poll.register(descriptor, select.POLLIN)
        discard_until(start_s, self._datagrams)
        processor_s = time.process_time()
        while not self._gauge[_STOP]:
            now_s = time.monotonic() - start_s
            due_s = min(
                self._sender.next_due_s(), self._receiver.next_deadline_s(), now_s + _IDLE_S
            )
            until_s = math.inf
            for descriptor, _ in poll.poll(max(0, math.ceil((due_s - now_s) * 1e3))):
                if descriptor == self._tun:
                    self._read_offered(start_s)
                else:
                    until_s = self._read_arrived(start_s)
            now_s = time.monotonic() - start_s
            self._send(self._sender.due(now_s))
            # Packets that arrived in time but were not read yet must not expire.
            self._deliver(self._receiver.advance(min(now_s, until_s)))
            for report in self._receiver.reports_due(now_s):
                for label in next(self._labels_of_reports):
                    self._frames.send(label, report)
                    self._counts["report_bytes"] += len(report) + FRAME_HEADERS_BYTES
            self._gauge[_BLOCK_SIZE] = self._sender.block_size
        return self._result(time.monotonic() - start_s, time.process_time() - processor_s)

    def _read_offered(self, start_s: float) -> None:
        """Read a batch of packets that programs sent, and pass them to the sender."""
        for _ in range(_BATCH):
            packet = read_packet(self._tun, self._mtu + 1)
            if packet is None:
                return
            if not is_ipv4(packet):
                self._counts["not_ipv4"] += 1
                continue
            now_s = time.monotonic() - start_s
            flow = flow_of_packet(packet)
            number = self._sender.numbers[flow]
            self._send(self._sender.offer(packet, now_s, flow))
            self._log(self._offered, flow, number, now_s, len(packet), 0.0, 0.0)
            self._gauge[_OFFERED] += 1
            self._gauge[_OFFERED_BYTES] += len(packet)

    def _read_arrived(self, start_s: float) -> float:
        """Read the packets that arrived from the network.

        Returns:
            The time up to which all arrived packets have been read; see ``Arrivals.until_s``.
        """
        for at_s, data in self._arrivals.waiting(start_s):
            if data and data[0] & 15 == PacketType.REPORT:
                self._sender.receive(data, at_s)
            else:
                self._deliver(self._receiver.receive(data, at_s))
        return self._arrivals.until_s(start_s)

    def _send(self, packets: Iterable[OutgoingPacket]) -> None:
        for packet in packets:
            self._frames.send(packet.label, packet.data)
            self._gauge[_WIRE_PACKETS] += 1
            self._gauge[_WIRE_BYTES] += len(packet.data) + FRAME_HEADERS_BYTES

    def _deliver(self, packets: Iterable[Delivered]) -> None:
        for packet in packets:
            if not write_packet(self._tun, packet.payload):
                self._counts["not_taken"] += 1
            self._log(
                self._delivered,
                packet.flow,
                packet.number,
                packet.at_s,
                len(packet.payload),
                packet.came_s,
                packet.recovered,
            )
            self._gauge[_DELIVERED] += 1
            if packet.recovered:
                self._gauge[_RECOVERED] += 1

    def _log(self, log: RowLog, *row: float) -> None:
        """Append a row to the log, unless the log is full."""
        if len(log) < _MAX_ROWS:
            log.add_row(*row)
        else:
            self._counts["rows_left_out"] += 1

    def _result(self, lasted_s: float, processor_s: float) -> EndLog:
        """Return the counters and the packet logs.

        Args:
            lasted_s: Duration of the run.
            processor_s: Processor time used.
        """
        gauges = [int(count) for count in self._gauge[1:]]
        counters: dict[str, float] = dict(zip(GAUGES[1:], gauges, strict=True))
        counters |= self._counts
        for name, count in self._sender.counters.items():
            counters[f"sent_{name}"] = count
        counters |= self._receiver.counters
        for reason, count in self._receiver.rejected.items():
            counters[f"rejected_{reason}"] = count
        counters["refused"] = self._frames.refused
        counters["foreign"] = self._arrivals.foreign
        counters["socket_drops"] = socket_drops(self._datagrams)
        counters["device_drops"] = packets_unread(self._device)
        counters["worst_receive_lag_s"] = round(self._arrivals.worst_lag_s, 6)
        counters["processor_share"] = round(processor_s / max(lasted_s, 1e-9), 4)
        return {
            "counters": counters,
            "offered": records_of(self._offered),
            "delivered": records_of(self._delivered),
        }
