"""Carries out a wavelength plan on real switches.

For each round, its rules are installed, the probes are sent, and the drop counters are read. What
is sent is decided in ``probes``, and the results are judged in ``judgement``.
"""

import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from testbed.emulation.control.base_rules import rules_of
from testbed.emulation.control.controller_link import ControllerLink
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.open_vswitch.switches import order_daemons
from testbed.errors import InvalidRunError
from testbed.machines.adapters.platform import here
from testbed.model.progress import Progress, ReportProgress
from testbed.model.wiring import Wiring
from testbed.openflow.rules import FlowRule
from testbed.wavelengths.assignment import fibres
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from testbed.wavelengths.probes import (
    ETH_EXPERIMENTAL,
    Arrival,
    Probe,
    probe_packet,
    round_probes,
    round_result,
    wire_plan,
)
from testbed.wavelengths.rules import FIRST_VLAN, VLAN_PRESENT, client_of, dark_rules, round_rules
from topologies.text.addresses import packed_mac

# The controller replaces rules by groups, which it calls plans. The drop rules, which remain
# installed, have this number; the rules of round n have the number n + 2.
DARK_PLAN = 1
# Marks the frames of probes; the index of the round and of the probe follow.
_MAGIC = b"WDM1"
# Length of the frame of a probe.
_FRAME_BYTES = 96
# Frames are sent in bursts of this number, with a pause (in seconds) after each burst.
_BURST_FRAMES = 48
_PAUSE_S = 0.003
# Longest time to wait for the frames of earlier bursts before the next burst, in seconds. A switch
# that gets no processor time for a while then need not drop frames.
_MAX_LAG_S = 0.25
# Time limits in seconds: for the last frames to arrive, for the drop counters to be complete, and
# for the switches to take over rules.
_ARRIVE_S = 2.0
_COUNT_S = 15.0
_SETTLE_S = 30.0
# Receive buffer of a socket. It holds all frames that arrive while this process gets no time.
_RECEIVE_BUFFER_BYTES = 8 << 20
# Constants of Linux (linux/if_ether.h, linux/if_packet.h), which the socket module lacks.
_ETH_P_ALL = 3
_ETH_VLAN = 0x8100
_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_PACKET_STATISTICS = 6
_VLAN_VALID = 1 << 4


def run_wavelengths(
    plan: WavelengthPlan,
    *,
    packets: int,
    wrong: int,
    seed: int = 1,
    report_progress: ReportProgress | None = None,
) -> tuple[RoundMeasurements, ...]:
    """Run all rounds of a plan on a new network. This works only inside the sandbox.

    Args:
        plan: The plan.
        packets: Number of packets over each lit path.
        wrong: Number of packets of each wrong probe (see ``round_probes``).
        seed: Seed of the probes.
        report_progress: Called with the progress of the run, or None.

    Raises:
        CapabilityError: This machine cannot build the network.
        InvalidRunError: The receivers could not keep up.
    """

    def show(progress: Progress) -> None:
        if report_progress is not None:
            report_progress(progress)

    show(Progress(doing="building the network"))
    results = []
    with (
        lit_network(plan) as (net, controller, wiring),
        closing(Clients(net, wiring, plan)) as clients,
    ):
        for number in range(len(plan.rounds)):
            show(Progress(done_s=number, total_s=len(plan.rounds), doing=f"round {number + 1}"))
            probes = round_probes(plan, number, packets=packets, wrong=wrong, seed=seed)
            results.append(run_round(controller, wiring, plan, number, probes, clients))
        clients.refuse_overflow()
    return tuple(results)


@contextmanager
def lit_network(plan: WavelengthPlan) -> Iterator[tuple[EmulatedNetwork, ControllerLink, Wiring]]:
    """Create the plan's network with the drop rules, in which no path is lit yet.

    The capacities of the links are not emulated.

    Yields:
        The network, its controller and its wiring.
    """
    wiring = wire_plan(plan)
    with here(wiring, shape=False) as platform:
        platform.install(dark_rules(wiring, fibres(plan.network)), plan_id=DARK_PLAN)
        yield platform.network, platform.controller, wiring


def light_round(
    controller: ControllerLink, wiring: Wiring, plan: WavelengthPlan, number: int
) -> float:
    """Replace the rules of the previous round by those of this round.

    No packet may be in transit.

    Args:
        controller: The controller.
        wiring: The wiring of the plan's network.
        plan: The plan.
        number: Index of the round.

    Returns:
        The time in seconds until all switches forward by the rules of this round alone.
    """
    start_s = time.monotonic()
    if number:
        controller.remove(number + 1)
    controller.install(round_rules(wiring, plan, number), plan_id=number + 2)
    settle()
    return time.monotonic() - start_s


def settle() -> None:
    """Wait until the switches have revised their cached flows.

    A switch answers a barrier when its tables have changed, but its daemon revises the cached flows
    only during the next half second. Until then, packets that the old rules have forwarded may be
    counted for the new rules.
    """
    # Twice, because the revision that ends first may have begun before the change.
    for _ in range(2):
        order_daemons("revalidator/wait", limit_s=_SETTLE_S, task="take over the rules")


def run_round(
    controller: ControllerLink,
    wiring: Wiring,
    plan: WavelengthPlan,
    number: int,
    probes: Sequence[Probe],
    clients: "Clients",
) -> RoundMeasurements:
    """Light one round in a network of ``lit_network``, and measure it.

    Rounds must be run in order.

    Args:
        controller: The controller of the network.
        wiring: Its wiring.
        plan: The plan.
        number: Index of the round.
        probes: The packets to send.
        clients: The sockets of the clients.
    """
    drop_rules = dark_rules(wiring, fibres(plan.network))
    setup_s = light_round(controller, wiring, plan, number)
    dropped_before = dropped_packets(wiring, drop_rules)
    arrivals = clients.exchange(number, probes)
    expected = sum(probe.packets for probe in probes if probe.dropped_at is not None)
    deadline_s = time.monotonic() + _COUNT_S
    # Switches update their counters every half second.
    while True:
        dropped = dropped_packets(wiring, drop_rules)
        dropped.subtract(dropped_before)
        if sum(dropped.values()) >= expected or time.monotonic() > deadline_s:
            break
        time.sleep(0.05)
    # Packets that should not have arrived.
    arrivals += clients.collect(number, 0.0)
    measured = round_result(plan, number, probes, arrivals, dropped)
    return replace(measured, setup_s=setup_s, fabric="emulation")


def dropped_packets(wiring: Wiring, drop_rules: Sequence[FlowRule]) -> Counter[str]:
    """Return the number of packets that the drop rules of each switch have counted so far."""
    dpids = {rule.dpid for rule in drop_rules}
    dropped: Counter[str] = Counter()
    for switch in wiring.switches:
        if switch.dpid not in dpids:
            continue
        for rule in rules_of(switch.device, f"cookie={DARK_PLAN << 32:#x}/-1"):
            if f"priority={drop_rules[0].priority}," in rule:
                dropped[switch.node] += int(rule.partition("n_packets=")[2].partition(",")[0])
    return dropped


class Clients:
    """The raw sockets of all clients, and of the fibres onto which packets are put directly.

    All of them belong to this process.

    Args:
        net: The network.
        wiring: Its wiring.
        plan: The plan.
    """

    def __init__(self, net: EmulatedNetwork, wiring: Wiring, plan: WavelengthPlan) -> None:
        self._net = net
        self._wiring = wiring
        self._plan = plan
        # Senders by interface, receivers by node.
        self._senders: dict[str, socket.socket] = {}
        self._receivers: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        nodes = set()
        for path in plan.lightpaths:
            nodes |= {client_of(plan.network, path.source), client_of(plan.network, path.target)}
        for node in sorted(nodes):
            self._receivers[node] = self._open_receiver(node)
            self._selector.register(self._receivers[node], selectors.EVENT_READ, node)

    def _open_receiver(self, node: str) -> socket.socket:
        host = self._wiring.host_at(node)
        receiver = self._net.open_socket(host.name, socket.AF_PACKET, socket.SOCK_RAW, 0)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        receiver.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        receiver.bind((self._net.interface_of(host.name), _ETH_P_ALL))
        receiver.setblocking(False)
        return receiver

    def close(self) -> None:
        """Close all sockets."""
        self._selector.close()
        for sock in (*self._receivers.values(), *self._senders.values()):
            sock.close()

    def refuse_overflow(self) -> None:
        """Check that no receiver has lost packets.

        Raises:
            InvalidRunError: The socket of a receiver overflowed.
        """
        for node, receiver in self._receivers.items():
            statistics = receiver.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            _, dropped = struct.unpack("=II", statistics)
            if dropped:
                raise InvalidRunError(
                    f"host {node} could not keep up: its socket dropped {dropped} packets"
                )

    def exchange(self, number: int, probes: Sequence[Probe]) -> list[Arrival]:
        """Send all probes, and return the packets that arrived.

        The packets of the probes are interleaved, those on wrong wavelengths among the others. The
        method returns when all expected packets have arrived, or after a time limit.

        Args:
            number: Index of the round.
            probes: The packets to send.
        """
        queue = self._interleaved_frames(number, probes)
        arrivals: list[Arrival] = []
        expected = 0
        # Packets that did not arrive in time. The loop waits for them only once. They may arrive
        # until the end.
        missing = 0
        for begin in range(0, len(queue), _BURST_FRAMES):
            for sender, frame, must_arrive in queue[begin : begin + _BURST_FRAMES]:
                sender.send(frame)
                if must_arrive:
                    expected += 1
            arrivals += self.collect(number, _PAUSE_S)
            self._await(number, expected - missing, _MAX_LAG_S, arrivals)
            missing = max(missing, expected - len(arrivals))
        if missing:
            self._await(number, expected, _ARRIVE_S, arrivals)
        return arrivals

    def _interleaved_frames(
        self, number: int, probes: Sequence[Probe]
    ) -> list[tuple[socket.socket, bytes, bool]]:
        """Return the socket and the frame of each packet, and whether it must arrive.

        First comes the first packet of each probe, then the second packet of each, and so on.
        """
        queue = []
        for turn in range(max((probe.packets for probe in probes), default=0)):
            for index, probe in enumerate(probes):
                if turn < probe.packets:
                    frame = self._frame(number, index, probe)
                    queue.append((self._sender(probe), frame, probe.host is not None))
        return queue

    def _await(self, number: int, expected: int, limit_s: float, arrivals: list[Arrival]) -> None:
        """Append packets to ``arrivals`` until it has the expected number, or for ``limit_s``."""
        deadline_s = time.monotonic() + limit_s
        while len(arrivals) < expected and time.monotonic() < deadline_s:
            arrivals += self.collect(number, _PAUSE_S)

    def _sender(self, probe: Probe) -> socket.socket:
        """Return the socket that sends a probe.

        It belongs to the client of the lightpath's source, or, if the probe is put onto a fibre, to
        the interface at which the fibre begins.
        """
        network = self._plan.network
        fibre = probe.fibre
        if fibre is None:
            source = self._plan.lightpaths[probe.lightpath].source
            return self._sender_of_host(client_of(network, source))
        if network.node(fibre[0]).kind == "host":
            return self._sender_of_host(client_of(network, fibre[0]))
        cable = self._wiring.cable_of(fibre)
        interface = cable.a_interface if cable.forward == fibre else cable.b_interface
        if interface not in self._senders:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.bind((interface, 0))
            self._senders[interface] = sock
        return self._senders[interface]

    def _sender_of_host(self, node: str) -> socket.socket:
        name = self._wiring.host_at(node).name
        interface = self._net.interface_of(name)
        if interface not in self._senders:
            sock = self._net.open_socket(name, socket.AF_PACKET, socket.SOCK_RAW, 0)
            sock.bind((interface, 0))
            self._senders[interface] = sock
        return self._senders[interface]

    def _frame(self, number: int, index: int, probe: Probe) -> bytes:
        """Return the Ethernet frame of a probe's packets.

        Args:
            number: Index of the round.
            index: Index of the probe.
            probe: The probe.
        """
        header = probe_packet(self._plan, self._wiring, probe)
        addresses = packed_mac(str(header["eth_dst"])) + packed_mac(str(header["eth_src"]))
        vlan = int(header["vlan_vid"]) - VLAN_PRESENT
        tags = struct.pack("!HHH", _ETH_VLAN, vlan, ETH_EXPERIMENTAL)
        frame = addresses + tags + _MAGIC + struct.pack("!II", number, index)
        return frame.ljust(_FRAME_BYTES, b"\0")

    def collect(self, number: int, wait_s: float) -> list[Arrival]:
        """Return the packets that have arrived, or arrive during the next ``wait_s`` seconds.

        Args:
            number: Index of the round; a packet of another round belongs to no probe.
            wait_s: How long to wait.
        """
        arrivals: list[Arrival] = []
        deadline_s = time.monotonic() + wait_s
        while True:
            ready = self._selector.select(max(0.0, deadline_s - time.monotonic()))
            for key, _ in ready:
                arrivals += _received(self._receivers[key.data], key.data, number)
            if time.monotonic() >= deadline_s:
                return arrivals


def _received(sock: socket.socket, node: str, number: int) -> list[Arrival]:
    """Read all packets that are waiting in a socket, and return those that are probes.

    Args:
        sock: The socket.
        node: The node of the client.
        number: Index of the round.
    """
    arrivals: list[Arrival] = []
    while True:
        try:
            data, ancillary, _, address = sock.recvmsg(256, 64)
        except BlockingIOError:
            return arrivals
        # The kernel removes the VLAN tag from the frame and passes it as auxiliary data.
        vlan = _vlan_of(ancillary)
        if address[2] == socket.PACKET_OUTGOING or data[14:18] != _MAGIC or vlan is None:
            continue
        sent_in_round, index = struct.unpack_from("!II", data, 18)
        if sent_in_round != number:
            index = -1
        arrivals.append(Arrival(node=node, wavelength=vlan - FIRST_VLAN, probe=index))


def _vlan_of(ancillary: Sequence[tuple[int, int, bytes]]) -> int | None:
    """Return the VLAN id in the auxiliary data of a packet (struct tpacket_auxdata), or None."""
    for level, kind, content in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", content[:20])
            return tci & 0x0FFF if status & _VLAN_VALID else None
    return None
