"""Semi-oblivious routing: paths that were fixed before the demands were known, rates that are best for the demands
(Kumar et al. 2018)."""

import numpy as np
from scipy.sparse import csr_array, hstack

from testbed.errors import InputError
from testbed.routing.demands.path_sets import PathSet, routed_by_paths
from testbed.routing.demands.routed_demands import RoutedDemands
from testbed.routing.flows.linear_programs import UnsolvedError, solve_lp


def best_rates(paths: PathSet, method: str) -> RoutedDemands:
    """The weights of the paths by which the fullest link is as empty as these paths allow: one linear programme
    (HiGHS).

    Never a greater utilisation than the path set's own weights give, nor a smaller one than the multicommodity optimum.
    """
    matrix, count = paths.matrix, len(paths.pair_of_path)
    rates = matrix.rates / (matrix.total_bps / len(matrix.pairs))
    capacity = np.array([link.capacity_bps for link in matrix.network.links])
    capacity = capacity / capacity.max()
    own = rates[paths.pair_of_path]
    loads = csr_array((paths.on_links() * own[:, None]).T)
    at_most = hstack([loads, csr_array(-capacity[:, None])], format="csr")
    ones = np.ones(count)
    one = csr_array((ones, (paths.pair_of_path, np.arange(count))), shape=(len(paths.paths), count + 1))
    cost = np.zeros(count + 1)
    cost[-1] = 1.0
    upper = np.concatenate([ones, [np.inf]])
    try:
        x, _ = solve_lp(cost, (one, np.ones(len(paths.paths))), upper, (at_most, np.zeros(len(capacity))))
    except UnsolvedError as error:
        raise InputError(
            f"network {matrix.network.name!r}: no rates found for the paths of {method} ({error})"
        ) from None
    weights = np.maximum(x[:-1], 0.0)
    weights /= np.bincount(paths.pair_of_path, weights=weights)[paths.pair_of_path]
    return routed_by_paths(paths, method, weights)
