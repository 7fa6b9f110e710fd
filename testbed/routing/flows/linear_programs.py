"""Linear programmes over link flows, solved by HiGHS through scipy.

No other module of the routings calls a solver. The variables of a programme are the flows of the
usable links, followed by any further variables.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, linprog
from scipy.sparse import csr_array, hstack

from testbed.arrays import FloatArray
from testbed.errors import UndecidedError

# Options of the interior-point method. Presolve would set variables that it removes to their
# bounds, which an interior point does not. With a tolerance below 1e-7, HiGHS sometimes does not
# terminate.
INTERIOR = {"run_crossover": "off", "presolve": False, "ipm_optimality_tolerance": 1e-7}

# The smallest tolerances that HiGHS accepts.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

# HiGHS ignores matrix entries below 1e-9, and its tolerances are absolute. A programme is scaled if
# the ratio between its largest and its smallest number exceeds this.
WIDE_RATIO = 1e5

# A scaled programme needs an estimate of its result. It is solved again with a better estimate
# while the result differs from the estimate by more than FAR_FROM_ESTIMATE, at most MAX_ESTIMATES
# times. An estimate falls by SMALLEST_STEP at most in one step.
MAX_ESTIMATES = 8
FAR_FROM_ESTIMATE = 100.0
SMALLEST_STEP = 1e-6

# Price that each link has at least, relative to the sum of all prices.
MIN_PRICE = 1e-8

# The solver ignores a link if a complete flow is more than this times the link's capacity.
TOO_SMALL = 1e9

Ends = Sequence[int] | NDArray[np.int64]


class UnsolvedError(Exception):
    """HiGHS found no optimum: the programme is infeasible, unbounded or beyond its limits.

    The message is the solver's.
    """


def is_wide(*values: FloatArray, ratio: float = WIDE_RATIO) -> bool:
    """Return whether the numbers in one of the arrays are too far apart for the solver.

    Args:
        *values: Arrays of numbers above 0.
        ratio: Largest acceptable ratio of two numbers in one array.
    """
    return any(float(array.max()) > ratio * float(array.min()) for array in values)


def balance_matrix(nodes: int, tail: Ends, head: Ends, columns: int | None = None) -> csr_array:
    """Return the incidence matrix of a graph.

    Row n, multiplied by the link flows, is what node n sends out minus what it receives.

    Args:
        nodes: Number of nodes.
        tail: Node from which each link leads.
        head: Node to which each link leads.
        columns: Number of columns, at least the number of links; further columns are empty.

    Returns:
        Sparse array of shape (nodes, columns).
    """
    links = len(tail)
    rows = np.concatenate([np.asarray(tail, dtype=np.int64), np.asarray(head, dtype=np.int64)])
    link_columns = np.concatenate([np.arange(links), np.arange(links)])
    values = np.concatenate([np.ones(links), -np.ones(links)])
    width = links if columns is None else columns
    return csr_array((values, (rows, link_columns)), shape=(nodes, width))


@contextmanager
def solving(problem: str) -> Iterator[None]:
    """Turn UnsolvedError into UndecidedError.

    This is only for programmes that have a solution by construction, so that a failure is the
    solver's.

    Args:
        problem: Describes what is solved; the message begins with it.
    """
    try:
        yield
    except UnsolvedError as error:
        raise UndecidedError(f"{problem}: cannot tell, the solver failed ({error})") from None


def emptiest(
    loads: csr_array,
    capacity: FloatArray,
    equal: tuple[csr_array, FloatArray],
    levels: FloatArray | None = None,
    estimate: float | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise the greatest utilisation t of the links.

    Args:
        loads: Load of each link (rows) by each variable (columns).
        capacity: Capacity of each link.
        equal: Matrix and right side of the equations that the variables satisfy.
        levels: Utilisation that a link must not exceed, or nan for a link that t bounds.
        estimate: A guess of t if capacities or loads are far apart. Rows and columns are then
            scaled by it, so that the solver's absolute tolerances mean the same on every link.

    Returns:
        The variables, t, and a price of each link's capacity.

    Raises:
        UnsolvedError: The solver found no optimum.
    """
    links = len(capacity)
    free = np.ones(links, dtype=bool) if levels is None else np.isnan(levels)
    limit = np.zeros(links) if levels is None else np.where(free, 0.0, levels)
    if estimate is None:
        return _emptiest_once(
            loads, np.where(free, capacity, 0.0), equal, limit * capacity, solve_lp
        )
    min_estimate = SMALLEST_STEP * float(limit.max())
    for _ in range(MAX_ESTIMATES):
        unit = capacity * np.where(free, estimate, limit)
        x, relative, prices = _emptiest_once(
            csr_array(loads / unit[:, None]),
            free.astype(float),
            equal,
            np.where(free, 0.0, 1.0),
            solve_scaled_lp,
        )
        utilisation = relative * estimate
        close = 1 / FAR_FROM_ESTIMATE < relative < FAR_FROM_ESTIMATE
        if close or utilisation < min_estimate:
            break
        estimate *= max(relative, SMALLEST_STEP)
    return x, utilisation, scaled_prices(prices, capacity)


class LpSolver(Protocol):
    """A function that solves a linear programme: ``solve_lp`` or ``solve_scaled_lp``."""

    def __call__(
        self,
        cost: FloatArray,
        equal: tuple[csr_array, FloatArray],
        upper: FloatArray,
        at_most: tuple[csr_array, FloatArray] | None = None,
    ) -> tuple[FloatArray, float, FloatArray]:
        """Return the variables, their cost, and the prices of the inequalities."""
        ...


def _emptiest_once(
    loads: csr_array,
    coefficient: FloatArray,
    equal: tuple[csr_array, FloatArray],
    limit: FloatArray,
    solve: LpSolver,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise t subject to ``loads @ x <= coefficient * t + limit`` and the equations."""
    columns = loads.shape[1]
    matrix, right_side = equal
    at_most = hstack([loads, csr_array(-coefficient[:, None])], format="csr")
    balance = hstack([matrix, csr_array((matrix.shape[0], 1))], format="csr")
    cost = np.append(np.zeros(columns), 1.0)
    upper = np.full(columns + 1, np.inf)
    x, utilisation, prices = solve(cost, (balance, right_side), upper, (at_most, limit))
    return x[:-1], utilisation, prices


def scaled_prices(prices: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return prices per unit of capacity from prices of whole links, each of them above 0.

    The solver ignores links that are too small for a flow, so it gives them no price. With a small
    price on every link, paths over such links are not free. This lowers the bound by no more than
    the small price.
    """
    return np.asarray((prices + MIN_PRICE * prices.sum()) / capacity)


def solve_scaled_lp(
    cost: FloatArray,
    equal: tuple[csr_array, FloatArray],
    upper: FloatArray,
    at_most: tuple[csr_array, FloatArray] | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """Solve as ``solve_lp`` does, with columns scaled and with the solver's smallest tolerances.

    After scaling, no variable changes a row of ``at_most`` by more than its own amount. Arguments
    and results are those of ``solve_lp``.
    """
    if at_most is None:
        return solve_lp(cost, equal, upper, options=TIGHT)
    size = np.maximum(abs(at_most[0]).max(axis=0).toarray().ravel(), 1.0)
    scale = 1 / size[None, :]
    x, minimum, prices = solve_lp(
        cost / size,
        (csr_array(equal[0] * scale), equal[1]),
        upper * size,
        (csr_array(at_most[0] * scale), at_most[1]),
        options=TIGHT,
    )
    return x / size, minimum, prices


def solve_lp(
    cost: FloatArray,
    equal: tuple[csr_array, FloatArray],
    upper: FloatArray,
    at_most: tuple[csr_array, FloatArray] | None = None,
    *,
    interior: bool = False,
    options: Mapping[str, float] | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """Minimise ``cost @ x`` over 0 <= x <= ``upper``.

    Args:
        cost: Cost of each variable.
        equal: Matrix and right side of the equations.
        upper: Upper bound of each variable.
        at_most: Matrix and right side of the inequalities "row times x is at most the right side".
        interior: Use an interior-point method. It ends inside the face of all optima, so that only
            constraints that are tight in every optimum are tight. By default the result is a vertex
            of the polytope, as the simplex method returns it.
        options: Options of HiGHS; ignored if ``interior`` is set.

    Returns:
        The variables, the minimum, and the price of each inequality: what one more unit of its
        right side would save, 0 or more.

    Raises:
        UnsolvedError: The solver found no optimum.
    """
    a_ub, b_ub = (None, None) if at_most is None else at_most
    a_eq, b_eq = equal
    bounds = np.column_stack([np.zeros(len(upper)), upper])
    with warnings.catch_warnings():
        # scipy warns about options of HiGHS that it does not know, but passes them on.
        warnings.simplefilter("ignore", OptimizeWarning)
        result = linprog(
            cost,
            A_ub=a_ub,
            b_ub=b_ub,
            A_eq=a_eq,
            b_eq=b_eq,
            bounds=bounds,
            method="highs-ipm" if interior else "highs",
            options=INTERIOR if interior else options,
        )
    if result.status != 0:
        raise UnsolvedError(str(result.message))
    if at_most is None:
        prices = np.zeros(0)
    else:
        prices = np.maximum(-np.asarray(result.ineqlin.marginals, dtype=np.float64), 0.0)
    return np.asarray(result.x, dtype=np.float64), float(result.fun), prices
