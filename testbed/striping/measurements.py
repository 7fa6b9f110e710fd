"""Measurements of a striped-file run: one record per operation."""

from dataclasses import asdict, dataclass
from typing import Literal

from testbed.faults.fault import FaultTimes
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoad
from topologies import JsonObject

Direction = Literal["write", "read"]
# The size of the network's packets.
MTU_BYTES = 9000
# A client gives up a listener that is silent for this time, if the plan has faults.
TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class ClientError:
    """A compute process whose call failed.

    Attributes:
        rank: The rank of the process.
        node: Its node.
        text: The error.
        after_s: The time between the start of the call and its failure.
        since_fault_s: The time between the first fault and the failure of the call.
    """

    rank: int
    node: str
    text: str
    after_s: float
    since_fault_s: float


@dataclass(frozen=True, kw_only=True)
class OperationRecord:
    """One operation, which all compute processes carry out together.

    Attributes:
        direction: Whether the file was written or read.
        attempt: 1, or 2 for the repetition of an operation that a fault broke.
        under_faults: Whether the faults of the plan were injected during the operation.
        seconds: The time until the last process was done.
        bytes: The size of all blocks.
        messages: The messages to listeners.
        fragments: The pieces that are contiguous in memory and in a subfile.
        requests: The contiguous ranges of subfiles.
        disk_calls: The reads or writes of subfiles.
        verified: Whether the subfiles have the right content (write), or every process read the
            right content (read).
        errors: The processes that failed.
        deadlocks: Cycles of waiting transfers that were broken.
        rule_changes: Batches of circuit changes in the switches.
        queue_drops: Packets that were dropped at full queues.
        machine_load: The load of the machine; None if nothing was timed on it.
        thread_delay_s: The time by which late threads lengthened a coordinated operation.
        frame_times_s: The begin and the end of each time frame.
        failure: Why a coordinated operation did not complete, or None.
    """

    direction: Direction
    attempt: int
    under_faults: bool
    seconds: float
    bytes: int
    messages: int
    fragments: int
    requests: int
    disk_calls: int
    verified: bool
    errors: tuple[ClientError, ...] = ()
    deadlocks: int = 0
    rule_changes: int = 0
    queue_drops: int = 0
    machine_load: MachineLoad | None = None
    thread_delay_s: float = 0.0
    frame_times_s: tuple[tuple[float, float], ...] = ()
    failure: str | None = None

    @property
    def throughput_bps(self) -> float:
        """Bits of the file per second; 0 if a process failed."""
        if self.errors or self.seconds <= 0:
            return 0.0
        return self.bytes * 8 / self.seconds

    @property
    def cpu_fraction(self) -> float:
        """The fraction of all processors that was busy, 0 to 1."""
        return 0.0 if self.machine_load is None else self.machine_load.cpu_fraction

    def to_json(self) -> JsonObject:
        """Return all fields and properties, JSON-ready."""
        return {
            **asdict(self),
            "cpu_fraction": self.cpu_fraction,
            "throughput_bps": self.throughput_bps,
        }


@dataclass(frozen=True, kw_only=True)
class StripingMeasurements:
    """Measurements of a run.

    Attributes:
        fabric: The fabric on which the plan ran.
        operations: All operations in order.
        mtu_bytes: The size of the network's packets.
        machines: The report of a run over several machines, or None.
        faults: The times at which faults were active, since the start of the first operation.
    """

    fabric: str
    operations: tuple[OperationRecord, ...]
    mtu_bytes: int
    machines: MachinesReport | None = None
    faults: tuple[FaultTimes, ...] = ()
