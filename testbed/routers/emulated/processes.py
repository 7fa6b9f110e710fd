"""Runs a plan's routers as one process each, watches them for progress, and collects what they measured; inside the
sandbox."""

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

_LEAD_S = 0.3
_TELL_EVERY_S = 0.05
_SILENT_S = 0.5
"""A router that has reported nothing for so long is not running: then the machine is at a stand, not the packets."""
_ANSWER_S = 20.0
_BROADCAST = b"\xff" * 6
Gauge: TypeAlias = "memoryview[float]"
"""Of a router, as it writes it: packets moved, packets delivered, when it last reported (monotonic)."""


def run_routers(plan: RouterPlan) -> RouterRun:
    """Every router of the plan as a process in its own namespace, until all messages have arrived, no packet has moved
    for ``stuck_s`` anywhere although buffers hold some, or ``limit_s`` is over. InvalidRunError where a router dies.
    """
    over, gauges = shared_numbers(1), [shared_numbers(3) for _ in range(plan.routers)]
    with ExitStack() as stack:
        namespaces, sockets = stack.enter_context(lay_cables(plan))
        processes = []
        for number, gauge in enumerate(gauges):
            namespace = OpenFile(namespaces.descriptor(f"r{number}"))
            prepare = partial(_prepare, namespace, plan, number, sockets[number], (gauge, over))
            process = EndpointProcess(f"router {number}", prepare, gauge)
            processes.append(stack.enter_context(closing(process)))
        for process in processes:
            process.wait_until_ready(_ANSWER_S)
        start_s = time.monotonic() + _LEAD_S
        for process in processes:
            process.begin(start_s)
        stuck_for_s = _watch(plan, processes, gauges, start_s)
        seconds = time.monotonic() - start_s
        over[0] = 1.0
        reports = tuple(process.result(_ANSWER_S) for process in processes)
    return RouterRun(made=plan.messages, reports=reports, seconds=seconds, stuck_for_s=stuck_for_s)


def _watch(
    plan: RouterPlan, processes: Sequence[EndpointProcess], gauges: Sequence[Gauge], start_s: float
) -> float:
    """Seconds for which nothing had moved when it was given up; 0 where everything arrived."""
    known: list[tuple[float, float]] = []
    moved_at_s = start_s
    while True:
        time.sleep(_TELL_EVERY_S)
        for process in processes:
            if process.finished or not process.alive:
                process.result(0)  # says why it ended
        now_s, reported = time.monotonic(), [(gauge[0], gauge[1]) for gauge in gauges]
        if reported != known or now_s - max(start_s, min(gauge[2] for gauge in gauges)) > _SILENT_S:
            known, moved_at_s = reported, now_s
        if sum(delivered for _, delivered in reported) >= plan.messages:
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
    """Make a router ready, in its process, which stays in the router's namespace."""
    enter_namespace(namespace)
    return _Loop(plan, number, sockets, reported)


class _Loop:
    """Sockets in, the router's decisions, sockets out. ``reported``: the router's gauge; whether the run is over."""

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
        kind = ETHERTYPE.to_bytes(2)
        self.headers = [_BROADCAST + mac_of(number, port) + kind for port in range(len(sockets))]
        self.ports = {sock.fileno(): port for port, sock in enumerate(sockets)}
        self.gauge, self.over = reported

    def __call__(self, start_s: float) -> RouterReport:
        """Until the parent says that it is over; the log, what is left in buffers, and frames that a socket dropped."""
        router, made = self.router, 0
        poll = select.poll()
        for descriptor in self.ports:
            poll.register(descriptor, select.POLLIN)
        while not self.over[0]:
            now_s = time.monotonic() - start_s
            while made < len(self.messages) and self.messages[made][0] <= now_s:
                router.inject(self.messages[made][1])
                made += 1
            if now_s >= 0:
                router.advance(now_s)
                self._flush()
            self.gauge[0], self.gauge[1], self.gauge[2] = (
                router.moves,
                len(router.log),
                time.monotonic(),
            )
            due_s = self.messages[made][0] if made < len(self.messages) else NEVER
            next_s = min(now_s + _TELL_EVERY_S, router.next_time_s(), due_s)
            for descriptor, _ in poll.poll(max(0.0, 1e3 * (next_s - (time.monotonic() - start_s)))):
                self._read(descriptor, start_s)
        dropped = sum(map(socket_drops, self.sockets))
        return RouterReport(
            log=router.log, snapshot=router.snapshot(), nac=router.done, frames_dropped=dropped
        )

    def _read(self, descriptor: int, start_s: float) -> None:
        port = self.ports[descriptor]
        while True:
            try:
                frame = self.sockets[port].recv(8192)
            except BlockingIOError:
                return
            self.router.receive(port, frame[ETHERNET_BYTES:], time.monotonic() - start_s)

    def _flush(self) -> None:
        for port, frame in self.router.outgoing:
            self.sockets[port].send(self.headers[port] + frame)
        self.router.outgoing.clear()
