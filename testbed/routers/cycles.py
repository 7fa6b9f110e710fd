"""Cycles of full buffers: read off what routers hold, whatever put it there (no code in common with NAC's own
search)."""

from collections.abc import Sequence

from testbed.routers.plan import RouterPlan
from testbed.routers.router import Snapshot


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
