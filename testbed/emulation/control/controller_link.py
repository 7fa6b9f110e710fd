"""The fabric's side of the controller: starts its process, asks, waits for answers.

The process ends with its caller; the switches keep the rules they have.
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
# The number of an answer that the process gives unasked: it ends, and the error says why.
ENDED = -2
_MAX_WAITING = 1024
"""Switches that may be waiting to be accepted: all of a large network connect in the same moment."""
_START_S = 30.0
_CONNECT_S, _CONNECT_SWITCH_S = 30.0, 0.05
_INSTALL_S, _RULE_S = 60.0, 0.002
"""How long switches may take over a plan, and a rule: tens of thousands of rules take a busy machine minutes."""


@dataclass(frozen=True, kw_only=True)
class PortEvent:
    """A switch said that a port's link went up or down; ``at_s`` on the monotonic clock when its message reached the
    controller."""

    at_s: float
    dpid: int
    port: int
    up: bool


class ControllerLink:
    """One controller process, listening on ``port`` of 127.0.0.1 of the sandbox (0: any that is free).

    Calls of several threads take turns. Every call waits for the switches' confirmation and raises CapabilityError
    where they refuse or do not answer.
    """

    def __init__(self, port: int = DEFAULT_PORT) -> None:
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._ready = False
        self._turn = threading.Lock()

    def start(self) -> None:
        """Start the process and return at once; half a second of imports passes while the network is being built.

        Switches may connect from now on. They are better shown the way after ``wait_until_ready``: Open vSwitch looks
        only twice a second whether a connection that was not answered at once has been. Raises CapabilityError where
        the port is taken.
        """
        try:
            listening = socket.create_server(("127.0.0.1", self.port), backlog=_MAX_WAITING)
        except OSError as error:
            raise CapabilityError(
                f"OpenFlow controller: port {self.port} of 127.0.0.1 cannot be had ({error.strerror}); choose another"
            ) from None
        ours, theirs = socket.socketpair()
        with listening, theirs:
            self.port = listening.getsockname()[1]
            descriptors = [listening.fileno(), theirs.fileno()]
            words = [
                sys.executable,
                "-P",
                "-m",
                "testbed.emulation.control.openflow_controller",
                *map(str, descriptors),
            ]
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
                # os_ken runs a file of the current directory that has the name of a module of its own.
                cwd="/",
            )
        self._pipe = Connection(ours.detach())
        self._ready = False

    def wait_until_ready(self) -> None:
        """Return when the process answers switches at once. Raises CapabilityError where it has died or hangs."""
        if not self._ready:
            self._answer(0, _START_S)
            self._ready = True

    def stop(self) -> None:
        """End the process. The switches keep their rules."""
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
        """The controller's process."""
        assert self._process is not None
        return self._process.pid

    def wait_for_switches(self, dpids: Sequence[int], timeout_s: float | None = None) -> None:
        """Return when all are connected. ``timeout_s``: None for 30 s and a twentieth for each switch."""
        limit_s = _CONNECT_S + _CONNECT_SWITCH_S * len(dpids) if timeout_s is None else timeout_s
        missing = self._ask(limit_s + 5, do="wait", dpids=set(dpids), timeout_s=limit_s)
        if missing:
            raise CapabilityError(
                f"{len(missing)} of {len(dpids)} switches did not reach the controller within {limit_s:g} s"
            )

    def install_groups(self, groups: Iterable[FailoverGroup]) -> None:
        """Make failover groups, before the rules that name them; they stay until the switches go."""
        self._ask(60, do="groups", groups=tuple(groups))

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install a plan; returns the seconds until every switch had confirmed."""
        given = tuple(rules)
        limit_s = _INSTALL_S + len(given) * _RULE_S
        return float(self._ask(limit_s, do="install", plan=plan_id, rules=given))

    def remove(self, plan_id: int) -> None:
        """Take a plan's rules away."""
        self._ask(60, do="remove", plan=plan_id)

    def port_events(self, known: int = 0, timeout_s: float = 0.0) -> tuple[PortEvent, ...]:
        """Port changes reported since the start, in order, but for the first ``known``; returns as soon as there is
        one, or with none after the time."""
        return tuple(self._ask(10 + timeout_s, do="ports", known=known, timeout_s=timeout_s))

    def _ask(self, limit_s: float, *, do: str, **given: object) -> Any:
        with self._turn:
            self.wait_until_ready()
            number = next(self._numbers)
            return self._answer(number, limit_s, (number, do, given))

    def _answer(self, number: int, limit_s: float, request: object = None) -> Any:
        """The answer to request ``number`` (0, which is not asked: that it is ready); late ones to earlier requests,
        which nobody waits for any more, are passed over."""
        until, answered, error, value = time.monotonic() + limit_s, -1, "", None
        try:
            if request is not None:
                # A process that has ended may have said why.
                with contextlib.suppress(BrokenPipeError):
                    self._pipe.send(request)
            while answered not in (number, ENDED):
                if not self._pipe.poll(max(0.0, until - time.monotonic())):
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


_QUIET_S = 0.03


class PortWatch:
    """Calls ``on_port`` with each port event from ``start`` on."""

    def __init__(self, controller: ControllerLink, on_port: Callable[[PortEvent], None]) -> None:
        self._controller, self._on_port = controller, on_port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="port watch", daemon=True)
        self._error: TestbedError | None = None

    def start(self) -> None:
        """Begin to pass on what happens from now on."""
        self._known = len(self._controller.port_events())
        self._thread.start()

    def stop(self) -> None:
        """Pass nothing more on. May be called twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise what went wrong, if anything did; after ``stop``."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for event in self._controller.port_events(self._known, _QUIET_S):
                    self._known += 1
                    self._on_port(event)
        except TestbedError as error:
            self._error = error
