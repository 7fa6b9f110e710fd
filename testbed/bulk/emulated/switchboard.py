"""Circuits set up and torn down in real switches, and the one loop that carries a coordinator's decisions out there,
for bulk transfers and striped files alike.

The switchboard writes batches over each bridge's management socket. The rules are bytes before the run begins; a batch
is one write a switch and ends with a barrier, a few milliseconds for the circuits of a whole time frame. The sockets
also report ports that go down.

The coordinator (``testbed.bulk.coordinator``) decides, the loop decides nothing. It hands over what happens: a batch
of circuits confirmed by the switches, a port that went down, time that passes, and whatever the caller reads from files
of its own (reports of processes, wake-ups of threads). And it executes what the coordinator answers: changes of
circuits go to the switchboard, messages to be sent to the caller, and the end of the run ends the loop.
"""

import itertools
import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from os_ken.ofproto import ofproto_v1_3_parser as parser

from testbed.bulk.circuit_rules import CIRCUIT_PRIORITY, circuit_rules, pair_routes, return_rules
from testbed.bulk.coordinator import Action, BulkCoordinator, ChangeCircuits, Circuit, Send
from testbed.bulk.plan import Pair
from testbed.emulation.control.openflow_messages import (
    ANY_SWITCH,
    SwitchReader,
    add_rule,
    as_bytes,
    barrier,
    hello,
    is_down,
    remove_rule,
)
from testbed.errors import CapabilityError
from testbed.machines.adapters.platform import Platform
from testbed.openflow.rules import FlowRule, HostRoute
from topologies import LinkId, lists_by_key

_ANSWER_S = 20.0
_COOKIE = 0xC1BC0000
Batch = dict[int, bytes]
"""Datapath id -> messages."""


class CircuitSwitchboard:
    """One connection to every bridge of a running network. ``pairs[t]`` are the end points of transfer ``t``.

    ``files`` are to be watched for reading, ``receive`` called when one is readable. Raises CapabilityError where a
    bridge cannot be reached, refuses a rule, or does not answer.
    """

    def __init__(self, platform: Platform, pairs: Sequence[Pair]) -> None:
        wiring = platform.wiring
        self._wiring, self._pairs = wiring, pairs
        self.flush_flow_cache = platform.forget
        """Have the switches look every flow up in their tables again: they keep what they found for a flow's first
        packet, and correct it some milliseconds after a rule has changed. A circuit's first packets would be dropped
        because their like were before."""
        self._sockets = {s.dpid: platform.bridge(s.device) for s in wiring.switches}
        self._readers = {dpid: SwitchReader() for dpid in self._sockets}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, int] = {}
        self._known: dict[tuple[Circuit, bool], Batch] = {}
        self._platform, self._routes = platform, dict[Pair, tuple[HostRoute, ...]]()
        self._links = {place: cable.links for place, cable in wiring.cables_by_port().items()}
        self._began = 0.0
        self.changes = 0
        self.slowest_change_s = 0.0
        self.circuit_change_s = 0.0
        for sock in self._sockets.values():
            sock.sendall(hello(next(self._numbers)))

    def close(self) -> None:
        """The switches keep the rules they have; hosts send as before again."""
        self._platform.route(
            (route for routes in self._routes.values() for route in routes), add=False
        )
        for sock in self._sockets.values():
            sock.close()

    @property
    def files(self) -> dict[int, int]:
        """File descriptor -> datapath id."""
        return {sock.fileno(): dpid for dpid, sock in self._sockets.items()}

    def prepare(self, circuits: Iterable[Circuit]) -> None:
        """Write their messages now, so that a change in mid-run only sends them."""
        for circuit in circuits:
            self._messages(circuit, True)
            self._messages(circuit, False)

    def set_paths(self, paths: Mapping[Pair, Sequence[LinkId]]) -> None:
        """Have hosts with several cables, and hosts that forward, send the pairs' packets along these paths."""
        routes = {pair: pair_routes(self._wiring, pair, path) for pair, path in paths.items()}
        changed = [pair for pair, own in routes.items() if own != self._routes.get(pair, ())]
        if changed:
            self._platform.route(route for pair in changed for route in routes[pair])
            self._platform.route(
                (route for pair in changed for route in self._routes.pop(pair, ())), add=False
            )
            self._routes |= {pair: routes[pair] for pair in changed}

    def start_change(self, set_up: Iterable[Circuit], tear_down: Iterable[Circuit]) -> None:
        """Send a batch: what goes first, then what comes. ``receive`` reports when every switch has confirmed it."""
        if self._wiring.routed:
            set_up = tuple(set_up)
            self.set_paths({self._pairs[circuit.transfer]: circuit.path for circuit in set_up})
        changes = (
            (circuit, up)
            for circuits, up in ((tear_down, False), (set_up, True))
            for circuit in circuits
        )
        self._send(
            lists_by_key(item for change in changes for item in self._messages(*change).items())
        )

    def change_rules(self, rules: Iterable[FlowRule], action: Literal["add", "remove"]) -> None:
        """Add or remove standing rules; returns when every switch has confirmed."""
        self._send(lists_by_key((rule.dpid, self._message(rule, action)) for rule in rules))
        self.wait()

    def wait(self) -> None:
        """Return when the batch under way has been confirmed. What else the switches report meanwhile is passed
        over."""
        until = time.monotonic() + _ANSWER_S
        while self._waiting:
            files = self.files
            ready = select.select(
                [f for f, dpid in files.items() if dpid in self._waiting], (), (), 1.0
            )[0]
            for file in ready:
                self.receive(files[file])
            if time.monotonic() > until:
                raise CapabilityError(
                    f"switches {sorted(self._waiting)} gave no answer within {_ANSWER_S:g} s"
                )

    @property
    def changing(self) -> bool:
        """Whether a batch is under way."""
        return bool(self._waiting)

    def receive(self, dpid: int) -> tuple[bool, tuple[LinkId, ...]]:
        """Read what that switch reports: (the batch under way is confirmed with this, links whose port went down)."""
        data = self._sockets[dpid].recv(1 << 16)
        if not data:
            raise CapabilityError(f"switch {dpid} closed its management connection")
        confirmed, lost = False, list[LinkId]()
        for event in self._readers[dpid].receive(data):
            if isinstance(event, parser.OFPBarrierReply) and self._waiting.get(dpid) == event.xid:
                del self._waiting[dpid]
                confirmed = not self._waiting
            elif isinstance(event, parser.OFPErrorMsg):
                raise CapabilityError(
                    f"switch {dpid} refused a circuit's rule (type {event.type}, code {event.code})"
                )
            elif isinstance(event, parser.OFPEchoRequest):
                self._sockets[dpid].sendall(
                    as_bytes(parser.OFPEchoReply(ANY_SWITCH, event.data), event.xid)
                )
            elif isinstance(event, parser.OFPPortStatus) and is_down(event):
                lost += self._links.get((dpid, event.desc.port_no), ())
        if confirmed:
            self.changes += 1
            took_s = time.monotonic() - self._began
            self.slowest_change_s = max(self.slowest_change_s, took_s)
            self.circuit_change_s += took_s
        return confirmed, tuple(lost)

    def _send(self, batches: dict[int, list[bytes]]) -> None:
        self._began = time.monotonic()
        for dpid, parts in batches.items():
            number = next(self._numbers)
            self._waiting[dpid] = number
            self._sockets[dpid].sendall(b"".join(parts) + as_bytes(barrier(), number))

    def _message(self, rule: FlowRule, action: Literal["add", "remove"]) -> bytes:
        return as_bytes(
            add_rule(rule, _COOKIE) if action == "add" else remove_rule(rule), next(self._numbers)
        )

    def _messages(self, circuit: Circuit, up: bool) -> Batch:
        known = self._known.get((circuit, up))
        if known is None:
            known = {}
            for rule in self._rules(circuit):
                action: Literal["add", "remove"] = "add" if up else "remove"
                known[rule.dpid] = known.get(rule.dpid, b"") + self._message(rule, action)
            self._known[circuit, up] = known
        return known

    def _rules(self, circuit: Circuit) -> tuple[FlowRule, ...]:
        pair = self._pairs[circuit.transfer]
        rules = circuit_rules(self._wiring, pair, circuit.path, part=circuit.part)
        if circuit.own_return:
            rules += return_rules(
                self._wiring, pair, circuit.path, priority=CIRCUIT_PRIORITY, part=circuit.part
            )
        return rules


MAX_WAIT_S = 0.1
"""The loop looks at the time this often, whatever happens."""


class CircuitDriver:
    """Drives one run of a coordinator; times are seconds since ``start_s`` on the monotonic clock.

    ``send``: called with (transfer, attempt) of the messages that hold their links now. Afterwards ``failure`` says why
    the run did not come to its end (None where it did), ``lost_links`` which links were cut, ``ended_s`` when it was
    over.
    """

    def __init__(
        self,
        coordinator: BulkCoordinator,
        switchboard: CircuitSwitchboard,
        send: Callable[[Sequence[tuple[int, int]]], None],
        *,
        start_s: float,
    ) -> None:
        self.coordinator = coordinator
        self._switchboard, self._send, self._start_s = switchboard, send, start_s
        self._stopping = False
        self.failure: str | None = None
        self.lost_links: list[LinkId] = []
        self.ended_s = 0.0

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._start_s

    def stop(self) -> None:
        """Leave the loop at its next round (any thread may ask for it)."""
        self._stopping = True

    def run(
        self,
        readers: Mapping[int, Callable[[], object]],
        on_round: Callable[[], None],
        due_s: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        """Run until the coordinator ends it or ``stop`` is called, then wait for the switches' last confirmation.

        ``readers``: file descriptor -> what reads it when it is readable; ``on_round`` is called in every round of the
        loop, ``due_s()`` at the latest. Raises CapabilityError where a switch refuses a rule or does not answer.
        """
        calls = {
            **readers,
            **{file: self._reader(dpid) for file, dpid in self._switchboard.files.items()},
        }
        with select.epoll() as poll:
            for file in calls:
                poll.register(file, select.EPOLLIN)
            self.coordinator.start(0.0)
            self._execute_all()
            while not self.coordinator.over and not self._stopping:
                left_s = min(self.coordinator.deadline_s(), due_s()) - self.now_s
                for file, _ in poll.poll(min(MAX_WAIT_S, max(0.0, left_s))):
                    calls[file]()
                on_round()
                self.coordinator.advance(self.now_s)
                self._execute_all()
        self.ended_s = self.now_s
        self._switchboard.wait()

    def _reader(self, dpid: int) -> Callable[[], None]:
        return lambda: self._on_switch(dpid)

    def _on_switch(self, dpid: int) -> None:
        confirmed, lost = self._switchboard.receive(dpid)
        if confirmed:
            self.coordinator.circuits_changed(self.now_s)
        if lost:
            self.lost_links += lost
            self.coordinator.on_link_failed(lost, self.now_s)

    def _execute_all(self) -> None:
        while actions := self.coordinator.actions():
            for action in actions:
                self._execute(action)

    def _execute(self, action: Action) -> None:
        if isinstance(action, Send):
            self._send(action.messages)
        elif isinstance(action, ChangeCircuits):
            if self._switchboard.changing:
                self._switchboard.wait()  # only where the run ends in the middle of a change
            self._switchboard.start_change(action.set_up, action.tear_down)
            if (
                not self._switchboard.changing and not self.coordinator.over
            ):  # no switch had anything to change
                self.coordinator.circuits_changed(self.now_s)
        else:
            self.failure = action.failure
