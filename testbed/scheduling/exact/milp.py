"""Schedules by mixed integer linear programming (Gabrielyan 2007, equations 30 to 33).

No other module of this package calls HiGHS.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from testbed.scheduling.exact.exact_search import ExactResult

# Status of scipy's ``milp`` for a problem without a solution.
_INFEASIBLE = 2


def solve_milp(
    paths: Sequence[Sequence[int]],
    *,
    time_limit_s: float,
    now: Callable[[], float] | None = None,
) -> ExactResult:
    """Find the smallest number T of time frames for which a schedule exists.

    The variables A[i, t] in {0, 1} (equation 31) say whether transfer i is in frame t. Every
    transfer has one frame (equation 33), and every link has at most one transfer per frame
    (equation 32). T is tried from the duration of the traffic upwards, so each programme only asks
    whether a solution exists (Gabrielyan 2007, appendix C).

    Args:
        paths: Numbers of the links of each transfer.
        time_limit_s: Time limit in seconds.
        now: A clock in seconds. Each programme may take the time that is left by this clock;
            without it, each may take the complete limit.
    """
    loads: Counter[int] = Counter()
    for path in paths:
        loads.update(set(path))
    duration = max(loads.values(), default=0)
    start_s = 0.0 if now is None else now()
    frames_allowed = duration
    while frames_allowed <= len(paths):
        elapsed_s = 0.0 if now is None else now() - start_s
        remaining_s = time_limit_s - elapsed_s
        if remaining_s <= 0:
            break
        frames, impossible = _solve_for(paths, frames_allowed, remaining_s)
        if frames is not None:
            return ExactResult(frames=frames, lower_bound=frames_allowed, duration=duration)
        if not impossible:
            break
        frames_allowed += 1
    return ExactResult(frames=None, lower_bound=frames_allowed, duration=duration)


def _solve_for(
    paths: Sequence[Sequence[int]], frames: int, time_limit_s: float
) -> tuple[tuple[tuple[int, ...], ...] | None, bool]:
    """Search a schedule with a given number of frames.

    Args:
        paths: Numbers of the links of each transfer.
        frames: Number of frames.
        time_limit_s: Time limit in seconds.

    Returns:
        The transfers of each frame, or None; and whether no such schedule exists (proved).
    """
    # Imported here, because scipy takes long to import.
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, kron

    transfers = len(paths)
    link_sets = [set(path) for path in paths]
    users = np.repeat(np.arange(transfers), [len(links) for links in link_sets])
    used = np.array(list(itertools.chain(*link_sets)))
    uses = csr_array((np.ones(len(used)), (used, users)), shape=(1 + max(used), transfers))
    one_frame = kron(eye_array(transfers), np.ones((1, frames)), format="csr")
    one_transfer = kron(uses, eye_array(frames), format="csr")
    solution = milp(
        c=np.zeros(transfers * frames),
        constraints=[LinearConstraint(one_frame, 1, 1), LinearConstraint(one_transfer, 0, 1)],
        integrality=np.ones(transfers * frames),
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s},
    )
    if solution.x is None:
        return None, solution.status == _INFEASIBLE
    frame_of = solution.x.reshape(transfers, frames).argmax(axis=1)
    result = []
    for number in range(frames):
        frame = tuple(np.flatnonzero(frame_of == number).tolist())
        if frame:
            result.append(frame)
    return tuple(result), False
