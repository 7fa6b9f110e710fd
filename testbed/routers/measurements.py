"""What a run of software routers measured: messages that arrived, what was left in buffers, and what NAC did; and the
cycles of full buffers in it, read off with no code in common with NAC's own search."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.routers.plan import RouterPlan
from testbed.routers.router import Router, Snapshot


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """One row a message that arrived: source, destination, number, hops; ``latency_s`` from its making (queue
    included)."""

    rows: NDArray[np.int64]
    latency_s: NDArray[np.float64]
    at_s: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RouterRun:
    """``snapshots``: the routers at the end. ``stuck_for_s``: how long no packet had moved when the run was ended with
    packets in buffers (0: it ended by itself). ``first_blocked_s``, ``first_identified_s``: of any router, None where
    there was none.
    """

    made: int
    arrivals: Arrivals
    snapshots: tuple[Snapshot, ...]
    seconds: float
    stuck_for_s: float
    nac: Mapping[str, int]
    first_blocked_s: float | None
    first_identified_s: float | None
    frames_dropped: int = 0
    """Frames that a socket had no room for: the machine's fault, not the routers'."""

    @property
    def delivered(self) -> int:
        return len(self.arrivals.at_s)

    @property
    def in_use(self) -> int:
        """Packets in buffers of routers at the end."""
        return sum(sum(s.inputs) + sum(s.outputs) + sum(s.avoidance) for s in self.snapshots)


Log = list[tuple[int, int, int, int, float, float]]
"""Source, destination, number, hops, latency in seconds, and when it arrived."""


def log_arrivals(router: Router, log: Log, now_s: float) -> None:
    """Take what the router has for its host into the log."""
    for packet in router.arrived:
        latency_s = now_s - packet.made_ns * 1e-9
        log.append((packet.source, packet.destination, packet.number, packet.hops, latency_s, now_s))
    router.arrived.clear()


@dataclass(frozen=True, kw_only=True)
class RouterReport:
    """What one router hands in at the end."""

    log: Log
    snapshot: Snapshot
    nac: Mapping[str, int]
    first_blocked_s: float | None
    first_identified_s: float | None
    frames_dropped: int = 0


def report_of(router: Router, log: Log, *, frames_dropped: int = 0) -> RouterReport:
    """The router's report."""
    return RouterReport(
        log=log,
        snapshot=router.snapshot(),
        nac=dict(router.done),
        first_blocked_s=router.first_blocked_s,
        first_identified_s=router.first_identified_s,
        frames_dropped=frames_dropped,
    )


def collect(plan: RouterPlan, reports: Sequence[RouterReport], *, seconds: float, stuck_for_s: float) -> RouterRun:
    """One run out of its routers' reports."""
    log = [row for report in reports for row in report.log]
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.nac)
    blocked = [r.first_blocked_s for r in reports if r.first_blocked_s is not None]
    identified = [r.first_identified_s for r in reports if r.first_identified_s is not None]
    return RouterRun(
        made=plan.messages,
        arrivals=Arrivals(
            rows=np.array([row[:4] for row in log], dtype=np.int64).reshape(-1, 4),
            latency_s=np.array([row[4] for row in log], dtype=float),
            at_s=np.array([row[5] for row in log], dtype=float),
        ),
        snapshots=tuple(report.snapshot for report in reports),
        seconds=seconds,
        stuck_for_s=stuck_for_s,
        nac=dict(total),
        first_blocked_s=min(blocked, default=None),
        first_identified_s=min(identified, default=None),
        frames_dropped=sum(report.frames_dropped for report in reports),
    )


def find_cycle(plan: RouterPlan, snapshots: Sequence[Snapshot]) -> tuple[tuple[int, int], ...]:
    """Inputs (router, port) of which each is full and waits for the next one, round a cycle; () where there is none.

    An input waits for the next where its head asks for an output that is full, without a credit, and the input behind
    the cable is full. Every input waits for one other at most, so that following them finds any cycle there is.
    """
    after = {}
    for snapshot in snapshots:
        for port, out in enumerate(snapshot.wants):
            if out is None or snapshot.inputs[port] < plan.slots or snapshot.outputs[out] < plan.slots:
                continue
            behind = plan.ports[snapshot.router][out]
            entry = plan.ports[behind].index(snapshot.router)
            if snapshot.credits[out] == 0 and snapshots[behind].inputs[entry] >= plan.slots:
                after[snapshot.router, port] = (behind, entry)
    for start in after:
        seen = [start]
        while seen[-1] in after and after[seen[-1]] not in seen:
            seen.append(after[seen[-1]])
        if seen[-1] in after:
            return tuple(seen[seen.index(after[seen[-1]]) :])
    return ()
