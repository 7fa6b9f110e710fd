"""The redundancy that random failures call for, before any happens: Gabrielyan 2007, eq. 45 as corrected, and without
its truncation.

Failures of cables are independent; each is broken for a share u of the time. Losses of several are the union of their
labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fec.redundancy.labels import joined_intervals
from testbed.faults.fault import PoissonFaults, cables_of
from testbed.model.label_split import LABELS
from testbed.stream.measurements import BoolArray, FloatArray
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import RETURN_LABELS, exact_block_size
from testbed.stream.prediction.block_size_policy import block_size_policy
from topologies import JsonObject, LinkId

SAMPLES = 20_000


class StateCosts:
    """What the states of a route's cables call for, by which of them are broken. Each set of lost paths is computed
    once: for stratified labels that takes a pass over 65,536 labels.

    ``cables``: one direction of every loaded cable, in the order of the columns. ``base``: N at rest. ``reports``:
    states in which no loss report gets back are beyond reach; without it every state is priced as if the sender knew,
    which is what theory does.
    """

    def __init__(self, plan: StreamPlan, *, reports: bool = True) -> None:
        self.cables = loaded_cables(plan)
        self._paths = plan.forward.paths
        self._crossed, self._widths = cable_paths(plan)
        returning = [
            path
            for label in RETURN_LABELS
            for path in plan.backward.paths
            if path.start <= label < path.stop
        ]
        self._reports = reports
        row = {cable: k for k, cable in enumerate(self.cables)}
        self._returning = np.zeros((len(row), len(returning)), dtype=np.float32)
        for number, path in enumerate(returning):
            for cable in cables_of(plan.network.links[i].id for i in path.links):
                if cable in row:
                    self._returning[row[cable], number] = 1
        policy = block_size_policy(plan)
        self.base, self._largest = policy.base, policy.largest
        self._size_of = exact_block_size(plan)
        self._known: dict[bytes, float] = {}

    def losses(self, broken: BoolArray) -> FloatArray:
        """Shape (states,): the fraction of labels lost; ``broken``: shape (states, cables)."""
        return np.asarray(self._lost_paths(broken) @ self._widths, dtype=np.float64)

    def block_sizes(self, broken: BoolArray) -> FloatArray:
        """Shape (states,): N, never below the base; nan beyond reach: where no N up to the plan's largest helps, and
        where more than the base is called for but no loss report gets back."""
        kinds, where = np.unique(
            np.packbits(self._lost_paths(broken), axis=1), axis=0, return_inverse=True
        )
        sizes = np.array([self._size(kind) for kind in kinds])[where.reshape(-1)]
        if not self._reports:
            return np.asarray(sizes, dtype=np.float64)
        cut = (broken.astype(np.float32) @ self._returning > 0).all(axis=1)
        return np.where(cut & (sizes > self.base), np.nan, sizes)

    def redundancies(self, broken: BoolArray) -> FloatArray:
        """Shape (states,): N/FEC_t - 1; nan beyond reach."""
        return self.block_sizes(broken) / self.base - 1

    def singles(self) -> BoolArray:
        """Shape (cables, cables): every cable broken by itself."""
        return np.eye(len(self.cables), dtype=np.bool_)

    def pairs(self) -> BoolArray:
        """Shape (cables (cables - 1) / 2, cables): every two of them broken."""
        rows, columns = np.triu_indices(len(self.cables), 1)
        broken: BoolArray = np.zeros((len(rows), len(self.cables)), dtype=np.bool_)
        broken[np.arange(len(rows)), rows] = broken[np.arange(len(rows)), columns] = True
        return broken

    def _lost_paths(self, broken: BoolArray) -> BoolArray:
        return np.asarray(broken.astype(np.float32) @ self._crossed.astype(np.float32) > 0)

    def _size(self, kind: npt.NDArray[np.uint8]) -> float:
        key = kind.tobytes()
        if key not in self._known:
            lost = zip(self._paths, np.unpackbits(kind), strict=False)
            intervals = joined_intervals((path.start, path.stop) for path, gone in lost if gone)
            size = self._size_of(intervals) if intervals else self.base
            self._known[key] = (
                math.nan if size is None or size > self._largest else max(self.base, size)
            )
        return self._known[key]


@dataclass(frozen=True, kw_only=True)
class RedundancyMeans:
    """Means over time of N/FEC_t - 1 at one unavailability, and their parts: states of one, two and more broken cables.

    ``spread``: standard deviation over the states; ``beyond``: share of the time beyond reach, which counts as 0 in the
    others.
    """

    one: float
    two: float
    more: float
    spread: float
    beyond: float

    @property
    def mean(self) -> float:
        return self.one + self.two + self.more


def redundancy_means(
    costs: StateCosts, unavailabilities: Sequence[float], draws: FloatArray
) -> list[RedundancyMeans]:
    """At each unavailability. States of one and of two broken cables are all computed, those of more are drawn.

    ``draws``: shape (states, cables), uniform in [0, 1): a cable is broken where its number is below the
    unavailability. The same draws for the same cables let routes be compared. Cost: cables^2 times paths, and states
    times paths for each unavailability.
    """
    count, found = len(costs.cables), []
    singles = float(np.nansum(costs.redundancies(costs.singles())))
    pairs = float(np.nansum(costs.redundancies(costs.pairs()))) if count > 1 else 0.0
    for u in unavailabilities:
        broken = draws < u
        sampled = costs.redundancies(broken)
        beyond = np.isnan(sampled)
        sampled = np.where(beyond, 0.0, sampled)
        found.append(
            RedundancyMeans(
                one=u * (1 - u) ** (count - 1) * singles,
                two=u**2 * (1 - u) ** (count - 2) * pairs if count > 1 else 0.0,
                more=float(np.where(broken.sum(axis=1) > 2, sampled, 0.0).mean()),
                spread=float(sampled.std()),
                beyond=float(beyond.mean()),
            )
        )
    return found


def expected_redundancy(plan: StreamPlan, faults: PoissonFaults) -> JsonObject:
    """Means over time of N/FEC_t - 1, with N as the labels that are lost call for, by name; for a plan whose routes do
    not change. Cost: cables^2 times paths, and SAMPLES times paths.

    ``equation_45``: states of one and two failed cables only, weighted u (1-u)^(n-1) and u^2 (1-u)^(n-2) over all
    pairs; ``singles_only`` is its first term. ``mean``: all states, those of three and more from ``SAMPLES`` draws.
    ``spread``: standard deviation of the mean over a run of the given length. ``cables``: how many can fail.
    ``beyond``: share of the time in which no N up to the plan's largest helps, or no report gets back to ask for one;
    it counts as 0 in all of these, pairs of equation 45 included.
    """
    costs = StateCosts(plan)
    count, u = len(costs.cables), faults.unavailability
    (means,) = redundancy_means(costs, [u], np.random.default_rng(1).random((SAMPLES, count)))
    active = max(0.0, plan.duration_s - plan.stream.playback_s - 0.5 - faults.start_s)
    share = active / plan.duration_s
    return {
        "cables": count,
        "unavailability": u,
        "singles_only": means.one * share,
        "equation_45": (means.one + means.two) * share,
        "mean": means.mean * share,
        "spread": means.spread * math.sqrt(faults.lasts_s / max(active, faults.lasts_s)) * share,
        "beyond": means.beyond * share,
    }


def loaded_cables(plan: StreamPlan) -> tuple[LinkId, ...]:
    """One direction of every cable that carries labels, sorted."""
    return cables_of(plan.network.links[i].id for i in plan.forward.loaded)


def cable_paths(plan: StreamPlan) -> tuple[FloatArray, FloatArray]:
    """Shape (cables, paths): 1 where a path crosses a loaded cable either way; shape (paths,): the paths' shares."""
    split = plan.forward
    row = {cable: k for k, cable in enumerate(loaded_cables(plan))}
    crossed = np.zeros((len(row), len(split.paths)))
    for number, path in enumerate(split.paths):
        for (cable,) in (cables_of([plan.network.links[i].id]) for i in path.links):
            crossed[row[cable], number] = 1
    return crossed, np.array([(path.stop - path.start) / LABELS for path in split.paths])
