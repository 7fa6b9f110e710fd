"""What a striped-file run measured: one record an operation, what went wrong in it, and what the machine did
meanwhile."""

from dataclasses import asdict, dataclass
from typing import Literal

from testbed.faults.fault import FaultTimes
from testbed.machines.machines_report import MachinesReport
from testbed.model.machine.load import MachineLoad
from topologies import JsonObject

Direction = Literal["write", "read"]
MTU_BYTES = 9000
TIMEOUT_S = 2.0
"""After which a silent listener is given up."""


@dataclass(frozen=True, kw_only=True)
class ClientError:
    """A compute process whose call failed ``after_s`` seconds after it began, ``since_fault_s`` after the first
    fault."""

    rank: int
    node: str
    text: str
    after_s: float
    since_fault_s: float


@dataclass(frozen=True, kw_only=True)
class OperationRecord:
    """One operation of all compute processes together.

    ``verified``: subfiles hold what they must (write), every process read what was written (read). ``seconds``: until
    the last process was done. ``under_faults``: faults were in force; what they broke is in ``errors``. ``frame_times_s``: of
    a scheduled one. ``machine_load``: of the machine meanwhile, None where nothing was timed on it; ``thread_delay_s``: by which its
    late threads lengthened a coordinated operation.
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
        """Bits of the file a second, of an operation that came to its end."""
        return self.bytes * 8 / self.seconds if self.seconds > 0 and not self.errors else 0.0

    @property
    def cpu_fraction(self) -> float:
        """Busy time of all processors meanwhile, 0 to 1."""
        return 0.0 if self.machine_load is None else self.machine_load.cpu_fraction

    def to_json(self) -> JsonObject:
        return {
            **asdict(self),
            "cpu_fraction": self.cpu_fraction,
            "throughput_bps": self.throughput_bps,
        }


@dataclass(frozen=True, kw_only=True)
class StripingMeasurements:
    """All operations in order. ``mtu_bytes``: of the network's packets. ``machines``: of a run over several.
    ``faults``: when they were in force, in the first operation."""

    fabric: str
    operations: tuple[OperationRecord, ...]
    mtu_bytes: int
    machines: MachinesReport | None = None
    faults: tuple[FaultTimes, ...] = ()
