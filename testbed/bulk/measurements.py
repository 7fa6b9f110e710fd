"""What a run of a bulk plan measured, on either fabric; nothing here knows how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.bulk.plan import Path
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoad
from topologies import LinkId

INNER_HEADERS_BYTES, ETHERNET_BYTES = 20 + 32, 14
"""IPv4, and TCP with time stamps; what is before them."""
HEADERS_BYTES = ETHERNET_BYTES + INNER_HEADERS_BYTES
"""Of a packet of data and of an acknowledgement alike."""


@dataclass(frozen=True, kw_only=True)
class TransferRecord:
    """What became of one transfer; times in seconds after the start, None where it never came to that.

    ``started_s``: it held its links, its circuit stood, and it sent; ``done_s``: its message was whole and verified.
    ``attempts``: times it was sent.
    """

    transfer: int
    started_s: float | None = None
    done_s: float | None = None
    attempts: int = 0
    deliveries: int = 0
    path: Path = ()


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """Calibrated goodput: payload bits a second over one path alone, and over the slowest of many disjoint paths at
    once."""

    single_path_bps: float
    concurrent_bps: float
    concurrent_paths: int


@dataclass(frozen=True, kw_only=True)
class LinkCount:
    """What one link carried in a whole run, and how many packets its queue had no room for."""

    packets: int
    bytes: int
    queue_drops: int


class TcpRetransmissions(NamedTuple):
    """What TCP sent again on one connection, as its sender's kernel counts it, and how often it had waited in vain
    (time-outs) before it did: 0 where the kernel does not count them (before Linux 6.7)."""

    bytes: int = 0
    packets: int = 0
    timeouts: int = 0


@dataclass(frozen=True, kw_only=True)
class BulkMeasurements:
    """All that a run measured. ``failure``: why the run did not come to its end, None where it did. ``dropped``: switch
    -> packets that arrived at it and left it by no link, although no queue refused them; ``injected``: packets that
    were sent without a circuit. ``retransmitted``: transfer -> what TCP sent again. ``circuit_change_s``: spent in changing
    circuits, all changes together. ``strain``: of the machine in an emulated run. ``machines``: of a run over several;
    every ``done_s`` is then right to within its ``uncertainty_s``."""

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
        """Busy time of all processors, 0 to 1."""
        return 0.0 if self.strain is None else self.strain.cpu_fraction

    @property
    def delivered(self) -> int:
        """Messages that arrived whole and verified."""
        return sum(r.done_s is not None for r in self.transfers)
