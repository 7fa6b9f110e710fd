"""From any cut to one that keeps its bounds and gains nothing by another move: repairs, then passes as Fiduccia and
Mattheyses made them.

In a pass every cell moves at most once, always the one that gains most, also where that is a loss; what is kept of a
pass is its best beginning. Deterministic: ties go to the lowest cell, then to the lowest machine.
"""

import heapq
from collections.abc import Sequence

from testbed.machines.partition.cells import CellGraph

MAX_PASSES = 12
PATIENCE = 100
"""Moves without a new best after which a pass ends (and a twentieth of the cells besides)."""


class Cut:
    """Which machine each cell is on, how much each machine has, and what each cell is joined to on each; changed by
    ``move``."""

    def __init__(self, graph: CellGraph, machine_of: Sequence[int], limits: Sequence[float]) -> None:
        self.graph, self.machine_of, self.limits = graph, list(machine_of), list(limits)
        self.load = [0] * len(limits)
        self.count = [0] * len(limits)
        self.towards: list[dict[int, int]] = []
        for cell, machine in enumerate(self.machine_of):
            self.load[machine] += graph.weight[cell]
            self.count[machine] += 1
            near: dict[int, int] = {}
            for other, heavy in graph.joined[cell].items():
                near[self.machine_of[other]] = near.get(self.machine_of[other], 0) + heavy
            self.towards.append(near)

    def gain(self, cell: int, machine: int) -> int:
        """By how much the weight of crossing cables falls when the cell moves there."""
        near = self.towards[cell]
        return near.get(machine, 0) - near.get(self.machine_of[cell], 0)

    def fits(self, cell: int, machine: int) -> bool:
        """Whether the machine has room for the cell, and the cell's own is not left empty."""
        return (
            self.load[machine] + self.graph.weight[cell] <= self.limits[machine]
            and self.count[self.machine_of[cell]] > 1
        )

    def move(self, cell: int, machine: int) -> None:
        before = self.machine_of[cell]
        self.machine_of[cell] = machine
        for at, sign in ((before, -1), (machine, 1)):
            self.load[at] += sign * self.graph.weight[cell]
            self.count[at] += sign
        for other, heavy in self.graph.joined[cell].items():
            near = self.towards[other]
            near[before] -= heavy
            near[machine] = near.get(machine, 0) + heavy

    def best(self, cell: int) -> tuple[int, int] | None:
        """(gain, machine) of the best move of the cell to a machine that it is joined to and that has room; None where
        there is none."""
        options = [
            (-self.gain(cell, machine), machine)
            for machine, heavy in self.towards[cell].items()
            if heavy and machine != self.machine_of[cell] and self.fits(cell, machine)
        ]
        if not options:
            return None
        loss, machine = min(options)
        return -loss, machine


def refine(cut: Cut) -> None:
    """Repair what is empty or over its limit, then move cells until a whole pass gains nothing. A pass is some n log n
    steps."""
    fill_empty(cut)
    unload(cut)
    for _ in range(MAX_PASSES):
        if not improve(cut):
            return


def fill_empty(cut: Cut) -> None:
    """Every machine gets a cell; taken, where it costs least, from the machine that has most next to its limit."""
    for machine in range(len(cut.limits)):
        if cut.count[machine] == 0:
            full = max(
                (m for m, count in enumerate(cut.count) if count > 1), key=lambda m: (cut.load[m] / cut.limits[m], -m)
            )
            cells = [cell for cell, at in enumerate(cut.machine_of) if at == full]
            cut.move(max(cells, key=lambda cell: (cut.gain(cell, machine), -cell)), machine)


def unload(cut: Cut) -> None:
    """Machines over their limit give cells away, each time the one that costs least, to a machine with room.

    There always is one: limits are at least the machine's share of everything and the heaviest cell.
    """
    for machine, limit in enumerate(cut.limits):
        while cut.load[machine] > limit:
            others = [m for m in range(len(cut.limits)) if m != machine]
            moves = (
                (-cut.gain(cell, other), cell, other)
                for cell, at in enumerate(cut.machine_of)
                if at == machine
                for other in others
                if cut.fits(cell, other)
            )
            _, cell, other = min(moves)
            cut.move(cell, other)


def improve(cut: Cut) -> bool:
    """One pass; whether it made crossing cables lighter."""
    stamp = [0] * len(cut.machine_of)
    queue: list[tuple[int, int, int, int]] = []

    def offer(cell: int) -> None:
        stamp[cell] += 1
        found = cut.best(cell)
        if found is not None:
            heapq.heappush(queue, (-found[0], cell, found[1], stamp[cell]))

    for cell in range(len(cut.machine_of)):
        offer(cell)
    moved: set[int] = set()
    undo: list[tuple[int, int]] = []
    total = best = retained = 0
    patience = PATIENCE + len(cut.machine_of) // 20
    while queue and len(undo) - retained < patience:
        loss, cell, machine, number = heapq.heappop(queue)
        if number != stamp[cell] or cell in moved:
            continue
        if not cut.fits(cell, machine):
            offer(cell)
            continue
        undo.append((cell, cut.machine_of[cell]))
        cut.move(cell, machine)
        moved.add(cell)
        total -= loss
        if total > best:
            best, retained = total, len(undo)
        for other in cut.graph.joined[cell]:
            if other not in moved:
                offer(other)
    for cell, machine in reversed(undo[retained:]):
        cut.move(cell, machine)
    return best > 0
