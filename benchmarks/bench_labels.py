"""Measures how long the labels of a capillary route take, and how close to the bound they are.

    python benchmarks/bench_labels.py [--quick]

The orders are the usual one, the one with the best multiplier, and the best of all orders. There is
one mobile network of each size, with all layers, M = 20 and a tolerance of 5 %. Seconds are
processor time. Code is compiled first, or read from its cache.
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
M = 20
TOLERANCE = 0.05
# Three groups of a quarter of the labels each.
QUARTERS = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(3))


def row(nodes: int) -> str:
    """Return the row of a network with this number of nodes.

    It has the number of links and of paths, the seconds for the split and for its order, and the
    number of packets by each choice of orders, and by the bound.
    """
    route = capillary_route(load_network(f"manet:nodes={nodes},seed=7"), "n0", f"n{nodes - 1}")
    began = process_time()
    split = spray(route)
    groups = interval_groups(split)
    sprayed = process_time()
    best = best_layout(groups, M, TOLERANCE)
    ordered = process_time()
    layouts = [label_layout(groups, M, TOLERANCE, candidate) for candidate in CANDIDATES]
    multiplier = min(layouts, key=lambda layout: (layout.base, layout.packets))
    usual = label_layout(groups, M, TOLERANCE, WEYL_MULTIPLIER)
    links = sum(count for _, count in groups)
    return (
        f"{nodes:5d} {links:6d} {len(split.paths):6d} "
        f"{sprayed - began:8.2f} {ordered - sprayed:8.2f} "
        f"{usual.packets:8d} {multiplier.packets:10d} {best.packets:6d} "
        f"{best.packets - best.over_bound:6d}"
    )


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="networks of 40 and 60 nodes only")
    quick = parser.parse_args(arguments).quick
    sizes = SIZES[:2] if quick else SIZES
    # The first call compiles.
    best_layout(QUARTERS, 2 * M, TOLERANCE)
    print("packets that the failures of all links ask for, each once, beyond N at rest")
    print("nodes  links  paths  split s  order s    usual multiplier   best  bound")
    for nodes in sizes:
        print(row(nodes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
