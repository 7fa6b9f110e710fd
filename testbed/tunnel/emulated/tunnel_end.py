"""The process at one end of a tunnel: packets of the host's programs into coded packets, and back."""

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
"""What an end tells while it runs, and where it is asked to stop."""
_MOST_ROWS = 2_000_000
_BATCH = 32
_IDLE_S = 0.05
PACKETS = [
    ("flow", "u1"),
    ("number", "u4"),
    ("at_s", "f8"),
    ("bytes", "u2"),
    ("came_s", "f8"),
    ("recovered", "?"),
]
"""Of a log of packets: those offered (``came_s`` and ``recovered`` unused), or those handed on at ``at_s``."""


def records_of(log: RowLog) -> NDArray[np.void]:
    """A record of ``PACKETS`` a row."""
    found = np.empty(len(log), dtype=PACKETS)
    for name, column in log.arrays().items():
        found[name] = column
    return found


@dataclass(frozen=True, kw_only=True)
class TunnelEndSpec:
    """One end: its plan (``there``: what it sends), address, the other end's, UDP port and key of both, time zero on
    the monotonic clock."""

    plan: TunnelPlan
    device: str
    address: str
    peer: str
    udp_port: int
    key: bytes = field(repr=False)


@contextmanager
def tunnel_end(
    net: EmulatedNetwork, own: WiredHost, other: WiredHost, spec: TunnelEndSpec
) -> Iterator[EndpointProcess]:
    """The process of one host; when it ends in whatever way, the device goes with it."""
    with ExitStack() as stack:
        frames = stack.enter_context(
            frames_of(net, own, other, spec.plan.there.forward, spec.udp_port)
        )
        datagrams = stack.enter_context(datagram_socket(net, own, spec.udp_port))
        gauge = shared_numbers(len(GAUGES))
        namespace = OpenFile(net.namespaces.descriptor(own.name))
        prepare = partial(_prepare, spec, namespace, frames, datagrams, other.ip, gauge)
        yield stack.enter_context(
            closing(EndpointProcess(f"tunnel end at {own.node}", prepare, gauge))
        )


def _prepare(
    spec: TunnelEndSpec,
    namespace: int,
    frames: Frames,
    datagrams: socket.socket,
    peer_ip: str,
    gauge: memoryview[float],
) -> Callable[[float], EndLog]:
    """Make an end ready, in its process; the device goes with the process."""
    with inside_namespace(namespace):
        tun = open_tun(spec.device, spec.address, spec.peer, spec.plan.mtu)
    return _End(spec, frames, datagrams, peer_ip, tun, gauge).run


class _End:
    """``run`` goes on until it is asked to stop; gives counters and the logs of packets."""

    def __init__(
        self,
        spec: TunnelEndSpec,
        frames: Frames,
        datagrams: socket.socket,
        peer_ip: str,
        tun: TunDevice,
        gauge: memoryview[float],
    ) -> None:
        self._sender, self._receiver = (
            build_sender(spec.plan, spec.key),
            build_receiver(spec.plan, spec.key),
        )
        self._largest = HEADER_BYTES + spec.plan.there.stream.symbol_bytes
        self._arrivals = Arrivals(datagrams, self._largest + 1, peer=peer_ip)
        self._frames, self._datagrams, self._gauge = frames, datagrams, gauge
        self._device, self._tun = tun, tun.descriptor
        self._reports_under = report_pairs(report_labels(spec.plan.there.forward))
        self._offered, self._delivered = (RowLog(*(name for name, _ in PACKETS)) for _ in range(2))
        self._counts = {"not_ipv4": 0, "not_taken": 0, "report_bytes": 0, "rows_left_out": 0}
        self._mtu = spec.plan.mtu
        warm_up(frames, warm_labels(spec.plan.there.forward), HEADER_BYTES)

    def run(self, start_s: float) -> EndLog:
        gc.enable()  # it may run for hours
        poll = select.poll()
        for descriptor in (self._tun, self._datagrams.fileno()):
            poll.register(descriptor, select.POLLIN)
        discard_until(start_s, self._datagrams)
        processor_s = time.process_time()
        while not self._gauge[0]:
            now = time.monotonic() - start_s
            due = min(self._sender.next_due_s(), self._receiver.next_deadline_s(), now + _IDLE_S)
            until_s = math.inf
            for descriptor, _ in poll.poll(max(0, math.ceil((due - now) * 1e3))):
                if descriptor == self._tun:
                    self._take_offered(start_s)
                else:
                    until_s = self._take_arrived(start_s)
            now = time.monotonic() - start_s
            self._send(self._sender.due(now))
            self._hand_on(self._receiver.advance(min(now, until_s)))
            for report in self._receiver.reports_due(now):
                for label in next(self._reports_under):
                    self._frames.send(label, report)
                    self._counts["report_bytes"] += len(report) + FRAME_HEADERS_BYTES
            self._gauge[7] = self._sender.block_size
        return self._result(time.monotonic() - start_s, time.process_time() - processor_s)

    def _take_offered(self, start_s: float) -> None:
        for _ in range(_BATCH):
            packet = read_packet(self._tun, self._mtu + 1)
            if packet is None:
                return
            if not is_ipv4(packet):
                self._counts["not_ipv4"] += 1
                continue
            now, flow = time.monotonic() - start_s, flow_of_packet(packet)
            number = self._sender.numbers[flow]
            self._send(self._sender.offer(packet, now, flow))
            self._log(self._offered, flow, number, now, len(packet), 0.0, 0.0)
            self._gauge[1] += 1
            self._gauge[2] += len(packet)

    def _take_arrived(self, start_s: float) -> float:
        """See ``Arrivals.until_s``."""
        for at, data in self._arrivals.waiting(start_s):
            if data and data[0] & 15 == PacketType.REPORT:
                self._sender.receive(data, at)
            else:
                self._hand_on(self._receiver.receive(data, at))
        return self._arrivals.until_s(start_s)

    def _send(self, packets: Iterable[OutgoingPacket]) -> None:
        for packet in packets:
            self._frames.send(packet.label, packet.data)
            self._gauge[3] += 1
            self._gauge[4] += len(packet.data) + FRAME_HEADERS_BYTES

    def _hand_on(self, packets: Iterable[Delivered]) -> None:
        for one in packets:
            self._counts["not_taken"] += not write_packet(self._tun, one.payload)
            self._log(
                self._delivered,
                one.flow,
                one.number,
                one.at_s,
                len(one.payload),
                one.came_s,
                one.recovered,
            )
            self._gauge[5] += 1
            self._gauge[6] += one.recovered

    def _log(self, log: RowLog, *row: float) -> None:
        """The first two million."""
        if len(log) < _MOST_ROWS:
            log.add_row(*row)
        else:
            self._counts["rows_left_out"] += 1

    def _result(self, lasted_s: float, processor_s: float) -> EndLog:
        summary = dict(zip(GAUGES[1:], (int(number) for number in self._gauge[1:]), strict=True))
        return {
            "counters": {
                **summary,
                **self._counts,
                **{f"sent_{name}": count for name, count in self._sender.counters.items()},
                **self._receiver.counters,
                **{
                    f"rejected_{reason}": count for reason, count in self._receiver.rejected.items()
                },
                "refused": self._frames.refused,
                "foreign": self._arrivals.foreign,
                "socket_drops": socket_drops(self._datagrams),
                "device_drops": packets_unread(self._device),
                "worst_receive_lag_s": round(self._arrivals.worst_lag_s, 6),
                "processor_share": round(processor_s / max(lasted_s, 1e-9), 4),
            },
            "offered": records_of(self._offered),
            "delivered": records_of(self._delivered),
        }
