"""Packets injected for a pair of hosts that has no circuit: they look like its data, and the switches must drop them.

They are sent once in a run, for a pair whose transfers are over and whose circuit has been gone for a while: a switch
goes by a rule some time after it has confirmed its end, and what is injected waits at the host behind other data.
"""

import socket
from collections.abc import Callable

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from testbed.bulk.circuit_rules import BULK_PORT
from testbed.bulk.plan import BulkPlan, Pair, Path, over_switches
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.rpc import MachineState
from testbed.model.wiring import WiredHost
from testbed.openflow.rules import path_steps
from topologies import lists_by_key

FORGOTTEN_S = 1.5
"""How long a switch may go by a rule that is gone, on a busy machine."""
_SOURCE_PORT = 40000
_PAYLOAD = b"no circuit"


class InjectionChoice:
    """Finds the pair to inject packets for; no I/O, times in seconds after the start of the run."""

    def __init__(self, plan: BulkPlan) -> None:
        self._transfers: dict[Pair, list[int]] = lists_by_key(
            ((transfer.source, transfer.sink), number)
            for number, transfer in enumerate(plan.transfers)
            if over_switches(plan.network, transfer.path)  # elsewhere nobody would drop the packet
        )
        self._arrived: set[int] = set()
        self._gone_s: dict[Pair, float] = {}

    def message_arrived(self, transfer: int) -> None:
        """The transfer's message is complete."""
        self._arrived.add(transfer)

    def pair(
        self, now_s: float, has_circuit: Callable[[int], bool], *, ended: bool = False
    ) -> Pair | None:
        """The first pair whose transfers are over and whose circuit was first seen gone ``FORGOTTEN_S`` ago, None where
        there is none yet. ``ended``: the run is over and the switches have forgotten everything, so any such pair will
        do."""
        for pair, numbers in self._transfers.items():
            if all(n in self._arrived and not has_circuit(n) for n in numbers):
                since_s = self._gone_s.setdefault(pair, now_s)
                if ended or now_s - since_s >= FORGOTTEN_S:
                    return pair
        return None


def inject(machine: MachineState, pair: Pair, path: Path, count: int) -> int:
    """Send ``count`` TCP packets to the receiver's bulk port from the sender's host, by the cable where the path
    begins; how many the interface took."""
    net = network_of(machine)
    known = {host.name: host for host in net.wiring.hosts}
    source, sink = (net.wiring.host_at(node) for node in pair)
    step = path_steps(net.wiring, source, sink, path)[source.name]
    packet = data_packet(source, sink, known[step.node])
    with net.open_socket(source.name, socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((net.interface_of(source.name, step.port), 0))
        return sum(sock.send(packet) == len(packet) for _ in range(count))


def data_packet(source: WiredHost, sink: WiredHost, following: WiredHost) -> bytes:
    """An Ethernet packet with TCP data for the bulk port, for the IP node that follows; its checksums are right."""
    addressed = Ether(src=source.mac, dst=following.mac) / IP(
        src=source.ip, dst=sink.ip, id=0, flags="DF"
    )
    segment = TCP(sport=_SOURCE_PORT, dport=BULK_PORT, seq=1, ack=1, flags="PA", window=1024)
    return bytes(addressed / segment / _PAYLOAD)
