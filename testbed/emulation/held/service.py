"""What the process that holds a network up does for others: a thread a connection, one request each, one answer or more.

Every handler is given the connection and the request, and answers itself; what it raises is the answer where it has given none.
"""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from testbed.emulation.control.fault_injection import BreakableNetwork, CableBreaker
from testbed.emulation.held.channel import Frame, error_header, receive, send
from testbed.emulation.held.programs import device_of, run_program
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.door import inherited_door, is_own, name_of
from testbed.errors import InputError, SessionError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_fault, parse_link
from testbed.model.wiring import Wiring
from topologies.network import LinkId, label_of

Handler = Callable[[socket.socket, Frame], None]


class WiredNetwork(BreakableNetwork, Protocol):
    """A network whose cables can be broken, on one machine or several."""

    @property
    def wiring(self) -> Wiring: ...

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]: ...


class StandingFaults:
    """Faults that were asked for by hand and stand until they are mended; thread-safe.

    ``breaker``: the one that whatever else breaks the network's cables shares, so that overlaps are counted.
    """

    def __init__(self, net: WiredNetwork, breaker: CableBreaker | None = None) -> None:
        self._network = net.wiring.network
        self._breaker = breaker or CableBreaker(net)
        self._standing: dict[str, Fault] = {}
        self._lock = threading.Lock()

    def fail(self, text: str) -> float:
        """``a->b [down | blackhole | loss FRACTION] [one-way]``; one fault a link: another takes its place. Monotonic seconds."""
        fault = parse_fault(text, self._network)
        if fault.start_s or not fault.permanent:
            raise InputError(f"fault {text}: it begins now and stands until it is restored; leave the times out")
        with self._lock:
            before = self._standing.pop(label_of(fault.link), None)
            if before is not None:
                self._breaker.end(before)
            self._standing[label_of(fault.link)] = fault
            return self._breaker.begin(fault)

    def restore(self, text: str) -> float:
        """Mend the link; InputError where no fault stands on it."""
        name = label_of(parse_link(text, self._network))
        with self._lock:
            fault = self._standing.pop(name, None)
            if fault is None:
                standing = ", ".join(self._standing) or "none"
                raise InputError(f"restore {text}: no fault stands on it (standing: {standing})")
            return self._breaker.end(fault)

    def texts(self) -> list[str]:
        """The faults that stand, as they would be written."""
        with self._lock:
            return [f"{name} {fault.kind}" for name, fault in self._standing.items()]


def link_handlers(net: WiredNetwork, faults: StandingFaults) -> dict[str, Handler]:
    """The requests about links, which a network answers alike on one machine and on several: fail, restore, faults, counters."""

    def counters(sock: socket.socket, _: Frame) -> None:
        send(sock, {"links": [[*link, *counts] for link, counts in net.link_counters().items()]})

    return {
        "fail": lambda sock, request: send(sock, {"at_s": faults.fail(_text(request, "fault"))}),
        "restore": lambda sock, request: send(sock, {"at_s": faults.restore(_text(request, "link"))}),
        "faults": lambda sock, _: send(sock, {"standing": faults.texts()}),
        "counters": counters,
    }


class NetworkService:
    """The requests that every network which is up answers: describe, exec, fail, restore, faults, counters, capture."""

    def __init__(self, net: EmulatedNetwork, breaker: CableBreaker | None = None) -> None:
        self.net = net
        self.faults = StandingFaults(net, breaker)
        self._captures = threading.Lock()

    def handlers(self) -> dict[str, Handler]:
        """By the request's ``do``."""
        return {
            "describe": self._describe,
            "exec": lambda sock, request: run_program(self.net, sock, request),
            "capture": self._capture,
            **link_handlers(self.net, self.faults),
        }

    def _describe(self, sock: socket.socket, _: Frame) -> None:
        wiring = self.net.wiring
        send(
            sock,
            {
                "network": wiring.network.name,
                "datapath": self.net.datapath,
                "mtu": self.net.mtu,
                "hosts": [{"node": h.node, "device": h.name, "ip": h.ip, "outside": h.outside} for h in wiring.hosts],
                "switches": [{"node": s.node, "device": s.name, "dpid": s.dpid} for s in wiring.switches],
                "setup_seconds": self.net.setup_seconds,
            },
        )

    def _capture(self, sock: socket.socket, request: Frame) -> None:
        """Records until the connection says ``stop`` or closes."""
        link = parse_link(_text(request, "link"), self.net.wiring.network)
        with self._captures:
            capture = self.net.start_capture(link, Path(_text(request, "path")))
        try:
            send(sock, {"recording": True})
            receive(sock)
        finally:
            capture.stop()
        send(sock, {"recording": False})


class DoorKeeper:
    """Accepts connections on a door and serves each in a thread of its own, until it is closed."""

    def __init__(self, door: socket.socket, handlers: Mapping[str, Handler]) -> None:
        self._door, self._handlers = door, handlers
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Begin to accept."""
        threading.Thread(target=self._accept, name="door", daemon=True).start()

    def close(self) -> None:
        """Accept nothing more, and end what is under way: programs in hosts end with their connection."""
        self._closing = True
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        with self._lock:
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._door.accept()
            except OSError:
                return
            if not is_own(sock):
                sock.close()
                continue
            with self._lock:
                self._open.add(sock)
            name = f"door {next(self._numbers)}"
            threading.Thread(target=self._serve, args=(sock,), name=name, daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        request = None
        try:
            request = receive(sock)
            if request is not None:
                self._answer(sock, request)
        except SessionError:
            pass  # whoever asked has gone
        finally:
            with self._lock:
                self._open.discard(sock)
            sock.close()

    def _answer(self, sock: socket.socket, request: Frame) -> None:
        asked = request.header.get("do")
        handler = self._handlers.get(asked) if isinstance(asked, str) else None
        try:
            if handler is None:
                raise InputError(f"this network does not answer {asked!r}; it answers {', '.join(self._handlers)}")
            handler(sock, request)
        except SessionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked has to be told
            send(sock, error_header(error))


@contextmanager
def reachable(net: EmulatedNetwork, breaker: CableBreaker | None = None) -> Iterator[str | None]:
    """Meanwhile ``testbed exec`` and ``testbed attach`` reach the network by the name that is given, where this process has a door."""
    door = inherited_door()
    if door is None:
        yield None
        return
    name = name_of(door)
    keeper = DoorKeeper(door, NetworkService(net, breaker).handlers())
    keeper.start()
    try:
        yield name
    finally:
        keeper.close()


def address_of(net: EmulatedNetwork, name: str) -> str:
    """IPv4 address of a node's host."""
    return net.host(device_of(net, name)).ip


def _text(request: Frame, name: str) -> str:
    found = request.header.get(name)
    if not isinstance(found, str):
        raise InputError(f"{request.header.get('do')}: give {name} as a text")
    return found
