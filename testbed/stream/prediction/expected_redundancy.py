"""The redundancy that random failures call for, before any happens: Gabrielyan 2007, eq. 45 as corrected, and without its truncation.

Failures of cables are independent; each is broken for a share u of the time. Losses of several are the union of their labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.faults.schedules import PoissonFaults, cables_of
from testbed.model.label_split import LABELS
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.policy import block_size_policy

SAMPLES = 20_000


@dataclass(frozen=True, kw_only=True)
class ExpectedRedundancy:
    """Means over time of N/FEC_t - 1, with N as the plan's policy gives it for the loss (at most its largest).

    ``equation_45``: states of one and two failed cables only, weighted u (1-u)^(n-1) and u^2 (1-u)^(n-2) over all pairs;
    ``singles_only`` is its first term. ``mean``: all states, from ``SAMPLES`` draws. ``spread``: standard deviation of
    the mean over a run of the given length. ``cables``: how many can fail.
    """

    cables: int
    unavailability: float
    singles_only: float
    equation_45: float
    mean: float
    spread: float


def expected_redundancy(plan: StreamPlan, faults: PoissonFaults, *, seed: int = 1) -> ExpectedRedundancy:
    """For a plan whose routes do not change. Cost: cables^2 times paths, and SAMPLES times paths."""
    crossed, widths = cable_paths(plan)
    count, u = len(crossed), faults.unavailability
    policy = block_size_policy(plan)

    def terms(losses: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        rounded, where = np.unique(np.round(losses, 6), return_inverse=True)
        values = np.array([policy(min(0.99, float(loss))) / policy.base - 1 for loss in rounded])
        return np.asarray(values[where], dtype=np.float64)

    shares = crossed @ widths
    both = (crossed * widths) @ crossed.T
    rows, columns = np.triu_indices(count, 1)
    unions = shares[rows] + shares[columns] - both[rows, columns]
    one = u * (1 - u) ** (count - 1) * float(terms(shares).sum())
    two = u**2 * (1 - u) ** (count - 2) * float(terms(unions).sum()) if count > 1 else 0.0
    sampled = _sampled(crossed, widths, u, terms, seed)
    active = max(0.0, plan.duration_s - plan.stream.playback_s - 0.5 - faults.start_s)
    share = active / plan.duration_s
    return ExpectedRedundancy(
        cables=count,
        unavailability=u,
        singles_only=one * share,
        equation_45=(one + two) * share,
        mean=float(sampled.mean()) * share,
        spread=float(sampled.std()) * math.sqrt(faults.lasts_s / max(active, faults.lasts_s)) * share,
    )


def cable_paths(plan: StreamPlan) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Shape (cables, paths): 1 where a path crosses a loaded cable either way; shape (paths,): the paths' shares."""
    split = plan.forward
    cables = cables_of(plan.network.links[i].id for i in split.loaded)
    row = {cable: k for k, cable in enumerate(cables)}
    crossed = np.zeros((len(cables), len(split.paths)))
    for number, path in enumerate(split.paths):
        for (cable,) in (cables_of([plan.network.links[i].id]) for i in path.links):
            crossed[row[cable], number] = 1
    return crossed, np.array([(path.stop - path.start) / LABELS for path in split.paths])


def _sampled(
    crossed: npt.NDArray[np.float64],
    widths: npt.NDArray[np.float64],
    u: float,
    terms: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    seed: int,
) -> npt.NDArray[np.float64]:
    chance = np.random.default_rng(seed)
    failed = (chance.random((SAMPLES, len(crossed))) < u).astype(np.float64)
    return terms(((failed @ crossed) > 0) @ widths)
