"""Runs a download on emulated switches, with a process at each end."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from fec.adapters.raw_sockets import DatagramReceiver, socket_drops
from testbed.download.plan import (
    FRAME_OVERHEAD_BYTES,
    RETURN_LABELS,
    DownloadMeasurements,
    DownloadPlan,
)
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.link_meter import LinkMeter
from testbed.machines.adapters.platform import here, timely
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import wire
from testbed.openflow.rules import split_rules
from testbed.stream.emulated.endpoints import EndpointProcess, endpoint
from testbed.stream.emulated.frames import Frames
from topologies import Json, JsonObject

# Minimum pause of the sender between two batches of packets.
_TICK_S = 0.003
# Maximum time that an end waits for packets.
_IDLE_S = 0.02
# How long the sink acknowledges after the last block, because its acknowledgements may be lost.
_LINGER_S = 0.3
# Pause after a first packet, so that switches install its flow.
_FLOW_SET_UP_S = 0.002
# How long the sender may overrun the limit of the run, in which it should end by itself.
_GRACE_S = 5


def emulate_download(
    plan: DownloadPlan, report_progress: ReportProgress | None = None
) -> DownloadMeasurements:
    """Run a download while links fail, and measure it; works inside the sandbox only."""
    report = report_progress or _ignore_progress
    report(Progress(doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with ExitStack() as stack:
        platform = stack.enter_context(here(wiring))
        stack.enter_context(timely(platform))
        net = platform.network
        rules, routes = split_rules(wiring, plan.forward, plan.backward)
        platform.install(rules, plan_id=1)
        platform.route(routes)
        sender, receiver = _start_ends(plan, net, stack)
        receiver.wait_until_ready()
        sender.wait_until_ready()
        read_counters = partial(_read_counters, net.link_meter(), sender, receiver)
        report(
            Progress(done_s=0, total_s=plan.limit_s, doing="downloading", read_local=read_counters)
        )
        dropped_before = sum(platform.switch_drops())
        start_s = platform.start()
        receiver.begin(start_s)
        sender.begin(start_s)
        schedule = stack.enter_context(FaultSchedule(net, plan.faults, start_s))
        _watch(plan, sender, schedule, start_s, report)
        sent = sender.result()
        received = receiver.result()
        dropped = sum(platform.switch_drops()) - dropped_before
    return _measurements(sent, received, dropped)


def _start_ends(
    plan: DownloadPlan,
    net: EmulatedNetwork,
    stack: ExitStack,
) -> tuple[EndpointProcess, EndpointProcess]:
    """Start the processes of the sender and of the receiver; the stack ends them."""
    source = net.wiring.host_at(plan.source)
    sink = net.wiring.host_at(plan.sink)
    receive = partial(_prepare_receiver, plan, source.ip)
    receiver = stack.enter_context(endpoint(net, "receiver", sink, source, receive, plan.backward))
    send = partial(_prepare_sender, plan, sink.ip)
    sender = stack.enter_context(endpoint(net, "sender", source, sink, send, plan.forward))
    return sender, receiver


def _ignore_progress(_progress: Progress) -> None:
    pass


def _watch(
    plan: DownloadPlan,
    sender: EndpointProcess,
    schedule: FaultSchedule,
    start_s: float,
    report_progress: ReportProgress,
) -> None:
    """Report progress until the sender ends or has overrun the limit."""
    while not sender.finished and time.monotonic() - start_s < plan.limit_s + _GRACE_S:
        now_s = max(0.0, time.monotonic() - start_s)
        reading = CounterReading(at_s=now_s, faults=schedule.in_force())
        report_progress(
            Progress(done_s=now_s, total_s=plan.limit_s, doing="downloading", reading=reading)
        )
        time.sleep(0.1)


def _measurements(sent: Json, received: Json, dropped: int) -> DownloadMeasurements:
    """Return the measurements of a run.

    Args:
        sent: The result of the sender.
        received: The result of the receiver.
        dropped: Number of frames that the switches dropped.
    """
    counters = dict(received["counters"])
    counters["refused"] = sent["refused"]
    counters["sent_foreign"] = sent["foreign"]
    return DownloadMeasurements(
        fabric="emulation",
        seconds=received["seconds"],
        sent=sent["sent"],
        received=received["received"],
        verified=received["verified"],
        arrivals_s=tuple(received["arrivals"]),
        sender_lag_s=sent["lag_s"],
        longest_s=received["longest_s"],
        machine_drops=dropped + counters["socket_drops"],
        counters=counters,
    )


def _read_counters(
    meter: LinkMeter,
    sender: EndpointProcess,
    receiver: EndpointProcess,
) -> CounterReading:
    """Return the current counters of the links and of both ends."""
    return CounterReading(
        received=int(receiver.gauge[0]),
        sent=int(sender.gauge[0]),
        link_bytes=meter.carried_bytes(),
        down=meter.without_carrier(),
    )


def _prepare_sender(
    plan: DownloadPlan,
    peer: str,
    frames: Frames,
    datagrams: socket.socket,
    gauge: memoryview[float],
) -> Callable[[float], JsonObject]:
    """Prepare the sender in its process, and return the function that runs it.

    Args:
        plan: The download.
        peer: Address of the receiver. Packets from other addresses are counted and ignored.
        frames: Sends frames by label.
        datagrams: The socket of the acknowledgements.
        gauge: Shared number of packets sent.
    """
    sender = plan.sender()
    acknowledgements = DatagramReceiver(datagrams, peer=peer)
    # A switch looks up the first packet of each flow, which must not happen in the measured time.
    for path in plan.forward.paths:
        frames.send(path.start, bytes(plan.parameters.symbol_bytes))
        time.sleep(_FLOW_SET_UP_S)

    def run(start_s: float) -> JsonObject:
        time.sleep(max(0.0, start_s - time.monotonic()))
        while not sender.done and (now_s := time.monotonic() - start_s) < plan.limit_s:
            for packet in sender.packets_due(now_s):
                frames.send(packet.label, packet.data)
            gauge[0] = sender.sent
            wait_s = max(_TICK_S, sender.next_due_s() - (time.monotonic() - start_s))
            readable, _, _ = select.select((datagrams,), (), (), min(wait_s, _IDLE_S))
            if readable:
                for data in acknowledgements.receive():
                    sender.receive(data)
        return {
            "sent": sender.sent,
            "lag_s": sender.skipped_s,
            "refused": frames.refused,
            "foreign": acknowledgements.foreign,
        }

    return run


def _prepare_receiver(
    plan: DownloadPlan,
    peer: str,
    frames: Frames,
    datagrams: socket.socket,
    gauge: memoryview[float],
) -> Callable[[float], JsonObject]:
    """Prepare the receiver in its process, and return the function that runs it.

    Args:
        plan: The download.
        peer: Address of the sender. Packets from other addresses are counted and ignored.
        frames: Sends the acknowledgements by label.
        datagrams: The socket of the file's packets.
        gauge: Shared number of packets received.
    """
    receiver = plan.receiver()
    expected_file = plan.file()
    # Larger than any packet of the download; a longer packet is cut off there.
    largest = FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes
    packets = DatagramReceiver(datagrams, limit=256, largest=largest, peer=peer)
    # Switches look up the flows of the acknowledgements before the measured time, too.
    for label in RETURN_LABELS:
        frames.send(label, b"\0")
        time.sleep(_FLOW_SET_UP_S)

    def run(start_s: float) -> JsonObject:
        arrivals_s: list[float] = []
        complete_s: float | None = None
        while (wait_s := start_s - time.monotonic()) > 0:
            select.select((datagrams,), (), (), wait_s)
            # Discard the packets that only made switches look up their flows.
            packets.receive()
        stop_s = plan.limit_s
        while time.monotonic() - start_s < stop_s:
            select.select((datagrams,), (), (), _IDLE_S)
            now_s = time.monotonic() - start_s
            for data in packets.receive():
                arrivals_s.append(now_s)
                receiver.receive(data, now_s)
            gauge[0] = len(arrivals_s)
            if receiver.done and complete_s is None:
                complete_s = now_s
                stop_s = min(plan.limit_s, now_s + _LINGER_S)
            for acknowledgement in receiver.acknowledgements_due(now_s):
                for label in RETURN_LABELS:
                    frames.send(label, acknowledgement)
        counters = dict(receiver.counters)
        counters["socket_drops"] = socket_drops(datagrams)
        counters["foreign"] = packets.foreign
        return {
            "seconds": complete_s,
            "received": receiver.received,
            "longest_s": receiver.longest_s,
            "verified": receiver.file == expected_file,
            "arrivals": arrivals_s,
            "counters": counters,
        }

    return run
