"""Measures the routing of all pairs of a network: capillary routes, and the multicommodity optimum.

    python benchmarks/bench_demands.py [--quick]

Two comparisons are made in one run. The float recursion over all pairs, half of which are mirror
images, is compared with the recursion for each pair of a sample. The optimum with one commodity per
source is compared with HiGHS on one commodity per pair, the plain formulation. Times are seconds of
the processor, so that other work on the machine has little influence.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron

from testbed.routing.capillary.kernel import FloatRouter
from testbed.routing.demands.matrix import DemandMatrix, gravity_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.flows.linear_programs import balance_matrix
from testbed.routing.flows.link_graph import LinkGraph
from topologies import load_network

NETWORKS = ("topohub:sndlib/nobel-germany", "topohub:sndlib/germany50", "manet:nodes=115,seed=3")
# The plain formulation has one variable per pair and link. Above this number of pairs it is left
# out.
PEER_PAIRS = 700
# Number of pairs that are routed one by one.
SAMPLE = 200


def plain_optimum(matrix: DemandMatrix) -> float:
    """Return the smallest possible utilisation of the most utilised link.

    It is computed by the linear programme of textbooks, which has one commodity per pair.
    """
    graph = LinkGraph(matrix.network)
    pairs = len(matrix.pairs)
    links = len(graph.tail)
    # The mean rate is the unit, so that the numbers of the programme are near 1.
    unit_bps = matrix.total_bps / pairs
    net_output = np.zeros((pairs, graph.nodes))
    for row, pair, rate_bps in zip(net_output, matrix.pairs, matrix.rates_bps, strict=True):
        row[graph.positions(pair)] = rate_bps / unit_bps, -rate_bps / unit_bps
    balance = kron(eye_array(pairs), balance_matrix(graph.nodes, graph.tail, graph.head))
    link_loads = kron(np.ones((1, pairs)), eye_array(links))
    capacity = csr_array(-graph.capacity[:, None] / unit_bps)
    # The last variable is the greatest utilisation.
    cost = np.zeros(pairs * links + 1)
    cost[-1] = 1.0
    solution = linprog(
        cost,
        A_ub=hstack([link_loads, capacity], format="csr"),
        b_ub=np.zeros(links),
        A_eq=hstack([balance, csr_array((pairs * graph.nodes, 1))], format="csr"),
        b_eq=net_output.ravel(),
        method="highs",
    )
    return float(solution.fun)


def measure_capillary(matrix: DemandMatrix) -> str:
    """Return the line about capillary routes."""
    router = FloatRouter(matrix.network)
    # The first call compiles.
    router.loads(*matrix.pairs[0])
    start_s = process_time()
    route_demands(matrix, "capillary")
    all_pairs_s = process_time() - start_s
    sample = matrix.pairs[:: max(1, len(matrix.pairs) // SAMPLE)]
    start_s = process_time()
    for pair in sample:
        router.loads(*pair)
    pair_s = (process_time() - start_s) / len(sample)
    return (
        f"  capillary, all pairs: {all_pairs_s:.2f} s; one by one {pair_s * 1e3:.2f} ms a pair, "
        f"{pair_s * len(matrix.pairs):.2f} s"
    )


def measure_optimum(matrix: DemandMatrix) -> tuple[str, bool]:
    """Return the line about the optimum, and whether both formulations agree."""
    start_s = process_time()
    optimum = route_demands(matrix, "optimum").greatest_utilisation
    duration_s = process_time() - start_s
    line = f"  optimum, a commodity a source: {duration_s:.2f} s (MLU {optimum:.6g})"
    if len(matrix.pairs) > PEER_PAIRS:
        return line, True
    start_s = process_time()
    plain = plain_optimum(matrix)
    duration_s = process_time() - start_s
    line += f"; a commodity a pair: {duration_s:.2f} s (MLU {plain:.6g})"
    return line, abs(plain - optimum) < 1e-5 * optimum


def main() -> int:
    """Print one line per figure, and return 1 if the two optima differ."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--quick", action="store_true", help="the first network only")
    quick = parser.parse_args().quick
    exit_code = 0
    for name in NETWORKS[:1] if quick else NETWORKS:
        network = load_network(name)
        matrix = gravity_matrix(network, [node.id for node in network.switches])
        print(
            f"{name}: {len(network.switches)} switches, {len(network.links)} links, "
            f"{len(matrix.pairs)} pairs"
        )
        print(measure_capillary(matrix))
        line, agree = measure_optimum(matrix)
        print(line)
        if not agree:
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
