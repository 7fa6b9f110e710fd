"""Injects packets that look like data for a pair without a circuit; switches must drop them.

They are sent once in a run, for a pair whose transfers are complete and whose circuit was removed
some time ago. A switch may still use a rule after it has confirmed its removal, and injected
packets queue behind other data at the host.
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

# How long a switch on a busy machine may still use a rule that was removed.
FORGOTTEN_S = 1.5
_SOURCE_PORT = 40000
_PAYLOAD = b"no circuit"


class InjectionChoice:
    """Chooses the pair to inject packets for; without I/O.

    Times are in seconds after the start of the run.
    """

    def __init__(self, plan: BulkPlan) -> None:
        self._transfers: dict[Pair, list[int]] = {}
        for number, transfer in enumerate(plan.transfers):
            # Without a switch on the path, nothing would drop the packets.
            if over_switches(plan.network, transfer.path):
                pair = (transfer.source, transfer.sink)
                self._transfers.setdefault(pair, []).append(number)
        self._arrived: set[int] = set()
        # When each pair was first seen without circuits.
        self._removed_s: dict[Pair, float] = {}

    def message_arrived(self, transfer: int) -> None:
        """Record that the message of a transfer is complete."""
        self._arrived.add(transfer)

    def pair(
        self, now_s: float, has_circuit: Callable[[int], bool], *, ended: bool = False
    ) -> Pair | None:
        """Return the first pair that has had no circuit for ``FORGOTTEN_S``; None if there is none.

        Args:
            now_s: The current time.
            has_circuit: Returns whether a transfer has a circuit.
            ended: The run is over, and the switches have no rules left: do not wait for a pair.
        """
        for pair, numbers in self._transfers.items():
            complete = self._arrived.issuperset(numbers)
            if complete and not any(has_circuit(number) for number in numbers):
                since_s = self._removed_s.setdefault(pair, now_s)
                if ended or now_s - since_s >= FORGOTTEN_S:
                    return pair
        return None


def inject(machine: MachineState, pair: Pair, path: Path, count: int) -> int:
    """Send TCP packets from the sender's host to the receiver's bulk port.

    Args:
        machine: The machine of the sender's host.
        pair: The sender and the receiver.
        path: The path, whose first link the packets are sent on.
        count: Number of packets.

    Returns:
        The number of packets that the interface accepted.
    """
    net = network_of(machine)
    host_by_name = {host.name: host for host in net.wiring.hosts}
    source = net.wiring.host_at(pair[0])
    sink = net.wiring.host_at(pair[1])
    step = path_steps(net.wiring, source, sink, path)[source.name]
    packet = data_packet(source, sink, host_by_name[step.node])
    accepted = 0
    with net.open_socket(source.name, socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((net.interface_of(source.name, step.port), 0))
        for _ in range(count):
            if sock.send(packet) == len(packet):
                accepted += 1
    return accepted


def data_packet(source: WiredHost, sink: WiredHost, following: WiredHost) -> bytes:
    """Return an Ethernet frame with TCP data for the bulk port, with correct checksums.

    Args:
        source: The sender.
        sink: The receiver.
        following: The next IP node on the path, to which the frame is addressed.
    """
    ethernet = Ether(src=source.mac, dst=following.mac)
    ip = IP(src=source.ip, dst=sink.ip, id=0, flags="DF")
    segment = TCP(sport=_SOURCE_PORT, dport=BULK_PORT, seq=1, ack=1, flags="PA", window=1024)
    return bytes(ethernet / ip / segment / _PAYLOAD)
