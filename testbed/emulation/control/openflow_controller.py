"""The controller's process: an os-ken application (OpenFlow 1.3) that executes requests.

    python -m testbed.emulation.control.openflow_controller LISTENING_SOCKET REQUEST_SOCKET

Requests come from the process that started this one (``controller_link``). Requests and answers are
Python values on a socket that both processes have. The process ends when the other end is closed.

Plans never overlap: one path of a pair of hosts is replaced by another through a plan of the next
version (testbed.openflow.rules).
"""

import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import ClassVar

from os_ken import cfg
from os_ken import flags as _flags  # noqa: F401 - registers options of the OpenFlow handler
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller as os_ken_controller
from os_ken.controller import ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.event import EventBase
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3
from os_ken.ofproto.ofproto_parser import MsgBase

from testbed.emulation.control.controller_link import ENDED, READY, PortEvent
from testbed.emulation.control.openflow_messages import (
    add_group,
    add_rule,
    barrier,
    is_down,
    remove_cookie,
)
from testbed.errors import (
    NO_MEMORY,
    CapabilityError,
    InputError,
    TestbedError,
    is_lack_of_memory,
)
from testbed.openflow.rules import FailoverGroup, FlowRule, by_switch
from topologies import lists_by_key

# Datapath id -> messages, and what each is about, for errors.
Batches = dict[int, list[tuple[MsgBase, str]]]

# A plan's number is the upper half of its rules' cookies, and must not be taken for a negative
# number there.
MAX_PLANS = 1 << 31

# Time limit for the switches to confirm.
_ANSWER_S = 20.0

# Errors of switches that a message lists.
_MAX_ERRORS = 5


class TestbedController(OSKenApp):  # type: ignore[misc]
    """Maintains the connections to the switches, and executes one request at a time.

    A request is answered when every switch has confirmed it.
    """

    OFP_VERSIONS: ClassVar[list[int]] = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        # Number of an installed plan -> datapath ids of the switches that have its rules.
        self._plans: dict[int, tuple[int, ...]] = {}

        # This protects everything below, and notifies of its changes.
        self._changed = threading.Condition()

        # Datapath id -> the connected switch.
        self._switches: dict[int, Datapath] = {}

        # Datapath id and transaction id of barriers that were not answered yet.
        self._waiting: set[tuple[int, int]] = set()

        # Datapath id and transaction id of a message -> what it is about.
        self._sent: dict[tuple[int, int], str] = {}
        self._errors: list[str] = []
        self._ports: list[PortEvent] = []

    def start(self) -> object:
        """Start to execute requests; os-ken calls this when it has created the application."""
        threading.Thread(target=self._serve, name="requests", daemon=True).start()
        return super().start()

    @set_ev_cls(  # type: ignore[untyped-decorator]
        ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER]
    )
    def _state_changed(self, event: EventBase) -> None:
        """Note that a switch has connected or disconnected."""
        datapath = event.datapath
        number = datapath.id
        with self._changed:
            if event.state == MAIN_DISPATCHER:
                self._switches[number] = datapath
            elif self._switches.get(number) is datapath:
                # A switch that has connected again is not removed by the end of its old
                # connection.
                del self._switches[number]
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _barrier_answered(self, event: EventBase) -> None:
        """Note that a switch has confirmed all messages before a barrier."""
        with self._changed:
            self._waiting.discard((event.msg.datapath.id, event.msg.xid))
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _refused(self, event: EventBase) -> None:
        """Note that a switch has refused a message; its barrier is answered all the same."""
        message = event.msg
        dpid = message.datapath.id
        with self._changed:
            subject = self._sent.get((dpid, message.xid), "a message that no plan sent")
            self._errors.append(
                f"switch {dpid} refused (type {message.type}, code {message.code}) {subject}"
            )

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _port_changed(self, event: EventBase) -> None:
        """Note that the link of a port went up or down."""
        at_s = time.monotonic()
        message = event.msg
        port_event = PortEvent(
            at_s=at_s,
            dpid=message.datapath.id,
            port=message.desc.port_no,
            up=not is_down(message),
        )
        with self._changed:
            self._ports.append(port_event)
            self._changed.notify_all()

    def _serve(self) -> None:
        """Answer requests until the other end is closed, and then end the process.

        The switches keep their rules.
        """
        while True:
            try:
                number, name, arguments = _requests().recv()
            except (EOFError, OSError):
                os._exit(0)
            error = ""
            value = None
            try:
                value = getattr(self, "_do_" + name)(**arguments)
            except TestbedError as refusal:
                error = str(refusal)
            except Exception as unexpected:  # noqa: BLE001
                # Whatever it is, the caller waits for an answer.
                traceback.print_exc()
                error = f"controller: {type(unexpected).__name__}: {unexpected}"
            _requests().send((number, error, value))

    def _do_wait(self, dpids: set[int], timeout_s: float) -> list[int]:
        """Wait for switches, and return the datapath ids of those that did not connect in time."""

        def missing() -> set[int]:
            return dpids - self._switches.keys()

        with self._changed:
            self._changed.wait_for(lambda: not missing(), timeout_s)
            return sorted(missing())

    def _do_install(self, plan: int, rules: Iterable[FlowRule]) -> float:
        """Install a plan, whose rules have its number in their cookie.

        Args:
            plan: Number of the plan.
            rules: The rules.

        Returns:
            The seconds until every switch had confirmed.

        Raises:
            InputError: The number is not valid, or a plan with this number is installed.
        """
        if plan in self._plans:
            raise InputError(f"plan {plan} is installed; remove it first")
        if not 0 < plan < MAX_PLANS:
            raise InputError(f"plan id {plan} is outside 1..{MAX_PLANS - 1}")
        rules_by_switch = by_switch(rules)
        # Noted before the rules are sent, so that a plan that fails can be removed.
        self._plans[plan] = tuple(rules_by_switch)
        batches: Batches = {}
        for dpid, rules_of_switch in rules_by_switch.items():
            batches[dpid] = [(add_rule(rule, plan << 32), str(rule)) for rule in rules_of_switch]
        return self._carry_out(batches)

    def _do_groups(self, groups: Sequence[FailoverGroup]) -> None:
        """Create failover groups."""
        messages = ((group.dpid, (add_group(group), str(group))) for group in groups)
        self._carry_out(lists_by_key(messages))

    def _do_remove(self, plan: int) -> None:
        """Remove a plan, if it is installed."""
        cookie = plan << 32
        batches: Batches = {}
        for dpid in self._plans.pop(plan, ()):
            batches[dpid] = [(remove_cookie(cookie), f"the removal of cookie {cookie:#x}")]
        self._carry_out(batches)

    def _do_ports(self, known_count: int, timeout_s: float) -> list[PortEvent]:
        """Return the port events after the first ones; wait until there is one.

        Args:
            known_count: Number of events to leave out.
            timeout_s: Time limit in seconds.
        """

        def has_more() -> bool:
            return len(self._ports) > known_count

        with self._changed:
            self._changed.wait_for(has_more, timeout_s)
            return self._ports[known_count:]

    def _carry_out(self, batches: Batches) -> float:
        """Send messages, and wait until every switch has confirmed.

        Args:
            batches: The messages to each switch.

        Returns:
            The seconds until every switch had confirmed.

        Raises:
            CapabilityError: A switch is not connected, refused a message, or did not answer.
        """
        began_s = time.monotonic()
        with self._changed:
            self._errors.clear()
            self._sent.clear()
            for dpid, messages in batches.items():
                if dpid not in self._switches:
                    self._errors.append(f"switch {dpid} is not connected")
                    continue
                for message, subject in messages:
                    self._sent[self._send(dpid, message)] = subject
                self._send_barrier(dpid)
            self._await_answers()
        return time.monotonic() - began_s

    def _send(self, dpid: int, message: MsgBase) -> tuple[int, int]:
        """Send a message to a switch, and return datapath id and transaction id."""
        switch = self._switches[dpid]
        switch.set_xid(message)
        switch.send_msg(message)
        return (dpid, message.xid)

    def _send_barrier(self, dpid: int) -> None:
        """Send a barrier to a switch, and note that its answer is awaited."""
        switch = self._switches[dpid]
        message = barrier()
        switch.set_xid(message)
        # Noted before it is sent: the answer must find it here.
        self._waiting.add((dpid, message.xid))
        switch.send_msg(message)

    def _await_answers(self) -> None:
        """Wait until every switch has confirmed.

        Raises:
            CapabilityError: A switch refused a message, or did not answer.
        """

        def all_answered() -> bool:
            return not self._waiting

        if not self._changed.wait_for(all_answered, _ANSWER_S):
            silent = sorted({dpid for dpid, _ in self._waiting})
            self._waiting.clear()
            self._errors.append(f"switches {silent} gave no answer within {_ANSWER_S:g} s")
        if self._errors:
            listed = "; ".join(self._errors[:_MAX_ERRORS])
            remaining = len(self._errors) - _MAX_ERRORS
            if remaining > 0:
                listed += f" and {remaining} more"
            raise CapabilityError(listed)


@cache
def _requests() -> Connection:
    """Return the connection to the process that sends requests."""
    return Connection(int(sys.argv[2]))


def _serve_on(listening: socket.socket) -> None:
    """Let os-ken accept switches from a socket that already listens.

    It has no option for that, and would open a socket of its own.
    """

    class InheritedServer(hub.StreamServer):  # type: ignore[misc]
        def __init__(self, _: object, handle: object) -> None:
            self.server = listening
            self.handle = handle

        def serve_forever(self) -> None:
            _requests().send((READY, "", None))
            super().serve_forever()

    os_ken_controller.StreamServer = InheritedServer


def _end(error: BaseException) -> None:
    """End the process, which would answer no more, and say why.

    A lack of memory is reported to the process that sends requests; any other error is printed with
    a traceback.
    """
    if is_lack_of_memory(error):
        _requests().send((ENDED, NO_MEMORY, None))
    else:
        traceback.print_exception(error)
    os._exit(1)


class _Thread(hub.HubThread):  # type: ignore[misc]
    """A thread of os-ken that ends the process if there is no memory left.

    os-ken would only log the error, and the switches would wait for a connection.
    """

    def __init__(
        self, target: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
    ) -> None:
        super().__init__(partial(_end_without_memory, target), args, kwargs)

    def start(self) -> None:
        """Start the thread, which may fail for lack of memory too."""
        _end_without_memory(super().start)


def _end_without_memory(call: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Call a function, and end the process if there is no memory for it."""
    try:
        call(*args, **kwargs)
    except (OSError, RuntimeError, MemoryError) as error:
        if is_lack_of_memory(error):
            _end(error)
        raise


def main() -> None:
    """Accept switches and execute requests until the requester's end is closed."""
    _serve_on(socket.socket(fileno=int(sys.argv[1])))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    hub.HubThread = _Thread
    cfg.CONF(args=[], project="os_ken", default_config_files=[])
    try:
        AppManager.run_apps(
            ["testbed.emulation.control.openflow_controller", "os_ken.controller.ofp_handler"]
        )
    except Exception as error:  # noqa: BLE001
        # os-ken's other threads would keep the process alive.
        _end(error)


if __name__ == "__main__":
    main()
