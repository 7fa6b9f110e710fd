"""Predicts the mean redundancy that random failures require.

This is Gabrielyan 2007, eq. 45 as corrected, and the same without its truncation. Failures of
cables are independent, and each cable is broken for a share u of the time. Several failures lose
the union of their labels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fec.redundancy.labels import merge_intervals
from testbed.faults.fault import PoissonFaults, cables_of
from testbed.model.label_split import LABELS
from testbed.stream.measurements import BoolArray, FloatArray
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    RETURN_LABELS,
    exact_block_size,
)
from testbed.stream.prediction.block_size_policy import block_size_policy
from topologies import JsonObject, LinkId

# Number of random states from which the part of states with three or more failures is estimated.
SAMPLES = 20_000
# Random faults end this time before the last block is played.
_QUIET_END_S = 0.5


class StateCosts:
    """The block size N for each state of a route; a state says which of its cables are broken.

    In methods, ``broken`` is a mask of shape (states, cables).

    The N of each set of lost paths is computed once: with stratified labels that takes a pass over
    65,536 labels.

    A state is *unrecoverable* if no N up to the plan's largest repairs its losses, or if no loss
    report arrives with which the sender could choose a larger N.

    Attributes:
        cables: One direction of every loaded cable, in the order of the columns.
        base: N outside faults.
    """

    def __init__(self, plan: StreamPlan, *, reports: bool = True) -> None:
        """Create the costs.

        Args:
            plan: A plan whose routes do not change.
            reports: Whether states in which no loss report arrives are unrecoverable. If not, the
                sender is assumed to know every state, as in the thesis.
        """
        self.cables = loaded_cables(plan)
        self._paths = plan.forward.paths
        crossed, self._widths = cable_paths(plan)
        self._crossed = crossed.astype(np.float32)
        self._reports = reports
        self._returning = _crossed_by_reports(plan, self.cables)
        policy = block_size_policy(plan)
        self.base = policy.base
        self._largest = policy.largest
        self._size_of = exact_block_size(plan)
        self._sizes: dict[bytes, float] = {}

    def losses(self, broken: BoolArray) -> FloatArray:
        """Return the fraction of labels lost in each state, shape (states,)."""
        return np.asarray(self._lost_paths(broken) @ self._widths, dtype=np.float64)

    def block_sizes(self, broken: BoolArray) -> FloatArray:
        """Return N in each state, at least the base; nan in unrecoverable states."""
        packed = np.packbits(self._lost_paths(broken), axis=1)
        kinds, kind_of_state = np.unique(packed, axis=0, return_inverse=True)
        sizes_of_kinds = np.array([self._size(kind) for kind in kinds])
        sizes = sizes_of_kinds[kind_of_state.reshape(-1)]
        if not self._reports:
            return np.asarray(sizes, dtype=np.float64)
        cut = (broken.astype(np.float32) @ self._returning > 0).all(axis=1)
        return np.where(cut & (sizes > self.base), np.nan, sizes)

    def redundancies(self, broken: BoolArray) -> FloatArray:
        """Return N/FEC_t - 1 in each state; nan in unrecoverable states."""
        return self.block_sizes(broken) / self.base - 1

    def singles(self) -> BoolArray:
        """Return the states in which one cable is broken, shape (cables, cables)."""
        return np.eye(len(self.cables), dtype=np.bool_)

    def pairs(self) -> BoolArray:
        """Return the states in which two cables are broken, shape (pairs, cables)."""
        first, second = np.triu_indices(len(self.cables), 1)
        broken: BoolArray = np.zeros((len(first), len(self.cables)), dtype=np.bool_)
        state = np.arange(len(first))
        broken[state, first] = True
        broken[state, second] = True
        return broken

    def _lost_paths(self, broken: BoolArray) -> BoolArray:
        """Return which paths are lost in each state, shape (states, paths)."""
        return np.asarray(broken.astype(np.float32) @ self._crossed > 0)

    def _size(self, packed_paths: npt.NDArray[np.uint8]) -> float:
        """Return N for a set of lost paths, one bit for each path; nan if no N is sufficient."""
        key = packed_paths.tobytes()
        if key not in self._sizes:
            lost = zip(self._paths, np.unpackbits(packed_paths), strict=False)
            intervals = merge_intervals((path.start, path.stop) for path, gone in lost if gone)
            size = self._size_of(intervals) if intervals else self.base
            if size is None or size > self._largest:
                self._sizes[key] = math.nan
            else:
                self._sizes[key] = max(self.base, size)
        return self._sizes[key]


def _crossed_by_reports(plan: StreamPlan, cables: Sequence[LinkId]) -> npt.NDArray[np.float32]:
    """Return 1 where a return path of loss reports crosses a cable, else 0; (cables, paths)."""
    row = {cable: k for k, cable in enumerate(cables)}
    returning = [plan.backward.path_of(label) for label in RETURN_LABELS]
    crossed = np.zeros((len(cables), len(returning)), dtype=np.float32)
    for number, path in enumerate(returning):
        for cable in cables_of(plan.network.links[i].id for i in path.links):
            if cable in row:
                crossed[row[cable], number] = 1
    return crossed


@dataclass(frozen=True, kw_only=True)
class RedundancyMeans:
    """Means over time of N/FEC_t - 1 at one unavailability.

    Attributes:
        one: The part of states with one broken cable.
        two: The part of states with two.
        more: The part of all others.
        spread: The standard deviation over the states.
        beyond: The share of the time in unrecoverable states, which count as 0 in the other fields.
    """

    one: float
    two: float
    more: float
    spread: float
    beyond: float

    @property
    def mean(self) -> float:
        """The mean over all states."""
        return self.one + self.two + self.more


def redundancy_means(
    costs: StateCosts,
    unavailabilities: Sequence[float],
    draws: FloatArray,
) -> list[RedundancyMeans]:
    """Return the means at each unavailability.

    States with one or two broken cables are enumerated, the others are drawn at random. Cost:
    cables^2 times paths, and states times paths for each unavailability.

    Args:
        costs: The block sizes of the states.
        unavailabilities: The shares of the time for which each cable is broken.
        draws: Uniform numbers in [0, 1), shape (states, cables). A cable is broken if its number is
            below the unavailability, so that the same draws allow a comparison of routes with the
            same cables.
    """
    count = len(costs.cables)
    singles = float(np.nansum(costs.redundancies(costs.singles())))
    pairs = 0.0
    if count > 1:
        pairs = float(np.nansum(costs.redundancies(costs.pairs())))
    means = []
    for u in unavailabilities:
        broken = draws < u
        sampled = costs.redundancies(broken)
        beyond = np.isnan(sampled)
        sampled = np.where(beyond, 0.0, sampled)
        several = broken.sum(axis=1) > 2
        mean = RedundancyMeans(
            one=u * (1 - u) ** (count - 1) * singles,
            two=u**2 * (1 - u) ** (count - 2) * pairs if count > 1 else 0.0,
            more=float(np.where(several, sampled, 0.0).mean()),
            spread=float(sampled.std()),
            beyond=float(beyond.mean()),
        )
        means.append(mean)
    return means


def expected_redundancy(plan: StreamPlan, faults: PoissonFaults) -> JsonObject:
    """Return means over time of N/FEC_t - 1 by name, for the N that the lost labels require.

    The routes of the plan do not change. Cost: cables^2 times paths, and SAMPLES times paths.

    Returns:
        ``equation_45``: states of one and two failed cables only, weighted u (1-u)^(n-1) and
        u^2 (1-u)^(n-2) over all pairs; ``singles_only`` is its first term. ``mean``: all states,
        those of three and more from ``SAMPLES`` draws. ``spread``: standard deviation of the mean
        over a run of the given length. ``cables``: how many can fail. ``beyond``: share of the time
        in unrecoverable states (``StateCosts``), which count as 0 in all means, including the pairs
        of equation 45.
    """
    costs = StateCosts(plan)
    count = len(costs.cables)
    u = faults.unavailability
    draws = np.random.default_rng(1).random((SAMPLES, count))
    (means,) = redundancy_means(costs, [u], draws)
    quiet_s = plan.stream.playback_s + _QUIET_END_S
    active_s = max(0.0, plan.duration_s - quiet_s - faults.start_s)
    share = active_s / plan.duration_s
    # The mean of independent states is that much less spread than a single one.
    narrower = math.sqrt(faults.lasts_s / max(active_s, faults.lasts_s))
    return {
        "cables": count,
        "unavailability": u,
        "singles_only": means.one * share,
        "equation_45": (means.one + means.two) * share,
        "mean": means.mean * share,
        "spread": means.spread * narrower * share,
        "beyond": means.beyond * share,
    }


def loaded_cables(plan: StreamPlan) -> tuple[LinkId, ...]:
    """Return one direction of every cable that carries labels, sorted."""
    return cables_of(plan.network.links[i].id for i in plan.forward.loaded)


def cable_paths(plan: StreamPlan) -> tuple[FloatArray, FloatArray]:
    """Return which paths cross which loaded cables, and the shares of the paths.

    Returns:
        Shape (cables, paths), 1 if the path crosses the cable in either direction; shape (paths,).
    """
    split = plan.forward
    row = {cable: k for k, cable in enumerate(loaded_cables(plan))}
    crossed = np.zeros((len(row), len(split.paths)))
    for number, path in enumerate(split.paths):
        for cable in cables_of(plan.network.links[i].id for i in path.links):
            crossed[row[cable], number] = 1
    shares = [(path.stop - path.start) / LABELS for path in split.paths]
    return crossed, np.array(shares)
