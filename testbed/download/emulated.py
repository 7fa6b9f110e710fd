"""A download on real switches: a process at each end, the last mile shaped to its rate, faults in between."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, socket_drops
from fec.adapters.scapy_layer import FrameTemplate
from fec.protocol.wire import STREAM_UDP_PORT
from testbed.download.measurements import DownloadMeasurements
from testbed.download.plan import FRAME_OVERHEAD_BYTES, RETURN_LABELS, DownloadPlan
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.shared_counters import shared_numbers
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.links import LinkMeter
from testbed.machines.adapters.platform import here
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import WiredHost, wire
from testbed.openflow.rules import stream_rules
from testbed.stream.emulated.endpoints import EndpointProcess
from topologies.text.json_types import JsonObject

_LEAD_S, _TICK_S, _IDLE_S = 0.15, 0.003, 0.02
_LINGER_S = 0.3
"""The sink goes on acknowledging for so long after the last block: its acknowledgements may be lost."""


def emulate_download(plan: DownloadPlan, report_progress: ReportProgress | None = None) -> DownloadMeasurements:
    """Build the network, install the rules, download, break links; inside the sandbox only."""
    report_progress = report_progress or (lambda _: None)
    report_progress(Progress(done_s=0, total_s=plan.limit_s, doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with ExitStack() as stack:
        platform = stack.enter_context(here(wiring))
        net = platform.network
        rules = [
            r for split in (plan.forward, plan.backward) for r in stream_rules(wiring, split, udp_port=STREAM_UDP_PORT)
        ]
        platform.install(rules, plan_id=1)
        source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
        ends = {
            name: stack.enter_context(_end(net, name, own, other, prepare))
            for name, own, other, prepare in (
                ("receiver", sink, source, partial(_prepare_receiver, plan)),
                ("sender", source, sink, partial(_prepare_sender, plan)),
            )
        }
        for end in ends.values():
            end.wait_until_ready()
        look = partial(_look, net.link_meter(), ends["sender"], ends["receiver"])
        report_progress(Progress(done_s=0, total_s=plan.limit_s, doing="downloading", read_local=look))
        start = time.monotonic() + _LEAD_S
        for end in ends.values():
            end.begin(start)
        schedule = FaultSchedule(net, plan.faults, start)
        stack.callback(schedule.stop)
        schedule.start()
        while not ends["sender"].finished and time.monotonic() - start < plan.limit_s + 5:
            now = max(0.0, time.monotonic() - start)
            reading = CounterReading(at_s=now, faults=schedule.in_force())
            report_progress(Progress(done_s=now, total_s=plan.limit_s, doing="downloading", reading=reading))
            time.sleep(0.1)
        sent, got = ends["sender"].result(), ends["receiver"].result()
    return DownloadMeasurements(
        fabric="emulation",
        seconds=got["seconds"],
        sent=sent["sent"],
        received=got["received"],
        verified=got["verified"],
        arrivals_s=tuple(got["arrivals"]),
        sender_lag_s=sent["lag_s"],
        counters={**got["counters"], "refused": sent["refused"], "sent_foreign": sent["foreign"]},
    )


def _look(meter: LinkMeter, sender: EndpointProcess, receiver: EndpointProcess) -> CounterReading:
    """What the links' counters and the end points' gauges say now."""
    assert sender.gauge is not None and receiver.gauge is not None
    received, sent = int(receiver.gauge[0]), int(sender.gauge[0])
    return CounterReading(received=received, sent=sent, link_bytes=meter.carried_bytes(), down=meter.without_carrier())


class _end:  # noqa: N801 - used as a function
    """A host's sockets and the process that owns them, closed together."""

    def __init__(self, net: EmulatedNetwork, role: str, own: WiredHost, other: WiredHost, prepare: Any) -> None:
        self._raw = net.open_socket(own.name, socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._raw.bind((net.interface_of(own.name), 0))
        self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self._datagrams = net.open_socket(own.name, socket.AF_INET, socket.SOCK_DGRAM, 0)
        self._datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._datagrams.bind(("0.0.0.0", STREAM_UDP_PORT))
        self._datagrams.setblocking(False)
        template = FrameTemplate(src_mac=own.mac, dst_mac=other.mac, src_ip=own.ip, dst_ip=other.ip)
        frames = FrameSender(self._raw, template)
        gauge, peer = shared_numbers(1), (self._datagrams, other.ip)
        self._process = EndpointProcess(role, lambda: prepare(frames, peer, gauge), gauge)

    def __enter__(self) -> EndpointProcess:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.close()
        self._raw.close()
        self._datagrams.close()


def _prepare_sender(
    plan: DownloadPlan, frames: FrameSender, peer: tuple[socket.socket, str], gauge: memoryview[float]
) -> Callable[[float], JsonObject]:
    """``peer``: the socket of this end, and the other end's address: what others send is counted and thrown away."""
    sender, (datagrams, address) = plan.sender(), peer
    reported = DatagramReceiver(datagrams, peer=address)
    nothing = bytes(plan.parameters.symbol_bytes)
    for path in plan.forward.paths:  # a switch looks the first packet of a flow up; not in the measured time
        frames.send(path.start, nothing)
        time.sleep(0.002)

    def run(start: float) -> JsonObject:
        time.sleep(max(0.0, start - time.monotonic()))
        lag = 0.0
        while not sender.done and (now := time.monotonic() - start) < plan.limit_s:
            for packet in sender.packets_due(now):
                lag = max(lag, now - packet.due_s)
                frames.send(packet.label, packet.data)
            gauge[0] = sender.sent
            wait = max(_TICK_S, sender.next_due_s() - (time.monotonic() - start))
            if select.select((datagrams,), (), (), min(wait, _IDLE_S))[0]:
                for data in reported.receive():
                    sender.receive(data)
        return {"sent": sender.sent, "lag_s": lag, "refused": frames.refused, "foreign": reported.foreign}

    return run


def _prepare_receiver(
    plan: DownloadPlan, frames: FrameSender, peer: tuple[socket.socket, str], gauge: memoryview[float]
) -> Callable[[float], JsonObject]:
    """``peer``: as the sender's."""
    receiver, expected, (datagrams, address) = plan.receiver(), plan.file(), peer
    largest = FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes  # more than any packet: a longer one is cut off there
    arriving = DatagramReceiver(datagrams, most=256, largest=largest, peer=address)
    for label in RETURN_LABELS:
        frames.send(label, b"\0")
        time.sleep(0.002)

    def run(start: float) -> JsonObject:
        arrivals: list[float] = []
        ended: float | None = None
        while (now := time.monotonic() - start) < plan.limit_s and (ended is None or now < ended + _LINGER_S):
            select.select((datagrams,), (), (), _IDLE_S)
            now = time.monotonic() - start
            for data in arriving.receive():
                arrivals.append(now)
                receiver.receive(data, now)
            gauge[0] = len(arrivals)
            if receiver.done and ended is None:
                ended = now
            for acknowledgement in receiver.acknowledgements_due(now):
                for label in RETURN_LABELS:
                    frames.send(label, acknowledgement)
        return {
            "seconds": ended,
            "received": receiver.received,
            "verified": receiver.file == expected,
            "arrivals": arrivals,
            "counters": {
                **receiver.counters,
                "socket_drops": socket_drops(datagrams),
                "foreign": arriving.foreign,
            },
        }

    return run
