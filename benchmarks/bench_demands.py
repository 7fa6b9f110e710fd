"""Measures how long it takes to route all pairs of a network.

    python benchmarks/bench_demands.py [--quick]

One run compares the float recursion over all pairs, which computes half of them as mirror images,
with single routes on a sample. It also compares the multicommodity optimum, which has one commodity
per source, with HiGHS on the formulation of the textbooks, which has one per pair. Seconds are
processor time, on which other load of the machine has little influence.
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

# Largest number of pairs for the formulation of the textbooks, which has pairs * links variables.
PEER_PAIRS = 700

# Number of pairs that are routed one by one.
SAMPLE = 200


def plain_optimum(matrix: DemandMatrix) -> float:
    """Return the minimum of the largest utilisation, with one commodity per pair."""
    graph = LinkGraph(matrix.network)
    pairs = len(matrix.pairs)
    links = len(graph.tail)
    balance = kron(eye_array(pairs), balance_matrix(graph.nodes, graph.tail, graph.head))
    wanted = np.zeros((pairs, graph.nodes))
    unit = matrix.total_bps / pairs
    for row, pair, rate in zip(wanted, matrix.pairs, matrix.rates_bps, strict=True):
        row[graph.positions(pair)] = rate / unit, -rate / unit
    loads = kron(np.ones((1, pairs)), eye_array(links))
    cost = np.zeros(pairs * links + 1)
    cost[-1] = 1.0
    result = linprog(
        cost,
        A_ub=hstack([loads, csr_array(-graph.capacity[:, None] / unit)], format="csr"),
        b_ub=np.zeros(links),
        A_eq=hstack([balance, csr_array((pairs * graph.nodes, 1))], format="csr"),
        b_eq=wanted.ravel(),
        method="highs",
    )
    return float(result.fun)


def main() -> int:
    """Print a line for each figure, and return 1 if the two optima differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the first network only")
    quick = parser.parse_args().quick
    networks = NETWORKS[:1] if quick else NETWORKS
    agree = True
    for name in networks:
        network = load_network(name)
        matrix = gravity_matrix(network, [node.id for node in network.switches])
        print(
            f"{name}: {len(network.switches)} switches, {len(network.links)} links, "
            f"{len(matrix.pairs)} pairs"
        )
        router = FloatRouter(network)
        # The first call compiles.
        router.loads(*matrix.pairs[0])
        began = process_time()
        route_demands(matrix, "capillary")
        all_s = process_time() - began
        step = max(1, len(matrix.pairs) // SAMPLE)
        began = process_time()
        for pair in matrix.pairs[::step]:
            router.loads(*pair)
        pair_s = (process_time() - began) / len(matrix.pairs[::step])
        print(
            f"  capillary, all pairs: {all_s:.2f} s; one by one {pair_s * 1e3:.2f} ms a pair, "
            f"{pair_s * len(matrix.pairs):.2f} s"
        )
        began = process_time()
        best = route_demands(matrix, "optimum").greatest_utilisation
        optimum_s = process_time() - began
        line = f"  optimum, a commodity a source: {optimum_s:.2f} s (MLU {best:.6g})"
        if len(matrix.pairs) <= PEER_PAIRS:
            began = process_time()
            peer = plain_optimum(matrix)
            line += f"; a commodity a pair: {process_time() - began:.2f} s (MLU {peer:.6g})"
            agree = agree and abs(peer - best) < 1e-5 * best
        print(line)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
