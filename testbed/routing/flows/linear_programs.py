"""Linear and integer programmes of one flow, solved by HiGHS: the only module of the routings that calls a solver.

A programme is over link flows x, one a usable link, and further variables behind them.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning, linprog
from scipy.sparse import csr_array, hstack

from testbed.arrays import FloatArray
from testbed.errors import InputError

INTERIOR = {"run_crossover": "off", "presolve": False, "ipm_optimality_tolerance": 1e-7}
"""Presolve would put at their bounds what it takes out, which an interior point does not; below 1e-7 HiGHS now and then
finds no end."""


class UnsolvedError(Exception):
    """HiGHS found no optimum: infeasible, unbounded or out of its limits; the message is its own."""


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
def solving(what: str) -> Iterator[None]:
    """Turns UnsolvedError into an InputError that says what was not found."""
    try:
        yield
    except UnsolvedError as error:
        raise InputError(f"{what} ({error})") from None


def emptiest(
    loads: csr_array,
    capacity: FloatArray,
    equal: tuple[csr_array, FloatArray],
    limit: FloatArray | None = None,
) -> tuple[FloatArray, float, FloatArray]:
    """(x, t, prices) of the least t with ``loads @ x <= t * capacity + limit`` and ``equal[0] @ x == equal[1]``, x
    from 0 on. Raises UnsolvedError."""
    rows, columns = loads.shape
    at_most = (
        hstack([loads, csr_array(-capacity[:, None])], format="csr"),
        np.zeros(rows) if limit is None else limit,
    )
    wide = (hstack([equal[0], csr_array((equal[0].shape[0], 1))], format="csr"), equal[1])
    x, least, prices = solve_lp(
        np.append(np.zeros(columns), 1.0), wide, np.full(columns + 1, np.inf), at_most
    )
    return x[:-1], least, prices


def solve_lp(
    cost: FloatArray,
    equal: tuple[csr_array, FloatArray],
    upper: FloatArray,
    at_most: tuple[csr_array, FloatArray] | None = None,
    *,
    interior: bool = False,
) -> tuple[FloatArray, float, FloatArray]:
    """(x, cost, prices) of the least ``cost @ x`` with 0 <= x <= ``upper``, ``equal[0] @ x == equal[1]``, ``at_most``
    likewise.

    A vertex of the polytope, as the simplex method gives it. ``interior``: where an interior-point method ends instead,
    inside the face of all optima, so that only what is tight in every optimum is tight. Prices: what one more unit of
    each right side of ``at_most`` would save, shape (rows,), 0 or more. Raises UnsolvedError.
    """
    a_ub, b_ub = at_most if at_most is not None else (None, None)
    a_eq, b_eq = equal
    bounds = np.column_stack([np.zeros(len(upper)), upper])
    method, options = ("highs-ipm", INTERIOR) if interior else ("highs", None)
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
            options=options,
        )
    if found.status != 0:
        raise UnsolvedError(str(found.message))
    prices = (
        np.zeros(0)
        if at_most is None
        else np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0)
    )
    return np.asarray(found.x, dtype=np.float64), float(found.fun), prices
