"""Measures the computing time of the labels of a capillary route, and the quality of their order.

    python benchmarks/bench_labels.py [--quick]

Three orders are compared with the lower bound: the usual one, that of the best multiplier, and the
best of all. There is one mobile network of each size, with all layers, M = 20 and a tolerance of
5 %. Times are seconds of the processor, without compilation.
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
# A route over four equal paths, for the compilation: the labels of three of its links.
QUARTERS = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(3))


def row(nodes: int) -> str:
    """Return the row of a network.

    It has links, paths, seconds for the labels and for their order, packets with each order, and
    the bound.
    """
    route = capillary_route(load_network(f"manet:nodes={nodes},seed=7"), "n0", f"n{nodes - 1}")
    start_s = process_time()
    split = spray(route)
    groups = interval_groups(split)
    split_end_s = process_time()
    best = best_layout(groups, M, TOLERANCE)
    order_end_s = process_time()

    layouts = [label_layout(groups, M, TOLERANCE, multiplier) for multiplier in CANDIDATES]
    best_multiplier = min(layouts, key=lambda layout: (layout.base, layout.packets))
    usual = label_layout(groups, M, TOLERANCE, WEYL_MULTIPLIER)
    links = sum(count for _, count in groups)
    bound = best.packets - best.over_bound
    return (
        f"{nodes:5d} {links:6d} {len(split.paths):6d} {split_end_s - start_s:8.2f} "
        f"{order_end_s - split_end_s:8.2f} "
        f"{usual.packets:8d} {best_multiplier.packets:10d} {best.packets:6d} {bound:6d}"
    )


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="networks of 40 and 60 nodes only")
    quick = parser.parse_args(arguments).quick
    best_layout(QUARTERS, 2 * M, TOLERANCE)
    print("packets that the failures of all links ask for, each once, beyond N at rest")
    print("nodes  links  paths  split s  order s    usual multiplier   best  bound")
    for nodes in SIZES[:2] if quick else SIZES:
        print(row(nodes), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
