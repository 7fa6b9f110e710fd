"""What the process that holds a network up does for others: a thread a connection, one request each, one answer or
more.

Every handler is given the connection and the request, and answers itself; what it raises is the answer where it has
given none.
"""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from testbed.emulation.attach.host_processes import run_program
from testbed.emulation.attach.protocol import Frame, error_header, receive, send
from testbed.emulation.control.fault_injection import FaultInjector, FaultTarget
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.control_socket import (
    inherited_socket,
    listen,
    network_name,
    same_user,
)
from testbed.errors import InputError, SessionClosedError
from testbed.faults.fault import Fault, cables_of, describe
from testbed.faults.grammar import parse_link, standing_fault
from testbed.faults.link_settings import LinkSettings
from testbed.model.wiring import Wiring, wiring_document
from topologies.network import LinkId, label_of

Handler = Callable[[socket.socket, Frame], None]


class WiredNetwork(FaultTarget, Protocol):
    """A network whose cables can be broken, on one machine or several."""

    @property
    def wiring(self) -> Wiring: ...

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]: ...

    def links_down(self) -> Collection[LinkId]: ...

    def configure(self, link: LinkId, settings: LinkSettings) -> float: ...

    def configured(self) -> Mapping[LinkId, str]: ...


class ManualFaults:
    """Faults that were requested by hand and stand until they are repaired; thread-safe.

    ``breaker``: the one that whatever else breaks the network's cables shares, so that overlaps are counted.
    """

    def __init__(self, net: WiredNetwork, breaker: FaultInjector | None = None) -> None:
        self._network = net.wiring.network
        self._breaker = breaker or FaultInjector(net)
        self._active: dict[str, Fault] = {}
        self._lock = threading.Lock()

    def fail(self, link: str, manner: Sequence[str]) -> tuple[float, str]:
        """The link fails in that manner (``testbed.faults.grammar``); monotonic seconds, and the fault in words.

        One fault a link: another takes its place.
        """
        try:
            found = parse_link(link, self._network)
        except InputError:
            if "@" not in link:
                raise
            raise InputError(
                f"fault {link}: times are not allowed here; the fault starts now and lasts until it is restored"
            ) from None
        fault = standing_fault(found, manner)
        with self._lock:
            return self._begin(fault), _words(fault)

    def restore(self, text: str) -> float:
        """Repair the link; InputError where no fault is active on it."""
        name = label_of(parse_link(text, self._network))
        with self._lock:
            fault = self._active.pop(name, None)
            if fault is None:
                standing = ", ".join(self._active) or "none"
                raise InputError(
                    f"restore {text}: no active fault on this link (active: {standing})"
                )
            return self._breaker.end(fault)

    def set_cables(self, a: str, b: str, *, up: bool) -> None:
        """Every cable between the two nodes loses its carrier, or has it back: faults as of ``fail`` and
        ``restore``."""
        between = [link.id for link in self._network.links if {link.source, link.target} == {a, b}]
        cables = {cables_of([link]): link for link in reversed(between)}
        if not cables:
            raise InputError(
                f"link: no cable of {self._network.name!r} joins {a!r} and {b!r}; links lists the cables"
            )
        with self._lock:
            for cable, link in cables.items():
                cut = [
                    name
                    for name, one in self._active.items()
                    if _cuts(one) and cables_of([one.link]) == cable
                ]
                if up:
                    for name in cut:
                        self._breaker.end(self._active.pop(name))
                elif not cut:
                    self._begin(Fault(link=link))

    def texts(self) -> list[str]:
        """The active faults, in words."""
        with self._lock:
            return [_words(fault) for fault in self._active.values()]

    def links(self) -> list[str]:
        """Links on which one stands, as ``restore`` takes them."""
        with self._lock:
            return list(self._active)

    def _begin(self, fault: Fault) -> float:
        name = label_of(fault.link)
        before = self._active.pop(name, None)
        if before is not None:
            self._breaker.end(before)
        at_s = self._breaker.begin(fault)
        self._active[name] = fault
        return at_s


def _cuts(fault: Fault) -> bool:
    """Whether the cable has no carrier meanwhile."""
    return fault.kind == "down" and fault.direction == "both"


def _words(fault: Fault) -> str:
    return describe(fault) + (" one-way" if fault.direction == "forward" else "")


def link_handlers(net: WiredNetwork, faults: ManualFaults) -> dict[str, Handler]:
    """The requests about links, which a network answers alike on one machine and on several."""

    def fail(sock: socket.socket, request: Frame) -> None:
        at_s, fault = faults.fail(
            _text(request, "link"), [str(word) for word in request.header.get("manner", ())]
        )
        send(sock, {"at_s": at_s, "fault": fault})

    def set_cables(sock: socket.socket, request: Frame) -> None:
        faults.set_cables(
            _text(request, "a"), _text(request, "b"), up=bool(request.header.get("up"))
        )
        send(sock, {})

    def configure(sock: socket.socket, request: Frame) -> None:
        """Set a link's capacity, delay or loss, or say which links are no longer as the network has them."""
        if "link" not in request.header:
            send(
                sock, {"links": {label_of(link): words for link, words in net.configured().items()}}
            )
            return
        link = parse_link(_text(request, "link"), net.wiring.network)
        try:
            settings = LinkSettings(**request.header.get("settings", {}))
        except TypeError as error:
            raise InputError(f"configure: {error}") from None
        at_s = net.configure(link, settings)
        send(sock, {"at_s": at_s, "now": net.configured().get(link, "")})

    def counters(sock: socket.socket, _: Frame) -> None:
        send(sock, {"links": [[*link, *counts] for link, counts in net.link_counters().items()]})

    return {
        "fail": fail,
        "restore": lambda sock, request: send(
            sock, {"at_s": faults.restore(_text(request, "link"))}
        ),
        "faults": lambda sock, _: send(sock, {"standing": faults.texts(), "links": faults.links()}),
        "set cables": set_cables,
        "configure": configure,
        "links down": lambda sock, _: send(sock, {"links": list(net.links_down())}),
        "counters": counters,
    }


class RequestHandlers:
    """The requests that every network which is up answers: describe, exec, capture, and those about links."""

    def __init__(self, net: EmulatedNetwork, breaker: FaultInjector | None = None) -> None:
        self.net = net
        self.faults = ManualFaults(net, breaker)
        self._captures = threading.Lock()
        self._up_since_s = time.monotonic()

    def handlers(self) -> dict[str, Handler]:
        """By the request's ``do``."""
        return {
            "describe": self._describe,
            "exec": lambda sock, request: run_program(self.net, sock, request),
            "capture": self._capture,
            **link_handlers(self.net, self.faults),
        }

    def _describe(self, sock: socket.socket, request: Frame) -> None:
        reported = {
            "datapath": self.net.datapath,
            "mtu": self.net.mtu,
            "setup_seconds": self.net.setup_seconds,
            "up_s": time.monotonic() - self._up_since_s,
        }
        send(
            sock,
            {
                **reported,
                **wiring_document(self.net.wiring, cables=bool(request.header.get("cables"))),
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


class ControlServer:
    """Accepts connections on a door and serves each in a thread of its own, until it is closed."""

    def __init__(self, listener: socket.socket, handlers: Mapping[str, Handler]) -> None:
        self._listener, self._handlers = listener, handlers
        self._open: set[socket.socket] = set()
        self._programs: set[socket.socket] = set()
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
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._programs:
                with suppress(SessionClosedError):
                    send(sock, {"closed": True})
            for sock in self._open:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if not same_user(sock):
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
                if request.header.get("do") == "exec":
                    with self._lock:
                        self._programs.add(sock)
                self._answer(sock, request)
        except SessionClosedError:
            pass  # whoever requests has gone
        finally:
            with self._lock:
                self._open.discard(sock)
                self._programs.discard(sock)
            sock.close()

    def _answer(self, sock: socket.socket, request: Frame) -> None:
        requested = request.header.get("do")
        handler = self._handlers.get(requested) if isinstance(requested, str) else None
        try:
            if handler is None:
                raise InputError(
                    f"unknown request {requested!r}; supported: {', '.join(self._handlers)}"
                )
            handler(sock, request)
        except SessionClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked has to be told
            send(sock, error_header(error))


@contextmanager
def control_server(
    handlers: Mapping[str, Handler], *, inside: bool = False
) -> Iterator[tuple[str | None, Callable[[], None]]]:
    """Meanwhile ``testbed exec`` and ``testbed attach`` reach the network by the name that is given, where this process
    has a door.

    (name, what closes the doors early). ``inside``: also from within this sandbox, whose network namespace the outer
    door is not in.
    """
    doors = [listener for listener in (inherited_socket(),) if listener is not None]
    name = network_name(doors[0]) if doors else None
    if inside and name is not None:
        doors.append(listen(name))
    with ExitStack() as stack:
        keepers = [ControlServer(listener, handlers) for listener in doors]
        for keeper in keepers:
            keeper.start()
            stack.callback(keeper.close)

        def close() -> None:
            for keeper in keepers:
                keeper.close()

        yield name, close


def _text(request: Frame, name: str) -> str:
    found = request.header.get(name)
    if not isinstance(found, str):
        raise InputError(f"{request.header.get('do')}: give {name} as a text")
    return found
