"""A download on real switches: a process at each end, the last mile shaped to its rate, faults in between."""

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
from testbed.emulation.network.kernel.link_meter import LinkMeter
from testbed.machines.adapters.platform import here, timely
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import wire
from testbed.openflow.rules import split_rules
from testbed.stream.emulated.endpoints import EndpointProcess, endpoint
from testbed.stream.emulated.frames import Frames
from topologies import JsonObject

_TICK_S, _IDLE_S = 0.003, 0.02
_LINGER_S = 0.3
"""The sink goes on acknowledging for so long after the last block: its acknowledgements may be lost."""


def emulate_download(
    plan: DownloadPlan, report_progress: ReportProgress | None = None
) -> DownloadMeasurements:
    """Build the network, install the rules, download, break links; inside the sandbox only."""
    report_progress = report_progress or (lambda _: None)
    report_progress(Progress(doing="building the network"))
    wiring = wire(plan.network, [plan.source, plan.sink])
    with ExitStack() as stack:
        platform = stack.enter_context(here(wiring))
        stack.enter_context(timely(platform))
        net = platform.network
        rules, routes = split_rules(wiring, plan.forward, plan.backward)
        platform.install(rules, plan_id=1)
        platform.route(routes)
        source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
        ends = {
            name: stack.enter_context(
                endpoint(net, name, own, other, partial(prepare, plan, other.ip), split)
            )
            for name, own, other, prepare, split in (
                ("receiver", sink, source, _prepare_receiver, plan.backward),
                ("sender", source, sink, _prepare_sender, plan.forward),
            )
        }
        for end in ends.values():
            end.wait_until_ready()
        look = partial(_look, net.link_meter(), ends["sender"], ends["receiver"])
        report_progress(
            Progress(done_s=0, total_s=plan.limit_s, doing="downloading", read_local=look)
        )
        dropped = sum(platform.switch_drops())
        start = platform.start()
        for end in ends.values():
            end.begin(start)
        schedule = stack.enter_context(FaultSchedule(net, plan.faults, start))
        while not ends["sender"].finished and time.monotonic() - start < plan.limit_s + 5:
            now = max(0.0, time.monotonic() - start)
            reading = CounterReading(at_s=now, faults=schedule.in_force())
            report_progress(
                Progress(done_s=now, total_s=plan.limit_s, doing="downloading", reading=reading)
            )
            time.sleep(0.1)
        sent, got = ends["sender"].result(), ends["receiver"].result()
        dropped = sum(platform.switch_drops()) - dropped
    return DownloadMeasurements(
        fabric="emulation",
        seconds=got["seconds"],
        sent=sent["sent"],
        received=got["received"],
        verified=got["verified"],
        arrivals_s=tuple(got["arrivals"]),
        sender_lag_s=sent["lag_s"],
        longest_s=got["longest_s"],
        machine_drops=dropped + got["counters"]["socket_drops"],
        counters={**got["counters"], "refused": sent["refused"], "sent_foreign": sent["foreign"]},
    )


def _look(meter: LinkMeter, sender: EndpointProcess, receiver: EndpointProcess) -> CounterReading:
    """What the links' counters and the end points' gauges say now."""
    received, sent = int(receiver.gauge[0]), int(sender.gauge[0])
    return CounterReading(
        received=received, sent=sent, link_bytes=meter.carried_bytes(), down=meter.without_carrier()
    )


def _prepare_sender(
    plan: DownloadPlan,
    peer: str,
    frames: Frames,
    datagrams: socket.socket,
    gauge: memoryview[float],
) -> Callable[[float], JsonObject]:
    """``peer``: the other end's address: what others send is counted and thrown away."""
    sender, reported = plan.sender(), DatagramReceiver(datagrams, peer=peer)
    nothing = bytes(plan.parameters.symbol_bytes)
    for path in (
        plan.forward.paths
    ):  # a switch looks the first packet of a flow up; not in the measured time
        frames.send(path.start, nothing)
        time.sleep(0.002)

    def run(start: float) -> JsonObject:
        time.sleep(max(0.0, start - time.monotonic()))
        while not sender.done and (now := time.monotonic() - start) < plan.limit_s:
            for packet in sender.packets_due(now):
                frames.send(packet.label, packet.data)
            gauge[0] = sender.sent
            wait = max(_TICK_S, sender.next_due_s() - (time.monotonic() - start))
            if select.select((datagrams,), (), (), min(wait, _IDLE_S))[0]:
                for data in reported.receive():
                    sender.receive(data)
        return {
            "sent": sender.sent,
            "lag_s": sender.skipped_s,
            "refused": frames.refused,
            "foreign": reported.foreign,
        }

    return run


def _prepare_receiver(
    plan: DownloadPlan,
    peer: str,
    frames: Frames,
    datagrams: socket.socket,
    gauge: memoryview[float],
) -> Callable[[float], JsonObject]:
    """``peer``: as the sender's."""
    receiver, expected = plan.receiver(), plan.file()
    largest = (
        FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes
    )  # more than any packet: a longer one is cut off there
    arriving = DatagramReceiver(datagrams, most=256, largest=largest, peer=peer)
    for label in RETURN_LABELS:
        frames.send(label, b"\0")
        time.sleep(0.002)

    def run(start: float) -> JsonObject:
        arrivals: list[float] = []
        ended: float | None = None
        while (wait_s := start - time.monotonic()) > 0:
            select.select((datagrams,), (), (), wait_s)
            arriving.receive()  # what only let switches look flows up
        while (now := time.monotonic() - start) < plan.limit_s and (
            ended is None or now < ended + _LINGER_S
        ):
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
            "longest_s": receiver.longest_s,
            "verified": receiver.file == expected,
            "arrivals": arrivals,
            "counters": {
                **receiver.counters,
                "socket_drops": socket_drops(datagrams),
                "foreign": arriving.foreign,
            },
        }

    return run
