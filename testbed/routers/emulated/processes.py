"""Runs a plan's routers as one process each, watches them for progress, and collects what they measured; inside the
sandbox."""

import multiprocessing
import os
import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from typing import Any

from fec.adapters.raw_sockets import socket_drops
from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.errors import InvalidRunError
from testbed.routers.emulated.cabling import Cabling, lay_cables, mac_of
from testbed.routers.measurements import RouterReport, RouterRun, report_of
from testbed.routers.nac import build_router
from testbed.routers.plan import RouterPlan
from testbed.routers.router import NEVER
from testbed.routers.wire import ETHERNET_BYTES, ETHERTYPE

_LEAD_S = 0.3
_TELL_EVERY_S = 0.05
_SILENT_S = 0.5
"""A router that has told nothing for so long is not running: then the machine is at a stand, not the packets."""
_ANSWER_S = 20.0
_BROADCAST = b"\xff" * 6


def run_routers(plan: RouterPlan) -> RouterRun:
    """Every router of the plan as a process in its own namespace, until all messages have arrived, no packet has moved
    for ``stuck_s`` anywhere although buffers hold some, or ``limit_s`` is over. InvalidRunError where a router dies.
    """
    with ExitStack() as stack:
        cabling = stack.enter_context(lay_cables(plan))
        processes = [_RouterProcess(plan, number, cabling) for number in range(plan.routers)]
        for process in processes:
            stack.callback(process.close)
        for process in processes:
            process.receive(_ANSWER_S)
        start_s = time.monotonic() + _LEAD_S
        for process in processes:
            process.pipe.send(start_s)
        stuck_for_s = _watch(plan, processes, start_s)
        seconds = time.monotonic() - start_s
        for process in processes:
            process.pipe.send(None)
        reports = tuple(process.report() for process in processes)
    return RouterRun(made=plan.messages, reports=reports, seconds=seconds, stuck_for_s=stuck_for_s)


def _watch(plan: RouterPlan, processes: "Sequence[_RouterProcess]", start_s: float) -> float:
    """Seconds for which nothing had moved when it was given up; 0 where everything arrived."""
    reported, heard_at_s = [(0, 0)] * plan.routers, [start_s] * plan.routers
    by_pipe: dict[object, int] = {process.pipe: number for number, process in enumerate(processes)}
    moved_at_s = start_s
    while True:
        for pipe in wait([process.pipe for process in processes], _TELL_EVERY_S):
            number = by_pipe[pipe]
            heard = processes[number].receive(0)
            heard_at_s[number] = time.monotonic()
            if heard != reported[number]:
                reported[number], moved_at_s = heard, time.monotonic()
        delivered = sum(each[1] for each in reported)
        now_s = time.monotonic()
        if now_s - min(heard_at_s) > _SILENT_S:
            moved_at_s = max(moved_at_s, now_s)
        if delivered >= plan.messages:
            return 0.0
        if now_s - moved_at_s > plan.stuck_s or now_s - start_s > plan.limit_s:
            return now_s - moved_at_s


class _RouterProcess:
    """One forked process: a router's loop in its namespace."""

    def __init__(self, plan: RouterPlan, number: int, cabling: Cabling) -> None:
        context = multiprocessing.get_context("fork")
        self.number = number
        self.pipe, child = context.Pipe()
        self._process = context.Process(target=_run, args=(child, plan, number, cabling), daemon=True)
        self._process.start()
        child.close()

    def receive(self, timeout_s: float) -> Any:
        """The process' next word; InvalidRunError where it is an error, or there is none."""
        try:
            if not self.pipe.poll(timeout_s):
                raise InvalidRunError(f"router {self.number} said nothing for {timeout_s:g} s")
            word = self.pipe.recv()
        except EOFError:
            raise InvalidRunError(f"router {self.number} died (exit code {self._process.exitcode})") from None
        if isinstance(word, str):
            raise InvalidRunError(f"router {self.number} failed: {word}")
        return word

    def report(self) -> RouterReport:
        """What it measured; what it told before is passed over."""
        while not isinstance(word := self.receive(_ANSWER_S), RouterReport):
            pass
        return word

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(2)
        self.pipe.close()


def _run(pipe: Connection, plan: RouterPlan, number: int, cabling: Cabling) -> None:
    """The process: ready, time zero, the loop, the report; an error goes to the parent as text."""
    begin_child()
    try:
        with cabling.namespaces.inside(f"r{number}"):
            loop = _Loop(plan, number, cabling.sockets[number])
            pipe.send(b"")
            loop.run(pipe, pipe.recv())
            pipe.send(loop.report())
    except Exception as error:  # noqa: BLE001 - whatever went wrong must reach the parent, which names the router
        pipe.send(f"{type(error).__name__}: {error}")
    os._exit(0)


class _Loop:
    """Sockets in, the router's decisions, sockets out."""

    def __init__(self, plan: RouterPlan, number: int, sockets: Sequence[socket.socket]) -> None:
        self.router = build_router(plan, number)
        self.messages = plan.messages_of(number)
        self.sockets = sockets
        kind = ETHERTYPE.to_bytes(2)
        self.headers = [_BROADCAST + mac_of(number, port) + kind for port in range(len(sockets))]
        self.ports = {sock.fileno(): port for port, sock in enumerate(sockets)}
        self.dropped = 0

    def run(self, pipe: Connection, start_s: float) -> None:
        """Until the parent says that it is over (None)."""
        router, made = self.router, 0
        poll = select.poll()
        for descriptor in (*self.ports, pipe.fileno()):
            poll.register(descriptor, select.POLLIN)
        tell_at_s = 0.0
        while True:
            now_s = time.monotonic() - start_s
            while made < len(self.messages) and self.messages[made][0] <= now_s:
                router.inject(self.messages[made][1])
                made += 1
            if now_s >= 0:
                router.advance(now_s)
                self._flush()
            if now_s >= tell_at_s:
                pipe.send((router.moves, len(router.log)))
                tell_at_s = now_s + _TELL_EVERY_S
            next_s = min(
                tell_at_s, router.next_time_s(), self.messages[made][0] if made < len(self.messages) else NEVER
            )
            for descriptor, _ in poll.poll(max(0.0, 1e3 * (next_s - (time.monotonic() - start_s)))):
                if descriptor == pipe.fileno():
                    if pipe.recv() is None:
                        return
                else:
                    self._read(descriptor, start_s)

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

    def report(self) -> RouterReport:
        """The log, what is left in buffers, and frames that a socket dropped."""
        dropped = sum(socket_drops(sock) for sock in self.sockets)
        return report_of(self.router, frames_dropped=dropped)
