"""What a run of software routers measured: messages that arrived, what was left in buffers, and what NAC did; and the
cycles of full buffers in it, read off with no code in common with NAC's own search."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.interconnect.simulation import cycle_of
from testbed.routers.plan import RouterPlan
from testbed.routers.router import Arrival, Snapshot


@dataclass(frozen=True, kw_only=True)
class RouterReport:
    """What one router hands in at the end. ``frames_dropped``: that a socket had no room for: the machine's fault."""

    log: list[Arrival]
    snapshot: Snapshot
    nac: Counter[str]
    frames_dropped: int = 0


@dataclass(frozen=True, kw_only=True)
class RouterRun:
    """The routers' reports. ``stuck_for_s``: how long no packet had moved when the run was ended with packets in
    buffers (0: it ended by itself)."""

    made: int
    reports: tuple[RouterReport, ...]
    seconds: float
    stuck_for_s: float

    @property
    def log(self) -> list[Arrival]:
        return [arrival for report in self.reports for arrival in report.log]

    @property
    def delivered(self) -> int:
        return len(self.log)

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        return tuple(report.snapshot for report in self.reports)

    @property
    def in_use(self) -> int:
        """Packets in buffers of routers at the end."""
        return sum(sum(s.inputs) + sum(s.outputs) + sum(s.avoidance) for s in self.snapshots)

    @property
    def nac(self) -> dict[str, int]:
        """What NAC did in all routers."""
        total: Counter[str] = Counter()
        for report in self.reports:
            total.update(report.nac)
        return dict(total)


def find_cycle(plan: RouterPlan, snapshots: Sequence[Snapshot]) -> list[tuple[int, int]]:
    """Inputs (router, port) of which each is full and waits for the next one, round a cycle; empty where there is none.

    An input waits for the next where its head asks for an output that is full, without a credit, and the input behind
    the cable is full.
    """
    waits = []
    for snapshot in snapshots:
        for port, out in enumerate(snapshot.wants):
            if (
                out is None
                or snapshot.inputs[port] < plan.slots
                or snapshot.outputs[out] < plan.slots
            ):
                continue
            behind = plan.ports[snapshot.router][out]
            entry = plan.ports[behind].index(snapshot.router)
            if snapshot.credits[out] == 0 and snapshots[behind].inputs[entry] >= plan.slots:
                waits.append(((snapshot.router, port), (behind, entry)))
    return cycle_of(waits)
