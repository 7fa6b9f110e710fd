"""A wavelength plan on real switches: a round's rules go in, tagged packets of every lightpath and wrong ones are sent,
counters read.

What to send and what to make of it is decided in ``probes`` and ``judgement``.
"""

import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

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

DARK_PLAN = 1
"""The controller's plan of the drop rules; round n is plan n + 2."""
_MAGIC = b"WDM1"
_FRAME_BYTES = 96
_BURST, _PAUSE_S = 48, 0.003
_LAG_S = 0.25
"""How long the next packets wait for earlier ones, so that no switch that gets no processor for a while has to drop
them."""
_ARRIVE_S, _COUNT_S, _SETTLE_S = 2.0, 15.0, 30.0
_ETH_P_ALL, _ETH_VLAN = 3, 0x8100
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_STATISTICS = 263, 8, 6
_VLAN_VALID = 1 << 4


def run_wavelengths(
    plan: WavelengthPlan,
    *,
    packets: int,
    wrong: int,
    seed: int = 1,
    report_progress: ReportProgress | None = None,
) -> tuple[RoundMeasurements, ...]:
    """Every round of the plan on a network of its own, inside the sandbox only.

    ``packets`` over each lit path and ``wrong`` times two on dark wavelengths a path (see ``round_probes``). Raises
    CapabilityError where this machine cannot build the network, InvalidRunError where its receivers could not keep up.
    """
    show = report_progress or (lambda _: None)
    show(Progress(doing="building the network"))
    results = []
    with (
        lit_network(plan) as (net, controller, wiring),
        closing(Clients(net, wiring, plan)) as ends,
    ):
        for number in range(len(plan.rounds)):
            show(Progress(done_s=number, total_s=len(plan.rounds), doing=f"round {number + 1}"))
            probes = round_probes(plan, number, packets=packets, wrong=wrong, seed=seed)
            results.append(run_round(controller, wiring, plan, number, probes, ends))
        ends.refuse_overflow()
    return tuple(results)


@contextmanager
def lit_network(plan: WavelengthPlan) -> Iterator[tuple[EmulatedNetwork, ControllerLink, Wiring]]:
    """The plan's network, up, dark: its drop rules are in, no path is lit. Links are not held to their capacity."""
    wiring = wire_plan(plan)
    with here(wiring, shape=False) as platform:
        platform.install(dark_rules(wiring, fibres(plan.network)), plan_id=DARK_PLAN)
        yield platform.network, platform.controller, wiring


def light_round(
    controller: ControllerLink, wiring: Wiring, plan: WavelengthPlan, number: int
) -> float:
    """Replace the round before by this one, while nothing is under way; seconds until every switch forwards by it
    alone."""
    began = time.monotonic()
    if number:
        controller.remove(number + 1)
    controller.install(round_rules(wiring, plan, number), plan_id=number + 2)
    settle()
    return time.monotonic() - began


def settle() -> None:
    """Return when the switches have forgotten what they remembered of packets under earlier rules.

    A switch answers a barrier when its tables are changed; its daemon revises what it remembers in the half second
    after, and until then counts packets that it has not counted yet for the new rules, though the old ones sent them
    on.
    """
    for _ in range(2):  # the pass that ends first may have begun before the change
        order_daemons("revalidator/wait", limit_s=_SETTLE_S, task="take over the rules")


def run_round(
    controller: ControllerLink,
    wiring: Wiring,
    plan: WavelengthPlan,
    number: int,
    probes: Sequence[Probe],
    ends: "Clients",
) -> RoundMeasurements:
    """Light one round of a ``lit_network``, the one before it being the last that was lit, and measure it."""
    dark = dark_rules(wiring, fibres(plan.network))
    setup_s = light_round(controller, wiring, plan, number)
    before = dropped_packets(wiring, dark)
    arrivals = ends.exchange(number, probes)
    expected = sum(p.packets for p in probes if p.dropped_at is not None)
    limit = time.monotonic() + _COUNT_S
    while True:  # switches add up their counters every half second
        dropped = dropped_packets(wiring, dark)
        dropped.subtract(before)
        if sum(dropped.values()) >= expected or time.monotonic() > limit:
            break
        time.sleep(0.05)
    arrivals += ends.collect(number, 0.0)  # packets that should not have arrived
    found = round_result(plan, number, probes, arrivals, dropped)
    return replace(found, setup_s=setup_s, fabric="emulation")


def dropped_packets(wiring: Wiring, dark: Sequence[FlowRule]) -> Counter[str]:
    """Packets that each switch's drop rules have counted so far."""
    dropping, counted = {rule.dpid for rule in dark}, Counter[str]()
    for switch in wiring.switches:
        for rule in (
            rules_of(switch.device, f"cookie={DARK_PLAN << 32:#x}/-1")
            if switch.dpid in dropping
            else ()
        ):
            if f"priority={dark[0].priority}," in rule:
                counted[switch.node] += int(rule.partition("n_packets=")[2].partition(",")[0])
    return counted


class Clients:
    """Raw sockets of every client, and of every fibre that packets are put straight onto; one process for all."""

    def __init__(self, net: EmulatedNetwork, wiring: Wiring, plan: WavelengthPlan) -> None:
        self._net, self._wiring, self._plan = net, wiring, plan
        self._senders: dict[str, socket.socket] = {}
        self._receivers: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        names = {client_of(plan.network, e) for p in plan.lightpaths for e in (p.source, p.target)}
        for node in sorted(names):
            host = wiring.host_at(node)
            receiver = net.open_socket(host.name, socket.AF_PACKET, socket.SOCK_RAW, 0)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            receiver.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            receiver.bind((net.interface_of(host.name), _ETH_P_ALL))
            receiver.setblocking(False)
            self._selector.register(receiver, selectors.EVENT_READ, node)
            self._receivers[node] = receiver

    def close(self) -> None:
        self._selector.close()
        for one in (*self._receivers.values(), *self._senders.values()):
            one.close()

    def refuse_overflow(self) -> None:
        """InvalidRunError where a receiver's socket overflowed."""
        for node, receiver in self._receivers.items():
            lost = struct.unpack("=II", receiver.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
            if lost:
                raise InvalidRunError(
                    f"host {node} could not keep up: its socket dropped {lost} packets"
                )

    def exchange(self, number: int, probes: Sequence[Probe]) -> list[Arrival]:
        """Send all probes, the wrong ones among the right ones, and collect what arrives until all that should have
        come have."""
        queue = [
            (self._sender(probe), self._frame(number, index, probe), probe.host is not None)
            for turn in range(max((p.packets for p in probes), default=0))
            for index, probe in enumerate(probes)
            if turn < probe.packets
        ]
        arrivals: list[Arrival] = []
        required = missed = 0
        for k in range(0, len(queue), _BURST):
            for sender, frame, arrives in queue[k : k + _BURST]:
                sender.send(frame)
                required += arrives
            arrivals += self.collect(number, _PAUSE_S)
            self._await(number, required - missed, _LAG_S, arrivals)
            missed = max(missed, required - len(arrivals))  # lost ones are waited for once
        self._await(number, required, _ARRIVE_S if missed else 0.0, arrivals)
        return arrivals

    def _await(self, number: int, required: int, limit_s: float, arrivals: list[Arrival]) -> None:
        """Collect until so many have arrived, for ``limit_s`` at most."""
        limit = time.monotonic() + limit_s
        while len(arrivals) < required and time.monotonic() < limit:
            arrivals += self.collect(number, _PAUSE_S)

    def _sender(self, probe: Probe) -> socket.socket:
        """A socket at the client of the lightpath's source, or at the near end of a fibre: what it sends leaves
        there."""
        opened: Callable[[int, int, int], socket.socket] = socket.socket
        if probe.fibre is None or self._plan.network.node(probe.fibre[0]).kind == "host":
            source = (
                self._plan.lightpaths[probe.lightpath].source
                if probe.fibre is None
                else probe.fibre[0]
            )
            name = self._wiring.host_at(client_of(self._plan.network, source)).name
            interface, opened = self._net.interface_of(name), partial(self._net.open_socket, name)
        else:
            cable = self._wiring.cable_of(probe.fibre)
            interface = cable.a_interface if cable.forward == probe.fibre else cable.b_interface
        if interface not in self._senders:
            self._senders[interface] = opened(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._senders[interface].bind((interface, 0))
        return self._senders[interface]

    def _frame(self, number: int, index: int, probe: Probe) -> bytes:
        header = probe_packet(self._plan, self._wiring, probe)
        addresses = b"".join(
            bytes.fromhex(str(header[n]).replace(":", "")) for n in ("eth_dst", "eth_src")
        )
        vlan = int(header["vlan_vid"]) - VLAN_PRESENT
        body = (
            struct.pack("!HHH", _ETH_VLAN, vlan, ETH_EXPERIMENTAL)
            + _MAGIC
            + struct.pack("!II", number, index)
        )
        return (addresses + body).ljust(_FRAME_BYTES, b"\0")

    def collect(self, number: int, wait_s: float) -> list[Arrival]:
        arrivals, limit = list[Arrival](), time.monotonic() + wait_s
        while True:
            ready = self._selector.select(max(0.0, limit - time.monotonic()))
            for key, _ in ready:
                arrivals += _waiting(self._receivers[key.data], key.data, number)
            if time.monotonic() >= limit:
                return arrivals


def _waiting(sock: socket.socket, node: str, number: int) -> list[Arrival]:
    """Packets of this round that lie in the socket; the kernel hands the VLAN tag over next to the packet."""
    arrivals: list[Arrival] = []
    while True:
        try:
            data, ancillary, _, address = sock.recvmsg(256, 64)
        except BlockingIOError:
            return arrivals
        tag = _tag(ancillary)
        if address[2] == socket.PACKET_OUTGOING or data[14:18] != _MAGIC or tag is None:
            continue
        sent_in, index = struct.unpack_from("!II", data, 18)
        arrivals.append(
            Arrival(
                node=node, wavelength=tag - FIRST_VLAN, probe=index if sent_in == number else -1
            )
        )


def _tag(ancillary: Sequence[tuple[int, int, bytes]]) -> int | None:
    """VLAN id in a packet socket's auxiliary data (struct tpacket_auxdata), None where there was none."""
    for level, kind, content in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", content[:20])
            return tci & 0x0FFF if status & _VLAN_VALID else None
    return None
