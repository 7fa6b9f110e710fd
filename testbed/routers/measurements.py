"""The measurements of a run of software routers, and the cycles of full buffers in them.

The search for cycles shares no code with NAC.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.interconnect.simulation import cycle_of
from testbed.routers.plan import RouterPlan
from testbed.routers.router import Arrival, Snapshot


@dataclass(frozen=True, kw_only=True)
class RouterReport:
    """The report of one router at the end of a run.

    Attributes:
        log: Messages that arrived.
        snapshot: Contents of its buffers.
        nac: Number of NAC's events by name.
        frames_dropped: Number of frames that the kernel dropped because a socket's receive buffer
            was full. Then the machine is too slow.
    """

    log: list[Arrival]
    snapshot: Snapshot
    nac: Counter[str]
    frames_dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class RouterRun:
    """The reports of all routers.

    Attributes:
        made: Number of messages generated.
        reports: One report per router.
        seconds: Duration of the run, in seconds.
        stuck_for_s: Time from the last movement of a packet to the end of the run, in seconds; 0 if
            all messages arrived.
    """

    made: int
    reports: tuple[RouterReport, ...]
    seconds: float
    stuck_for_s: float

    @property
    def log(self) -> list[Arrival]:
        """All messages that arrived."""
        return [*itertools.chain.from_iterable(report.log for report in self.reports)]

    @property
    def delivered(self) -> int:
        """Number of messages that arrived."""
        return len(self.log)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Contents of the routers' buffers at the end."""
        return tuple(report.snapshot for report in self.reports)

    @property
    def in_use(self) -> int:
        """Number of packets in buffers of routers at the end."""
        packets = 0
        for snapshot in self.snapshots:
            packets += sum(snapshot.inputs) + sum(snapshot.outputs) + sum(snapshot.avoidance)
        return packets

    @property
    def nac(self) -> dict[str, int]:
        """Number of NAC's events in all routers, by name."""
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report.nac)
        return dict(total)


def find_cycle(plan: RouterPlan, snapshots: Sequence[Snapshot]) -> list[tuple[int, int]]:
    """Return a cycle of full inputs (router, port), each of which waits for the next one.

    An input waits for another if its head requests an output that is full and has no credit, and
    the input at the other end of the cable is full. The list is empty if there is no cycle.
    """
    waits = []
    for snapshot in snapshots:
        for port, out in enumerate(snapshot.wants):
            if out is None:
                continue
            if snapshot.inputs[port] < plan.slots or snapshot.outputs[out] < plan.slots:
                continue
            neighbour = plan.ports[snapshot.router][out]
            entry = plan.ports[neighbour].index(snapshot.router)
            neighbour_is_full = snapshots[neighbour].inputs[entry] >= plan.slots
            if snapshot.credits[out] == 0 and neighbour_is_full:
                waits.append(((snapshot.router, port), (neighbour, entry)))
    return cycle_of(waits)
