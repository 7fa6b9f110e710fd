"""Linear and integer programmes of one flow, solved by HiGHS: the only module of the routings that calls a solver.

A programme is over link flows x, one a usable link, and further variables behind them.
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

INTERIOR = {"run_crossover": "off", "presolve": False, "ipm_optimality_tolerance": 1e-7}
"""Presolve would put at their bounds what it takes out, which an interior point does not; below 1e-7 HiGHS now and then
finds no end."""

# The least tolerances that HiGHS takes.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# HiGHS ignores matrix entries below 1e-9, and its tolerances are absolute: a programme with a
# greater ratio between its largest and its smallest number is scaled.
WIDE_RATIO = 1e5
MAX_ESTIMATES = 8
# Ratio of a result to its estimate beyond which the programme is scaled and solved again.
FAR_FROM_ESTIMATE = 100.0
SMALLEST_STEP = 1e-6
# Price of each link, of 1 for all links together.
LEAST_PRICE = 1e-8
# The solver ignores a link if a flow in full is more than this times the link's capacity.
TOO_SMALL = 1e9


class UnsolvedError(Exception):
    """HiGHS found no optimum: infeasible, unbounded or out of its limits; the message is its own."""


def is_wide(*values: FloatArray, ratio: float = WIDE_RATIO) -> bool:
    """Return whether numbers above 0 in one of the arrays are too far apart for the solver."""
    return any(float(array.max()) > ratio * float(array.min()) for array in values)


Ends = Sequence[int] | NDArray[np.int64]


def balance_matrix(nodes: int, tail: Ends, head: Ends, columns: int | None = None) -> csr_array:
    """Sparse (nodes, columns) array: row n times x is what node n sends out less what it takes in.

    ``columns`` is at least the number of links; further columns are empty.
    """
    links = len(tail)
    rows = np.concatenate([np.asarray(tail, dtype=np.int64), np.asarray(head, dtype=np.int64)])
    at = np.concatenate([np.arange(links), np.arange(links)])
    ones = np.concatenate([np.ones(links), -np.ones(links)])
    return csr_array((ones, (rows, at)), shape=(nodes, links if columns is None else columns))


@contextmanager
def solving(problem: str) -> Iterator[None]:
    """Turn UnsolvedError into UndecidedError; ``problem`` names what the solver was asked for.

    Only for programmes that have a solution by construction, so the solver alone can be at fault.
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
    free = np.ones(len(capacity), dtype=bool) if levels is None else np.isnan(levels)
    limit = np.zeros(len(capacity)) if levels is None else np.where(free, 0.0, levels)
    if estimate is None:
        return _emptiest_once(
            loads, np.where(free, capacity, 0.0), equal, limit * capacity, tight=False
        )
    least_estimate = SMALLEST_STEP * float(limit.max())
    for _ in range(MAX_ESTIMATES):
        unit = capacity * np.where(free, estimate, limit)
        x, relative, prices = _emptiest_once(
            csr_array(loads / unit[:, None]),
            free.astype(float),
            equal,
            np.where(free, 0.0, 1.0),
            tight=True,
        )
        utilisation = relative * estimate
        close = 1 / FAR_FROM_ESTIMATE < relative < FAR_FROM_ESTIMATE
        if close or utilisation < least_estimate:
            break
        estimate *= max(relative, SMALLEST_STEP)
    return x, utilisation, scaled_prices(prices, capacity)


def _emptiest_once(
    loads: csr_array,
    greatest: FloatArray,
    equal: tuple[csr_array, FloatArray],
    limit: FloatArray,
    *,
    tight: bool,
) -> tuple[FloatArray, float, FloatArray]:
    columns = loads.shape[1]
    at_most = hstack([loads, csr_array(-greatest[:, None])], format="csr")
    balance = hstack([equal[0], csr_array((equal[0].shape[0], 1))], format="csr")
    cost = np.append(np.zeros(columns), 1.0)
    upper = np.full(columns + 1, np.inf)
    solve = solve_scaled_lp if tight else solve_lp
    x, least, prices = solve(cost, (balance, equal[1]), upper, (at_most, limit))
    return x[:-1], least, prices


def scaled_prices(prices: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return prices of capacity from prices of whole links, each of them above 0.

    The solver ignores links that are too small for a flow, so it gives them no price. A small price
    on every link keeps the ways over them dear, and lowers the bound by that little only.
    """
    return np.asarray((prices + LEAST_PRICE * prices.sum()) / capacity)


class LpSolver(Protocol):
    """A function that solves a linear programme: ``solve_lp`` or ``solve_scaled_lp``."""

    def __call__(
        self,
        cost: FloatArray,
        equal: tuple[csr_array, FloatArray],
        upper: FloatArray,
        at_most: tuple[csr_array, FloatArray] | None = None,
    ) -> tuple[FloatArray, float, FloatArray]: ...


def solve_scaled_lp(
    cost: FloatArray,
    equal: tuple[csr_array, FloatArray],
    upper: FloatArray,
    at_most: tuple[csr_array, FloatArray] | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """Solve as ``solve_lp`` does, with columns scaled and with the solver's least tolerances.

    No variable then changes a row of ``at_most`` by more than its own amount.
    """
    if at_most is None:
        return solve_lp(cost, equal, upper, options=TIGHT)
    size = np.maximum(abs(at_most[0]).max(axis=0).toarray().ravel(), 1.0)
    scaled = 1 / size[None, :]
    x, least, prices = solve_lp(
        cost / size,
        (csr_array(equal[0] * scaled), equal[1]),
        upper * size,
        (csr_array(at_most[0] * scaled), at_most[1]),
        options=TIGHT,
    )
    return x / size, least, prices


def solve_lp(
    cost: FloatArray,
    equal: tuple[csr_array, FloatArray],
    upper: FloatArray,
    at_most: tuple[csr_array, FloatArray] | None = None,
    *,
    interior: bool = False,
    options: Mapping[str, float] | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """(x, cost, prices) of the least ``cost @ x`` with 0 <= x <= ``upper``, ``equal[0] @ x == equal[1]``, ``at_most``
    likewise.

    A vertex of the polytope, as the simplex method gives it. ``interior``: where an interior-point method ends instead,
    inside the face of all optima, so that only what is tight in every optimum is tight. Prices: what one more unit of
    each right side of ``at_most`` would save, shape (rows,), 0 or more. ``options``: of HiGHS. Raises UnsolvedError.
    """
    a_ub, b_ub = at_most if at_most is not None else (None, None)
    a_eq, b_eq = equal
    bounds = np.column_stack([np.zeros(len(upper)), upper])
    method = "highs-ipm" if interior else "highs"
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", OptimizeWarning
        )  # scipy does not know HiGHS' option, and hands it on
        found = linprog(
            cost,
            A_ub=a_ub,
            b_ub=b_ub,
            A_eq=a_eq,
            b_eq=b_eq,
            bounds=bounds,
            method=method,
            options=INTERIOR if interior else options,
        )
    if found.status != 0:
        raise UnsolvedError(str(found.message))
    prices = (
        np.zeros(0)
        if at_most is None
        else np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0)
    )
    return np.asarray(found.x, dtype=np.float64), float(found.fun), prices
