"""Installs circuits in switches, and executes a coordinator's decisions in one loop.

Bulk transfers and striped files use both classes.

``CircuitSwitchboard`` writes batches to each bridge's management socket. The bytes of the rules are
computed before the run. A batch is one write per switch and ends with a barrier. It takes a few
milliseconds for the circuits of a complete time frame. The sockets also report ports that go down.

``CircuitDriver`` is the loop. The coordinator (``testbed.bulk.coordinator``) makes all decisions.
The loop reports events to it: a batch that the switches confirmed, a port that went down, the time,
and what the caller reads from files of its own (reports of processes, wake-ups of threads). It
executes the coordinator's answers: changes of circuits go to the switchboard, messages to the
caller, and the end of the run ends the loop.
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

# How long switches may take to confirm a batch.
_ANSWER_S = 20.0
_COOKIE = 0xC1BC0000
_READ_BYTES = 1 << 16
# The loop checks the time at least this often.
MAX_WAIT_S = 0.1
# OpenFlow messages, by the datapath id of the switch.
Batch = dict[int, bytes]
RuleAction = Literal["add", "remove"]


class CircuitSwitchboard:
    """A connection to every bridge of a running network.

    The file descriptors in ``files`` must be watched for reading. If one is readable, ``receive``
    must be called. All methods raise CapabilityError if a bridge is not reached, rejects a rule, or
    does not answer.

    Attributes:
        changes: The number of batches that were confirmed.
        slowest_change_s: The longest time between a batch and its confirmation.
        circuit_change_s: The sum of these times.
    """

    def __init__(self, platform: Platform, pairs: Sequence[Pair]) -> None:
        """Connect to all bridges.

        Args:
            platform: The network.
            pairs: The end points of each transfer.
        """
        wiring = platform.wiring
        self._platform = platform
        self._wiring = wiring
        self._pairs = pairs
        self._sockets = {switch.dpid: platform.bridge(switch.device) for switch in wiring.switches}
        self._readers = {dpid: SwitchReader() for dpid in self._sockets}
        self._transaction_ids = itertools.count(1)
        # The barrier that each switch has not yet confirmed.
        self._waiting: dict[int, int] = {}
        self._prepared: dict[tuple[Circuit, RuleAction], Batch] = {}
        self._routes: dict[Pair, tuple[HostRoute, ...]] = {}
        self._links_of_port = {port: cable.links for port, cable in wiring.cables_by_port().items()}
        self._began_s = 0.0
        self.changes = 0
        self.slowest_change_s = 0.0
        self.circuit_change_s = 0.0
        for sock in self._sockets.values():
            sock.sendall(hello(next(self._transaction_ids)))

    def close(self) -> None:
        """Remove the routes of hosts, and close the connections. Switches keep their rules."""
        routes: list[HostRoute] = []
        for routes_of_pair in self._routes.values():
            routes += routes_of_pair
        self._platform.route(routes, add=False)
        for sock in self._sockets.values():
            sock.close()

    def flush_flow_cache(self) -> None:
        """Let the switches look up every flow in their tables again.

        They cache the decision about a flow's first packet, and correct it only some milliseconds
        after a rule has changed. A circuit's first packets would be dropped because earlier ones
        were.
        """
        self._platform.forget()

    @property
    def files(self) -> dict[int, int]:
        """The datapath ids of the switches, by file descriptor."""
        return {sock.fileno(): dpid for dpid, sock in self._sockets.items()}

    def prepare(self, circuits: Iterable[Circuit]) -> None:
        """Compute the messages of circuits now, so that a change during the run only sends them."""
        for circuit in circuits:
            self._messages(circuit, "add")
            self._messages(circuit, "remove")

    def set_paths(self, paths: Mapping[Pair, Sequence[LinkId]]) -> None:
        """Let hosts that have several cables or forward packets send along these paths."""
        changed: dict[Pair, tuple[HostRoute, ...]] = {}
        new: list[HostRoute] = []
        old: list[HostRoute] = []
        for pair, path in paths.items():
            routes = pair_routes(self._wiring, pair, path)
            before = self._routes.get(pair, ())
            if routes != before:
                changed[pair] = routes
                new += routes
                old += before
        if changed:
            # The new routes are added first, so that there is always one.
            self._platform.route(new)
            self._platform.route(old, add=False)
            self._routes |= changed

    def start_change(self, set_up: Iterable[Circuit], tear_down: Iterable[Circuit]) -> None:
        """Send a batch. ``receive`` reports when every switch has confirmed it.

        Args:
            set_up: The circuits to install.
            tear_down: The circuits to remove, before the others are installed.
        """
        set_up = tuple(set_up)
        if self._wiring.routed:
            self.set_paths({self._pairs[circuit.transfer]: circuit.path for circuit in set_up})
        messages: list[tuple[int, bytes]] = []
        for circuit in tear_down:
            messages += self._messages(circuit, "remove").items()
        for circuit in set_up:
            messages += self._messages(circuit, "add").items()
        self._send(lists_by_key(messages))

    def change_rules(self, rules: Iterable[FlowRule], action: RuleAction) -> None:
        """Add or remove standing rules, and wait until every switch has confirmed."""
        self._send(lists_by_key((rule.dpid, self._message(rule, action)) for rule in rules))
        self.wait()

    def wait(self) -> None:
        """Wait until the batch has been confirmed. Other reports of the switches are ignored."""
        until_s = time.monotonic() + _ANSWER_S
        while self._waiting:
            files = self.files
            unconfirmed = [file for file, dpid in files.items() if dpid in self._waiting]
            readable, _, _ = select.select(unconfirmed, (), (), 1.0)
            for file in readable:
                self.receive(files[file])
            if time.monotonic() > until_s:
                raise CapabilityError(
                    f"switches {sorted(self._waiting)} gave no answer within {_ANSWER_S:g} s"
                )

    @property
    def changing(self) -> bool:
        """True if a batch has not been confirmed."""
        return bool(self._waiting)

    def receive(self, dpid: int) -> tuple[bool, tuple[LinkId, ...]]:
        """Read the reports of a switch.

        Args:
            dpid: The datapath id of the switch.

        Returns:
            Whether the batch is now confirmed by all switches, and the links whose port went down.
        """
        data = self._sockets[dpid].recv(_READ_BYTES)
        if not data:
            raise CapabilityError(f"switch {dpid} closed its management connection")
        confirmed = False
        lost: list[LinkId] = []
        for event in self._readers[dpid].receive(data):
            if isinstance(event, parser.OFPBarrierReply) and self._waiting.get(dpid) == event.xid:
                del self._waiting[dpid]
                confirmed = not self._waiting
            elif isinstance(event, parser.OFPErrorMsg):
                raise CapabilityError(
                    f"switch {dpid} refused a circuit's rule (type {event.type}, code {event.code})"
                )
            elif isinstance(event, parser.OFPEchoRequest):
                reply = parser.OFPEchoReply(ANY_SWITCH, event.data)
                self._sockets[dpid].sendall(as_bytes(reply, event.xid))
            elif isinstance(event, parser.OFPPortStatus) and is_down(event):
                lost += self._links_of_port.get((dpid, event.desc.port_no), ())
        if confirmed:
            self.changes += 1
            duration_s = time.monotonic() - self._began_s
            self.slowest_change_s = max(self.slowest_change_s, duration_s)
            self.circuit_change_s += duration_s
        return confirmed, tuple(lost)

    def _send(self, batches: dict[int, list[bytes]]) -> None:
        """Send the messages of each switch, and a barrier after them."""
        self._began_s = time.monotonic()
        for dpid, messages in batches.items():
            transaction_id = next(self._transaction_ids)
            self._waiting[dpid] = transaction_id
            self._sockets[dpid].sendall(b"".join(messages) + as_bytes(barrier(), transaction_id))

    def _message(self, rule: FlowRule, action: RuleAction) -> bytes:
        message = add_rule(rule, _COOKIE) if action == "add" else remove_rule(rule)
        return as_bytes(message, next(self._transaction_ids))

    def _messages(self, circuit: Circuit, action: RuleAction) -> Batch:
        """Return the messages of a circuit; they are computed once."""
        batch = self._prepared.get((circuit, action))
        if batch is None:
            batch = {}
            for rule in self._rules(circuit):
                batch[rule.dpid] = batch.get(rule.dpid, b"") + self._message(rule, action)
            self._prepared[circuit, action] = batch
        return batch

    def _rules(self, circuit: Circuit) -> tuple[FlowRule, ...]:
        pair = self._pairs[circuit.transfer]
        rules = circuit_rules(self._wiring, pair, circuit.path, part=circuit.part)
        if circuit.own_return:
            rules += return_rules(
                self._wiring, pair, circuit.path, priority=CIRCUIT_PRIORITY, part=circuit.part
            )
        return rules


def _never_due() -> float:
    return float("inf")


class CircuitDriver:
    """Executes one run of a coordinator. Times are seconds since the start of the run.

    Attributes:
        coordinator: The coordinator.
        failure: After the run: why it did not complete, or None.
        lost_links: The links that failed.
        ended_s: When the run ended.
    """

    def __init__(
        self,
        coordinator: BulkCoordinator,
        switchboard: CircuitSwitchboard,
        send: Callable[[Sequence[tuple[int, int]]], None],
        *,
        start_s: float,
    ) -> None:
        """Prepare a run.

        Args:
            coordinator: The coordinator.
            switchboard: The switches.
            send: Called with the transfers and attempts of messages whose links are acquired.
            start_s: The start of the run on the monotonic clock.
        """
        self.coordinator = coordinator
        self._switchboard = switchboard
        self._send = send
        self._start_s = start_s
        self._stopping = False
        self.failure: str | None = None
        self.lost_links: list[LinkId] = []
        self.ended_s = 0.0

    @property
    def now_s(self) -> float:
        """The current time, in seconds since the start of the run."""
        return time.monotonic() - self._start_s

    def stop(self) -> None:
        """Leave the loop in its next round. Any thread may call this."""
        self._stopping = True

    def run(
        self,
        readers: Mapping[int, Callable[[], object]],
        on_round: Callable[[], None],
        due_s: Callable[[], float] = _never_due,
    ) -> None:
        """Run until the coordinator ends the run or ``stop`` is called.

        Then wait for the last confirmation of the switches.

        Args:
            readers: Functions that read a file when it is readable, by file descriptor.
            on_round: Called in every round of the loop.
            due_s: Returns the time at which the next round must take place.

        Raises:
            CapabilityError: A switch rejects a rule or does not answer.
        """
        calls = dict(readers)
        for file, dpid in self._switchboard.files.items():
            calls[file] = self._reader(dpid)
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
        """Return the function that reads the reports of a switch."""

        def read() -> None:
            confirmed, lost = self._switchboard.receive(dpid)
            if confirmed:
                self.coordinator.circuits_changed(self.now_s)
            if lost:
                self.lost_links += lost
                self.coordinator.on_link_failed(lost, self.now_s)

        return read

    def _execute_all(self) -> None:
        while actions := self.coordinator.actions():
            for action in actions:
                self._execute(action)

    def _execute(self, action: Action) -> None:
        if isinstance(action, Send):
            self._send(action.messages)
        elif isinstance(action, ChangeCircuits):
            # This happens only if the run ends during a change.
            if self._switchboard.changing:
                self._switchboard.wait()
            self._switchboard.start_change(action.set_up, action.tear_down)
            no_switch_involved = not self._switchboard.changing
            if no_switch_involved and not self.coordinator.over:
                self.coordinator.circuits_changed(self.now_s)
        else:
            self.failure = action.failure
