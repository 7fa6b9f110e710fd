"""Answers requests in the process of a running network.

Each connection has a thread and brings one request, which gets one or more answers. A handler gets
the connection and the request, and sends the answers itself. If it raises an error, the error is
the answer.
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
    def wiring(self) -> Wiring:
        """The wiring of the network."""
        ...

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """Return packets sent, bytes sent, and packets that a full queue dropped, for each link."""
        ...

    def links_down(self) -> Collection[LinkId]:
        """Return the links without a carrier."""
        ...

    def configure(self, link: LinkId, settings: LinkSettings) -> float:
        """Change the capacity, delay or loss of a link, and return when the change was active."""
        ...

    def configured(self) -> Mapping[LinkId, str]:
        """Return the links that differ from the network's model, with their settings as text."""
        ...


class ManualFaults:
    """Faults that are active until a request repairs them. Thread-safe.

    Args:
        net: The network.
        breaker: The injector that others use too, if they also break the network's cables; it
            counts overlapping faults. None for one of its own.
    """

    def __init__(self, net: WiredNetwork, breaker: FaultInjector | None = None) -> None:
        self._network = net.wiring.network
        self._breaker = breaker or FaultInjector(net)
        self._active: dict[str, Fault] = {}
        self._lock = threading.Lock()

    def fail(self, link: str, manner: Sequence[str]) -> tuple[float, str]:
        """Begin a fault of a link, which replaces an earlier fault of this link.

        Args:
            link: The link.
            manner: The kind of fault (``testbed.faults.grammar``).

        Returns:
            The monotonic time at which the fault was active, and its description.

        Raises:
            InputError: There is no such link or kind of fault.
        """
        try:
            link_id = parse_link(link, self._network)
        except InputError:
            if "@" not in link:
                raise
            raise InputError(
                f"fault {link}: times are not allowed here; the fault starts now and lasts until "
                "it is restored"
            ) from None
        fault = standing_fault(link_id, manner)
        with self._lock:
            return self._begin(fault), _description(fault)

    def restore(self, text: str) -> float:
        """Repair a link, and return the monotonic time at which it was repaired.

        Raises:
            InputError: There is no such link, or no active fault of it.
        """
        name = label_of(parse_link(text, self._network))
        with self._lock:
            fault = self._active.pop(name, None)
            if fault is None:
                active = ", ".join(self._active) or "none"
                raise InputError(f"restore {text}: no active fault on this link (active: {active})")
            return self._breaker.end(fault)

    def set_cables(self, a: str, b: str, *, up: bool) -> None:
        """Cut or restore every cable between two nodes, as faults of ``fail`` and ``restore``.

        Args:
            a: One node.
            b: The other node.
            up: Restore if true, and cut if not.

        Raises:
            InputError: No cable connects the nodes.
        """
        links = [link.id for link in self._network.links if {link.source, link.target} == {a, b}]
        # Of the two directions of a cable, the first one in the network names the fault.
        cables = {cables_of([link]): link for link in reversed(links)}
        if not cables:
            raise InputError(
                f"link: no cable of {self._network.name!r} joins {a!r} and {b!r}; "
                "links lists the cables"
            )
        with self._lock:
            for cable, link in cables.items():
                cuts = []
                for name, fault in self._active.items():
                    if _is_cut(fault) and cables_of([fault.link]) == cable:
                        cuts.append(name)
                if up:
                    for name in cuts:
                        self._breaker.end(self._active.pop(name))
                elif not cuts:
                    self._begin(Fault(link=link))

    def texts(self) -> list[str]:
        """Return descriptions of the active faults."""
        with self._lock:
            return [_description(fault) for fault in self._active.values()]

    def links(self) -> list[str]:
        """Return the links with an active fault, as ``restore`` accepts them."""
        with self._lock:
            return list(self._active)

    def _begin(self, fault: Fault) -> float:
        """Begin a fault in place of the earlier one of its link; the caller has the lock."""
        name = label_of(fault.link)
        previous = self._active.pop(name, None)
        if previous is not None:
            self._breaker.end(previous)
        at_s = self._breaker.begin(fault)
        self._active[name] = fault
        return at_s


def _is_cut(fault: Fault) -> bool:
    """Return whether the cable has no carrier during the fault."""
    return fault.kind == "down" and fault.direction == "both"


def _description(fault: Fault) -> str:
    suffix = " one-way" if fault.direction == "forward" else ""
    return describe(fault) + suffix


def link_handlers(net: WiredNetwork, faults: ManualFaults) -> dict[str, Handler]:
    """Return the handlers of requests about links, which are the same for one or more machines.

    Args:
        net: The network.
        faults: Its faults.
    """

    def fail(sock: socket.socket, request: Frame) -> None:
        manner = [str(word) for word in request.header.get("manner", ())]
        at_s, fault = faults.fail(_text(request, "link"), manner)
        send(sock, {"at_s": at_s, "fault": fault})

    def restore(sock: socket.socket, request: Frame) -> None:
        send(sock, {"at_s": faults.restore(_text(request, "link"))})

    def list_faults(sock: socket.socket, _: Frame) -> None:
        send(sock, {"standing": faults.texts(), "links": faults.links()})

    def set_cables(sock: socket.socket, request: Frame) -> None:
        up = bool(request.header.get("up"))
        faults.set_cables(_text(request, "a"), _text(request, "b"), up=up)
        send(sock, {})

    def configure(sock: socket.socket, request: Frame) -> None:
        """Change a link or, if the request names none, list the changed links."""
        if "link" not in request.header:
            texts = {label_of(link): text for link, text in net.configured().items()}
            send(sock, {"links": texts})
            return
        link = parse_link(_text(request, "link"), net.wiring.network)
        try:
            settings = LinkSettings(**request.header.get("settings", {}))
        except TypeError as error:
            raise InputError(f"configure: {error}") from None
        at_s = net.configure(link, settings)
        send(sock, {"at_s": at_s, "now": net.configured().get(link, "")})

    def links_down(sock: socket.socket, _: Frame) -> None:
        send(sock, {"links": list(net.links_down())})

    def counters(sock: socket.socket, _: Frame) -> None:
        send(sock, {"links": [[*link, *counts] for link, counts in net.link_counters().items()]})

    return {
        "fail": fail,
        "restore": restore,
        "faults": list_faults,
        "set cables": set_cables,
        "configure": configure,
        "links down": links_down,
        "counters": counters,
    }


class RequestHandlers:
    """The handlers of the requests that every running network answers.

    Args:
        net: The network.
        breaker: The injector of its faults, if others use it too.

    Attributes:
        net: The network.
        faults: Its faults.
    """

    def __init__(self, net: EmulatedNetwork, breaker: FaultInjector | None = None) -> None:
        self.net = net
        self.faults = ManualFaults(net, breaker)
        self._captures = threading.Lock()
        self._up_since_s = time.monotonic()

    def handlers(self) -> dict[str, Handler]:
        """Return each handler by the field ``do`` of its requests."""
        return {
            "describe": self._describe,
            "exec": self._run_program,
            "capture": self._capture,
            **link_handlers(self.net, self.faults),
        }

    def _run_program(self, sock: socket.socket, request: Frame) -> None:
        run_program(self.net, sock, request)

    def _describe(self, sock: socket.socket, request: Frame) -> None:
        """Answer the state and the wiring of the network."""
        state = {
            "datapath": self.net.datapath,
            "mtu": self.net.mtu,
            "setup_seconds": self.net.setup_seconds,
            "up_s": time.monotonic() - self._up_since_s,
        }
        cables = bool(request.header.get("cables"))
        send(sock, {**state, **wiring_document(self.net.wiring, cables=cables)})

    def _capture(self, sock: socket.socket, request: Frame) -> None:
        """Record a link until the client sends a frame or closes the connection."""
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
    """Accepts connections on a control socket, and serves each in a thread, until it is closed.

    Args:
        listener: The control socket.
        handlers: The handler of each request, by its field ``do``.
    """

    def __init__(self, listener: socket.socket, handlers: Mapping[str, Handler]) -> None:
        self._listener = listener
        self._handlers = handlers
        self._open: set[socket.socket] = set()
        self._programs: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = False
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Start to accept connections, in a thread."""
        threading.Thread(target=self._accept, name="door", daemon=True).start()

    def close(self) -> None:
        """Accept no further connections, and end all requests.

        Programs in hosts end with their connections.
        """
        self._closing = True
        # A socket that is only closed would not wake the thread that accepts.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._programs:
                # Its client may have disconnected.
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
                # The socket was closed.
                return
            if not same_user(sock):
                sock.close()
                continue
            with self._lock:
                self._open.add(sock)
            name = f"door {next(self._numbers)}"
            threading.Thread(target=self._serve, args=(sock,), name=name, daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        """Receive and answer the request of one connection."""
        try:
            request = receive(sock)
            if request is not None:
                if request.header.get("do") == "exec":
                    with self._lock:
                        self._programs.add(sock)
                self._answer(sock, request)
        except SessionClosedError:
            # The client has disconnected.
            pass
        finally:
            with self._lock:
                self._open.discard(sock)
                self._programs.discard(sock)
            sock.close()

    def _answer(self, sock: socket.socket, request: Frame) -> None:
        name = request.header.get("do")
        handler = self._handlers.get(name) if isinstance(name, str) else None
        try:
            if handler is None:
                supported = ", ".join(self._handlers)
                raise InputError(f"unknown request {name!r}; supported: {supported}")
            handler(sock, request)
        except SessionClosedError:
            raise
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the client waits for an answer.
            send(sock, error_header(error))


@contextmanager
def control_server(
    handlers: Mapping[str, Handler], *, inside: bool = False
) -> Iterator[tuple[str | None, Callable[[], None]]]:
    """Let other processes send requests to the network during the block.

    Args:
        handlers: The handler of each request, by its field ``do``.
        inside: Also accept requests from within this sandbox. The inherited control socket belongs
            to the network namespace outside, where processes inside cannot find it.

    Yields:
        The name of the network, or None if this process has no control socket; and a function that
        closes the server early.
    """
    listeners = []
    name = None
    inherited = inherited_socket()
    if inherited is not None:
        listeners.append(inherited)
        name = network_name(inherited)
        if inside:
            listeners.append(listen(name))
    with ExitStack() as stack:
        servers = [ControlServer(listener, handlers) for listener in listeners]
        for server in servers:
            server.start()
            stack.callback(server.close)

        def close() -> None:
            for server in servers:
                server.close()

        yield name, close


def _text(request: Frame, name: str) -> str:
    """Return a field of a request that must be a string.

    Raises:
        InputError: It is missing or has another type.
    """
    value = request.header.get(name)
    if not isinstance(value, str):
        raise InputError(f"{request.header.get('do')}: give {name} as a text")
    return value
