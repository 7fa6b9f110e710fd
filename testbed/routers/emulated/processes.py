"""Runs the routers of a plan as processes, watches their progress and collects their reports.

It runs inside the sandbox.
"""

import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TypeAlias

from fec.adapters.raw_sockets import socket_drops
from testbed.emulation.network.kernel.host_namespaces import enter_namespace
from testbed.emulation.sandbox.forked_process import OpenFile
from testbed.emulation.sandbox.shared_counters import shared_numbers
from testbed.routers.emulated.cabling import lay_cables, mac_of
from testbed.routers.measurements import RouterReport, RouterRun
from testbed.routers.nac import build_router
from testbed.routers.plan import RouterPlan
from testbed.routers.router import NEVER
from testbed.routers.wire import ETHERNET_BYTES, ETHERTYPE
from testbed.stream.emulated.endpoints import EndpointProcess

# The run starts this long after all routers are ready, so that all of them know the start in time.
_LEAD_S = 0.3

# Interval of the routers' reports of their progress, and of reading them.
_REPORT_INTERVAL_S = 0.05

# If a router has not reported for this long, its process is not scheduled. The time then does not
# count as time in which no packet moved.
_SILENT_S = 0.5

# Time for a router to get ready, or to return its report.
_ANSWER_S = 20.0

# Destination address of all frames. A cable has one receiver, so no other address is needed.
_BROADCAST = b"\xff" * 6

# Larger than any frame (``cabling.MTU``).
_RECEIVE_BYTES = 8192

# Progress of a router, which it writes: packets moved, packets delivered, time of the last report
# (monotonic, seconds).
Gauge: TypeAlias = "memoryview[float]"


def run_routers(plan: RouterPlan) -> RouterRun:
    """Run every router of the plan as a process in its own namespace, and return their reports.

    The run ends when all messages have arrived, when no packet has moved anywhere for ``stuck_s``,
    or after ``limit_s``.

    Raises:
        InvalidRunError: A router ended early.
    """
    stop_flag = shared_numbers(1)
    gauges = [shared_numbers(3) for _ in range(plan.routers)]
    with ExitStack() as stack:
        namespaces, sockets = stack.enter_context(lay_cables(plan))
        processes = []
        for number, gauge in enumerate(gauges):
            namespace = OpenFile(namespaces.descriptor(f"r{number}"))
            prepare = partial(
                _prepare, namespace, plan, number, sockets[number], (gauge, stop_flag)
            )
            process = EndpointProcess(f"router {number}", prepare, gauge)
            processes.append(stack.enter_context(closing(process)))
        for process in processes:
            process.wait_until_ready(_ANSWER_S)
        start_s = time.monotonic() + _LEAD_S
        for process in processes:
            process.begin(start_s)
        stuck_for_s = _watch(plan, processes, gauges, start_s)
        seconds = time.monotonic() - start_s
        stop_flag[0] = 1.0
        reports = tuple(process.result(_ANSWER_S) for process in processes)
    return RouterRun(made=plan.messages, reports=reports, seconds=seconds, stuck_for_s=stuck_for_s)


def _watch(
    plan: RouterPlan, processes: Sequence[EndpointProcess], gauges: Sequence[Gauge], start_s: float
) -> float:
    """Wait until the run ends, and return the time since the last movement of a packet.

    Args:
        plan: The plan.
        processes: The routers' processes.
        gauges: The routers' progress.
        start_s: Start of the run (monotonic).

    Returns:
        Seconds; 0 if every message arrived.
    """
    previous: list[tuple[float, float]] = []
    moved_at_s = start_s
    while True:
        time.sleep(_REPORT_INTERVAL_S)
        for process in processes:
            if process.finished or not process.alive:
                process.result(0)  # Raises an error that says why the process ended.
        now_s = time.monotonic()
        progress = [(gauge[0], gauge[1]) for gauge in gauges]
        oldest_report_s = max(start_s, min(gauge[2] for gauge in gauges))
        if progress != previous or now_s - oldest_report_s > _SILENT_S:
            previous = progress
            moved_at_s = now_s
        if sum(delivered for _, delivered in progress) >= plan.messages:
            return 0.0
        if now_s - moved_at_s > plan.stuck_s or now_s - start_s > plan.limit_s:
            return now_s - moved_at_s


def _prepare(
    namespace: int,
    plan: RouterPlan,
    number: int,
    sockets: Sequence[socket.socket],
    reported: tuple[Gauge, Gauge],
) -> "_Loop":
    """Enter the router's namespace, in the router's process, and return its main loop.

    Args:
        namespace: File descriptor of the namespace.
        plan: The plan.
        number: Number of the router.
        sockets: One socket per port.
        reported: Memory shared with the parent: progress of the router, and the flag that stops it.
    """
    enter_namespace(namespace)
    return _Loop(plan, number, sockets, reported)


class _Loop:
    """The main loop of a router's process.

    It receives frames, lets the router decide, and sends frames.

    Attributes:
        router: The router.
        messages: Messages of its host, with their times.
        sockets: One socket per port.
        headers: Ethernet header of the frames of each port.
        ports: Port of each socket's file descriptor.
        gauge: Progress of the router, which the parent reads.
        stop_flag: Shared number, which the parent sets to 1 to end the run.
    """

    def __init__(
        self,
        plan: RouterPlan,
        number: int,
        sockets: Sequence[socket.socket],
        reported: tuple[Gauge, Gauge],
    ) -> None:
        self.router = build_router(plan, number)
        self.messages = plan.messages_of(number)
        self.sockets = sockets
        self.headers: list[bytes] = []
        self.ports: dict[int, int] = {}
        for port, sock in enumerate(sockets):
            self.headers.append(_BROADCAST + mac_of(number, port) + ETHERTYPE.to_bytes(2))
            self.ports[sock.fileno()] = port
        gauge, stop_flag = reported
        self.gauge = gauge
        self.stop_flag = stop_flag

    def __call__(self, start_s: float) -> RouterReport:
        """Run until the parent ends the run, and return the report.

        Args:
            start_s: Start of the run (monotonic).
        """
        router = self.router
        injected = 0
        poll = select.poll()
        for descriptor in self.ports:
            poll.register(descriptor, select.POLLIN)
        while not self.stop_flag[0]:
            now_s = time.monotonic() - start_s
            while injected < len(self.messages) and self.messages[injected][0] <= now_s:
                router.inject(self.messages[injected][1])
                injected += 1
            if now_s >= 0:
                router.advance(now_s)
                self._flush()
            self.gauge[0] = router.moves
            self.gauge[1] = len(router.log)
            self.gauge[2] = time.monotonic()
            due_s = NEVER
            if injected < len(self.messages):
                due_s = self.messages[injected][0]
            next_s = min(now_s + _REPORT_INTERVAL_S, router.next_time_s(), due_s)
            timeout_s = max(0.0, next_s - (time.monotonic() - start_s))
            for descriptor, _ in poll.poll(1e3 * timeout_s):
                self._read(descriptor, start_s)
        dropped = sum(map(socket_drops, self.sockets))
        return RouterReport(
            log=router.log, snapshot=router.snapshot(), nac=router.done, frames_dropped=dropped
        )

    def _read(self, descriptor: int, start_s: float) -> None:
        """Pass all frames that a socket has received to the router."""
        port = self.ports[descriptor]
        while True:
            try:
                frame = self.sockets[port].recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            self.router.receive(port, frame[ETHERNET_BYTES:], time.monotonic() - start_s)

    def _flush(self) -> None:
        """Send the router's frames."""
        for port, frame in self.router.outgoing:
            self.sockets[port].send(self.headers[port] + frame)
        self.router.outgoing.clear()
