"""How long the labels of a capillary route take, and how far their order is from the bound: the usual order, the best
multiplier, the best of all orders.

One mobile network of each size, all layers, M = 20, tolerance 5 %: ``python benchmarks/bench_labels.py [--quick]``.
Seconds of processor time; compiled code is made (or read from its cache) first.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

from fec.redundancy.label_layout import CANDIDATES, best_layout, label_layout
from fec.redundancy.labels import WEYL_MULTIPLIER
from testbed.routing import capillary_route
from testbed.routing.label_split.spraying import interval_groups, spray
from topologies import load_network

SIZES = (40, 60, 80, 100, 115)
M, TOLERANCE = 20, 0.05
QUARTERS = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(3))


def row(nodes: int) -> str:
    """Links, paths, seconds for the split and for its order, packets over the bound by each choice of orders."""
    route = capillary_route(load_network(f"manet:nodes={nodes},seed=7"), "n0", f"n{nodes - 1}")
    began = process_time()
    split = spray(route)
    groups = interval_groups(split)
    sprayed = process_time()
    best = best_layout(groups, M, TOLERANCE)
    ordered = process_time()
    multiplier = min(
        (label_layout(groups, M, TOLERANCE, one) for one in CANDIDATES),
        key=lambda one: (one.base, one.packets),
    )
    usual = label_layout(groups, M, TOLERANCE, WEYL_MULTIPLIER)
    return (
        f"{nodes:5d} {sum(count for _, count in groups):6d} {len(split.paths):6d} {sprayed - began:8.2f} "
        f"{ordered - sprayed:8.2f} "
        f"{usual.packets:8d} {multiplier.packets:10d} {best.packets:6d} {best.packets - best.over_bound:6d}"
    )


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="networks of 40 and 60 nodes only")
    sizes = SIZES[:2] if parser.parse_args(arguments).quick else SIZES
    best_layout(QUARTERS, 2 * M, TOLERANCE)  # compiles
    print("packets that the failures of all links ask for, each once, beyond N at rest")
    print("nodes  links  paths  split s  order s    usual multiplier   best  bound")
    for nodes in sizes:
        print(row(nodes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
