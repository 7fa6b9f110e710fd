"""The measurements of a run of a bulk plan, emulated or simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.bulk.plan import Path
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoad
from topologies import LinkId

# IPv4, and TCP with time stamps.
INNER_HEADERS_BYTES = 20 + 32
ETHERNET_BYTES = 14
# Headers of a packet of data, and of an acknowledgement.
HEADERS_BYTES = ETHERNET_BYTES + INNER_HEADERS_BYTES


@dataclass(frozen=True, kw_only=True)
class TransferRecord:
    """The course of one transfer.

    Times are in seconds after the start of the run; None if the event did not happen.

    Attributes:
        transfer: The index of the transfer in the plan.
        started_s: When it began to send over its circuit.
        done_s: When its message was complete and verified.
        attempts: Number of times that it was sent.
        deliveries: Number of times that the message arrived.
        path: The links that it took.
    """

    transfer: int
    started_s: float | None = None
    done_s: float | None = None
    attempts: int = 0
    deliveries: int = 0
    path: Path = ()


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """The calibrated goodput, in payload bits per second.

    Attributes:
        single_path_bps: Goodput of one path alone.
        concurrent_bps: Goodput of the slowest of several disjoint paths at the same time.
        concurrent_paths: Number of these paths.
    """

    single_path_bps: float
    concurrent_bps: float
    concurrent_paths: int


@dataclass(frozen=True, kw_only=True)
class LinkCount:
    """The traffic of one link in a complete run.

    Attributes:
        packets: Number of packets carried.
        bytes: Number of bytes carried.
        queue_drops: Number of packets dropped at the full queue.
    """

    packets: int
    bytes: int
    queue_drops: int


class TcpRetransmissions(NamedTuple):
    """The retransmissions of one TCP connection, as the sender's kernel counts them.

    Attributes:
        bytes: Number of bytes retransmitted.
        packets: Number of packets retransmitted.
        timeouts: Number of retransmission time-outs; 0 before Linux 6.7, which does not count them.
    """

    bytes: int = 0
    packets: int = 0
    timeouts: int = 0


@dataclass(frozen=True, kw_only=True)
class BulkMeasurements:
    """The measurements of a run.

    Attributes:
        fabric: The kind of network that the run used.
        seconds: Duration of the run.
        transfers: The course of every transfer.
        frame_times_s: Begin and end of each time frame.
        goodput: The calibrated goodput.
        failure: Why the run was aborted; None if it completed.
        deadlocks: Descriptions of the deadlocks.
        links: The traffic of each link.
        dropped: Number of packets by switch that arrived there and left by no link, although no
            queue dropped them.
        injected: Number of packets sent without a circuit.
        retransmitted: The retransmissions by transfer.
        lost_links: Links that failed.
        rule_changes: Number of rules installed or removed.
        slowest_change_s: Maximum duration of a change of circuits.
        circuit_change_s: Total duration of all changes of circuits.
        packet_payload_bytes: Payload of a full packet.
        strain: The load of the machine in an emulated run.
        machines: The machines of a run over several; every ``done_s`` is then exact to within their
            ``uncertainty_s``.
    """

    fabric: str
    seconds: float
    transfers: tuple[TransferRecord, ...]
    frame_times_s: tuple[tuple[float, float], ...]
    goodput: Goodput
    failure: str | None = None
    deadlocks: tuple[str, ...] = ()
    links: Mapping[LinkId, LinkCount] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    injected: int = 0
    retransmitted: Mapping[int, TcpRetransmissions] = field(default_factory=dict)
    lost_links: tuple[LinkId, ...] = ()
    rule_changes: int = 0
    slowest_change_s: float = 0.0
    circuit_change_s: float = 0.0
    packet_payload_bytes: int = 1448
    strain: MachineLoad | None = None
    machines: MachinesReport | None = None

    @property
    def cpu_fraction(self) -> float:
        """The share of processor time that was used, 0 to 1."""
        if self.strain is None:
            return 0.0
        return self.strain.cpu_fraction

    @property
    def delivered(self) -> int:
        """The number of messages that arrived complete and were verified."""
        return len([record for record in self.transfers if record.done_s is not None])
