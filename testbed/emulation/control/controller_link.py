"""The caller's end of the controller: starts its process, sends requests, and waits for answers.

The process ends with its caller. The switches then keep their rules.
"""

import contextlib
import itertools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from testbed.errors import CapabilityError, TestbedError
from testbed.openflow.rules import FailoverGroup, FlowRule

DEFAULT_PORT = 6653

# Numbers of messages that the process sends without a request: it is ready, or it ends and the
# error says why.
READY = 0
ENDED = -2

# Switches that may wait to be accepted. All those of a large network connect at the same moment.
_BACKLOG = 1024

# Time limit for the start of the process.
_START_S = 30.0

# Time limit for the connection of all switches: a fixed part, and a part for each switch.
_CONNECT_S = 30.0
_CONNECT_SWITCH_S = 0.05

# Time limit for installing a plan: a fixed part, and a part for each rule. A busy machine needs
# minutes for tens of thousands of rules.
_INSTALL_S = 60.0
_RULE_S = 0.002

# Time limit for all other requests, and for the answer after a request's own time limit.
_REQUEST_S = 60.0
_EXTRA_S = 5.0
_EXTRA_PORTS_S = 10.0

# A watch waits this long for a change of a port before it looks whether it shall stop.
_QUIET_S = 0.03


@dataclass(frozen=True, kw_only=True)
class PortEvent:
    """A switch has reported that the link of a port went up or down.

    Attributes:
        at_s: When its message reached the controller, on the monotonic clock.
        dpid: Datapath id of the switch.
        port: Number of the port.
        up: Whether the link went up.
    """

    at_s: float
    dpid: int
    port: int
    up: bool


class ControllerLink:
    """One controller process, which listens on 127.0.0.1 of the sandbox.

    Requests of several threads are processed one after the other. Every request waits until the
    switches have confirmed it, and raises CapabilityError if they refuse or do not answer.

    Args:
        port: TCP port; 0 for any free port.

    Attributes:
        port: TCP port on which the process listens, after ``start``.
    """

    def __init__(self, port: int = DEFAULT_PORT) -> None:
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._ready = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, and return at once.

        The process needs half a second for its imports, during which the network can be built.

        Switches may connect from now on. It is better to give them the controller's address after
        ``wait_until_ready``: if a connection is not answered at once, Open vSwitch looks only twice
        a second whether it has been.

        Raises:
            CapabilityError: The port is in use.
        """
        try:
            listening = socket.create_server(("127.0.0.1", self.port), backlog=_BACKLOG)
        except OSError as error:
            raise CapabilityError(
                f"OpenFlow controller: port {self.port} of 127.0.0.1 is not available "
                f"({error.strerror}); choose another"
            ) from None
        ours, theirs = socket.socketpair()
        with listening, theirs:
            _, self.port = listening.getsockname()
            descriptors = [listening.fileno(), theirs.fileno()]
            module = "testbed.emulation.control.openflow_controller"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                # os_ken runs a file in the current directory that is called like one of its
                # modules.
                cwd="/",
            )
        self._pipe = Connection(ours.detach())
        self._ready = False

    def wait_until_ready(self) -> None:
        """Wait until the process answers switches at once.

        Raises:
            CapabilityError: It has died or hangs.
        """
        if not self._ready:
            self._answer(READY, _START_S)
            self._ready = True

    def stop(self) -> None:
        """End the process; the switches keep their rules."""
        if self._process is None:
            return
        self._pipe.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @property
    def pid(self) -> int:
        """The id of the controller's process."""
        assert self._process is not None
        return self._process.pid

    def wait_for_switches(self, dpids: Sequence[int], timeout_s: float | None = None) -> None:
        """Wait until all switches are connected.

        Args:
            dpids: Datapath ids of the switches.
            timeout_s: Time limit in seconds; None for 30 s and 50 ms for each switch.

        Raises:
            CapabilityError: Some did not connect in time.
        """
        limit_s = timeout_s
        if limit_s is None:
            limit_s = _CONNECT_S + _CONNECT_SWITCH_S * len(dpids)
        missing = self._request(limit_s + _EXTRA_S, do="wait", dpids=set(dpids), timeout_s=limit_s)
        if missing:
            raise CapabilityError(
                f"{len(missing)} of {len(dpids)} switches did not reach the controller within "
                f"{limit_s:g} s"
            )

    def install_groups(self, groups: Iterable[FailoverGroup]) -> None:
        """Create failover groups, before the rules that use them.

        They stay as long as the switches.
        """
        self._request(_REQUEST_S, do="groups", groups=tuple(groups))

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install a plan.

        Args:
            rules: The rules of the plan.
            plan_id: The plan's number, which no installed plan has.

        Returns:
            The seconds until every switch had confirmed.
        """
        all_rules = tuple(rules)
        limit_s = _INSTALL_S + len(all_rules) * _RULE_S
        return float(self._request(limit_s, do="install", plan=plan_id, rules=all_rules))

    def remove(self, plan_id: int) -> None:
        """Remove a plan's rules."""
        self._request(_REQUEST_S, do="remove", plan=plan_id)

    def port_events(self, known_count: int = 0, timeout_s: float = 0.0) -> tuple[PortEvent, ...]:
        """Return the changes of ports that were reported since the start, in order.

        Args:
            known_count: Number of events to leave out, from the first on.
            timeout_s: Time to wait in seconds if there is no other event yet.
        """
        limit_s = _EXTRA_PORTS_S + timeout_s
        events = self._request(limit_s, do="ports", known_count=known_count, timeout_s=timeout_s)
        return tuple(events)

    def _request(self, limit_s: float, *, do: str, **arguments: object) -> Any:
        """Send a request, and return the answer.

        Args:
            limit_s: Time limit for the answer in seconds.
            do: Name of the request: ``_do_NAME`` of the process carries it out.
            arguments: Arguments of the request.
        """
        with self._lock:
            self.wait_until_ready()
            number = next(self._numbers)
            return self._answer(number, limit_s, (number, do, arguments))

    def _answer(self, number: int, limit_s: float, request: object = None) -> Any:
        """Return the answer to a request, which is sent before unless it is None.

        Late answers to earlier requests are ignored.

        Args:
            number: Number of the request, or ``READY``.
            limit_s: Time limit for the answer in seconds.
            request: The request.

        Raises:
            CapabilityError: The process reports an error, does not answer, or has died.
        """
        deadline_s = time.monotonic() + limit_s
        answered = None
        error = ""
        value = None
        try:
            if request is not None:
                # A process that has ended may have said why, so its message is read below.
                with contextlib.suppress(BrokenPipeError):
                    self._pipe.send(request)
            while answered not in (number, ENDED):
                if not self._pipe.poll(max(0.0, deadline_s - time.monotonic())):
                    raise CapabilityError(
                        "the OpenFlow controller does not answer; see its messages above"
                    )
                answered, error, value = self._pipe.recv()
        except (OSError, EOFError):
            raise CapabilityError(
                "the OpenFlow controller has died; the switches keep their rules"
            ) from None
        if error:
            raise CapabilityError(f"OpenFlow controller: {error}")
        return value


class PortWatch:
    """Calls a function with each port event, in a thread.

    Args:
        controller: The controller that reports the events.
        on_port: The function.
    """

    def __init__(self, controller: ControllerLink, on_port: Callable[[PortEvent], None]) -> None:
        self._controller = controller
        self._on_port = on_port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="port watch", daemon=True)
        self._error: TestbedError | None = None

    def start(self) -> None:
        """Pass on the events from now on."""
        self._passed_on = len(self._controller.port_events())
        self._thread.start()

    def stop(self) -> None:
        """Pass on no further events; may be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise the error that ended the watch, if any; after ``stop``."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for event in self._controller.port_events(self._passed_on, _QUIET_S):
                    self._passed_on += 1
                    self._on_port(event)
        except TestbedError as error:
            self._error = error
