"""Schedules by mixed integer linear programming (HiGHS): Gabrielyan 2007, eq. 30 to 33, one number of frames after
another.

The only module of this package that calls HiGHS.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from testbed.scheduling.exact.exact_search import ExactResult

_INFEASIBLE = 2


def solve_milp(
    paths: Sequence[Sequence[int]],
    *,
    time_limit_s: float,
    now: Callable[[], float] | None = None,
) -> ExactResult:
    """The fewest time frames T for which A[i, t] in {0, 1} (eq. 31) gives every transfer one frame (eq. 33) and every
    link at most one transfer a frame (eq. 32; Gabrielyan 2007, appendix C); T is tried from the duration up, so each
    trial is a question of feasibility. ``time_limit_s`` is divided by HiGHS' own clock: every trial may take what
    ``now`` says is left (all of it without ``now``). ``paths[i]``: link numbers of transfer i.
    """
    loads = Counter(link for path in paths for link in set(path))
    duration = max(loads.values(), default=0)
    started = now() if now is not None else 0.0
    frames_allowed = duration
    while frames_allowed <= len(paths):
        left = time_limit_s - (now() - started if now is not None else 0.0)
        if left <= 0:
            break
        frames, impossible = _solve_for(paths, frames_allowed, left)
        if frames is not None:
            return ExactResult(frames=frames, lower_bound=frames_allowed, duration=duration)
        if not impossible:
            break
        frames_allowed += 1
    return ExactResult(frames=None, lower_bound=frames_allowed, duration=duration)


def _solve_for(
    paths: Sequence[Sequence[int]], frames: int, time_limit_s: float
) -> tuple[tuple[tuple[int, ...], ...] | None, bool]:
    """(frames or None, proved impossible)."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, kron

    transfers = len(paths)
    users = np.repeat(np.arange(transfers), [len(set(path)) for path in paths])
    used = np.array([link for path in paths for link in set(path)])
    over = csr_array((np.ones(len(used)), (used, users)), shape=(1 + max(used), transfers))
    solution = milp(
        c=np.zeros(transfers * frames),
        constraints=[
            LinearConstraint(kron(eye_array(transfers), np.ones((1, frames)), format="csr"), 1, 1),
            LinearConstraint(kron(over, eye_array(frames), format="csr"), 0, 1),
        ],
        integrality=np.ones(transfers * frames),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s},
    )
    if solution.x is None:
        return None, solution.status == _INFEASIBLE
    chosen = solution.x.reshape(transfers, frames).argmax(axis=1)
    found = tuple(tuple(int(i) for i in np.flatnonzero(chosen == t)) for t in range(frames))
    return tuple(frame for frame in found if frame), False
