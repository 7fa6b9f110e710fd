"""The controller's process: an os-ken OpenFlow 1.3 application that executes the requests of the process that started
it.

Requests and answers are Python values on a socket that both have; it ends when the other end closes. Plans never
overlap: one path of a pair is changed for another by a plan of the next version (testbed.openflow.rules).
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

from os_ken import cfg
from os_ken import flags as _flags  # noqa: F401 - registers the options that the OpenFlow handler reads
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import controller as os_ken_controller
from os_ken.controller import ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.event import EventBase
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3
from os_ken.ofproto.ofproto_parser import MsgBase

from testbed.emulation.control.controller_link import ENDED, PortEvent
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

Batches = dict[int, list[tuple[MsgBase, str]]]
"""Datapath id -> messages, and what each is about."""
MAX_PLANS = 1 << 31
_ANSWER_S = 20.0
_MAX_ERRORS = 5


class TestbedController(OSKenApp):  # type: ignore[misc]
    """Keeps the connections; one request at a time, each answered when every switch has confirmed it."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - os-ken reads this list

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._plans: dict[int, tuple[int, ...]] = {}
        self._changed = threading.Condition()
        self._switches: dict[int, Datapath] = {}
        self._waiting: set[tuple[int, int]] = set()
        self._sent: dict[tuple[int, int], str] = {}
        self._errors: list[str] = []
        self._ports: list[PortEvent] = []

    def start(self) -> object:
        threading.Thread(target=self._serve, name="requests", daemon=True).start()
        return super().start()

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore[untyped-decorator]
    def _state_changed(self, event: EventBase) -> None:
        datapath, number = event.datapath, event.datapath.id
        with self._changed:
            if event.state == MAIN_DISPATCHER:
                self._switches[number] = datapath
            elif self._switches.get(number) is datapath:
                del self._switches[number]
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _barrier_answered(self, event: EventBase) -> None:
        with self._changed:
            self._waiting.discard((event.msg.datapath.id, event.msg.xid))
            self._changed.notify_all()

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _refused(self, event: EventBase) -> None:
        message = event.msg
        with self._changed:
            rule = self._sent.get((message.datapath.id, message.xid), "a message that no plan sent")
            self._errors.append(
                f"switch {message.datapath.id} refused (type {message.type}, code {message.code}) {rule}"
            )

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def _port_changed(self, event: EventBase) -> None:
        at_s, message = time.monotonic(), event.msg
        up, port = not is_down(message), message.desc.port_no
        with self._changed:
            self._ports.append(PortEvent(at_s=at_s, dpid=message.datapath.id, port=port, up=up))
            self._changed.notify_all()

    def _serve(self) -> None:
        """Answer requests until the other end closes, then end the process (the switches keep their rules)."""
        while True:
            try:
                number, what, given = _requests().recv()
            except (EOFError, OSError):
                os._exit(0)
            error, value = "", None
            try:
                value = getattr(self, "_do_" + what)(**given)
            except TestbedError as refused:
                error = str(refused)
            except Exception as unexpected:  # noqa: BLE001 - whatever it was, the caller waits for an answer
                traceback.print_exc()
                error = f"controller: {type(unexpected).__name__}: {unexpected}"
            _requests().send((number, error, value))

    def _do_wait(self, dpids: set[int], timeout_s: float) -> list[int]:
        """Those that are not connected by then."""
        with self._changed:
            self._changed.wait_for(lambda: dpids <= self._switches.keys(), timeout_s)
            return sorted(dpids - self._switches.keys())

    def _do_install(self, plan: int, rules: Iterable[FlowRule]) -> float:
        """A plan that is not there yet. Its rules come and go together, and carry its number as a cookie."""
        if plan in self._plans:
            raise InputError(f"plan {plan} is installed; remove it first")
        if not 0 < plan < MAX_PLANS:
            raise InputError(f"plan id {plan} is outside 1..{MAX_PLANS - 1}")
        listed = by_switch(rules)
        self._plans[plan] = tuple(listed)
        return self._carry_out(
            {
                dpid: [(add_rule(rule, plan << 32), f"{rule}") for rule in own]
                for dpid, own in listed.items()
            }
        )

    def _do_groups(self, groups: Sequence[FailoverGroup]) -> None:
        self._carry_out(
            lists_by_key((group.dpid, (add_group(group), f"{group}")) for group in groups)
        )

    def _do_remove(self, plan: int) -> None:
        """Nothing where it is not there."""
        cookie, gone = plan << 32, self._plans.pop(plan, ())
        self._carry_out(
            {dpid: [(remove_cookie(cookie), f"the removal of cookie {cookie:#x}")] for dpid in gone}
        )

    def _do_ports(self, known: int, timeout_s: float) -> list[PortEvent]:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ports) > known, timeout_s)
            return self._ports[known:]

    def _carry_out(self, batches: Batches) -> float:
        """The seconds until every switch had confirmed."""
        began = time.monotonic()
        with self._changed:
            self._errors.clear()
            self._sent.clear()
            for dpid, messages in batches.items():
                if dpid not in self._switches:
                    self._errors.append(f"switch {dpid} is not connected")
                    continue
                for message, what in messages:
                    self._send(dpid, message, what)
                self._send(dpid, barrier(), answered=True)
            self._await_answers()
        return time.monotonic() - began

    def _send(self, dpid: int, message: MsgBase, what: str = "", *, answered: bool = False) -> None:
        switch = self._switches[dpid]
        switch.set_xid(message)
        key = (dpid, message.xid)
        if answered:
            self._waiting.add(key)
        if what:
            self._sent[key] = what
        switch.send_msg(message)

    def _await_answers(self) -> None:
        """Until every switch has confirmed; CapabilityError with what any of them refused."""
        if not self._changed.wait_for(lambda: not self._waiting, _ANSWER_S):
            silent = sorted({dpid for dpid, _ in self._waiting})
            self._waiting.clear()
            self._errors.append(f"switches {silent} gave no answer within {_ANSWER_S:g} s")
        if self._errors:
            more = len(self._errors) - _MAX_ERRORS
            rest = f" and {more} more" if more > 0 else ""
            raise CapabilityError("; ".join(self._errors[:_MAX_ERRORS]) + rest)


@cache
def _requests() -> Connection:
    return Connection(int(sys.argv[2]))


def _serve_on(listening: socket.socket) -> None:
    """Have os-ken accept its switches from a socket that listens already, not from one that it opens (it knows no such
    option)."""

    class InheritedServer(hub.StreamServer):  # type: ignore[misc]
        def __init__(self, _: object, handle: object) -> None:
            self.server, self.handle = listening, handle

        def serve_forever(self) -> None:
            _requests().send((0, "", None))
            super().serve_forever()

    os_ken_controller.StreamServer = InheritedServer


def _end(error: BaseException) -> None:
    """End the process, which would answer no more, and say why.

    A lack of memory is reported to the process that asks; any other error with a traceback.
    """
    if is_lack_of_memory(error):
        _requests().send((ENDED, NO_MEMORY, None))
    else:
        traceback.print_exception(error)
    os._exit(1)


class _Thread(hub.HubThread):  # type: ignore[misc]
    """A thread of os-ken that ends the process if memory is out.

    os-ken would only write to its log, and the switches would wait for a connection.
    """

    def __init__(
        self, target: Callable[..., object], args: Sequence[object], kwargs: dict[str, object]
    ) -> None:
        super().__init__(partial(_end_without_memory, target), args, kwargs)

    def start(self) -> None:
        _end_without_memory(super().start)


def _end_without_memory(call: Callable[..., object], *args: object, **kwargs: object) -> None:
    try:
        call(*args, **kwargs)
    except (OSError, RuntimeError, MemoryError) as error:
        if is_lack_of_memory(error):
            _end(error)
        raise


def main() -> None:
    """Accept switches on the listening socket that was passed on, and serve requests until the other end of theirs
    closes."""
    _serve_on(socket.socket(fileno=int(sys.argv[1])))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    hub.HubThread = _Thread
    cfg.CONF(args=[], project="os_ken", default_config_files=[])
    try:
        AppManager.run_apps(
            ["testbed.emulation.control.openflow_controller", "os_ken.controller.ofp_handler"]
        )
    except Exception as error:  # noqa: BLE001 - os-ken's other threads would keep the process
        _end(error)


if __name__ == "__main__":
    main()
