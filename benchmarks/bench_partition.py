"""Measures how well and how fast a network is distributed over machines.

python benchmarks/bench_partition.py
"""

from __future__ import annotations

import sys
import time

from testbed.machines.partition import partition
from testbed.model.wiring import wire
from topologies import load_network

# Networks, and numbers of machines.
CASES = (
    ("swiss-t1", (2, 4)),
    ("torus:16x16", (2, 4)),
    ("clos:8", (2, 4)),
    ("manet:nodes=115,seed=3", (2, 4)),
    ("torus:100x100", (4,)),
    ("manet:nodes=10000,seed=3", (4, 16)),
)


def main() -> int:
    """Print a row for each network and number of machines."""
    print(f"{'':26} {'machines':>8} {'crossing cables':>16} {'fullest / its share':>20} {'s':>7}")
    for name, counts in CASES:
        network = load_network(name)
        wiring = wire(network)
        for machines in counts:
            began = time.perf_counter()
            parts = partition(network, [1] * machines)
            took_s = time.perf_counter() - began
            machine_of = parts.device_machines(wiring)
            # Number of ends of cables on each machine.
            loads = [0] * machines
            for cable in wiring.cables:
                loads[machine_of[cable.a]] += 1
                loads[machine_of[cable.b]] += 1
            fullest = max(loads) * machines / sum(loads)
            crossing = f"{len(parts.crossing(wiring))} of {len(wiring.cables)}"
            print(
                f"{name:26} {machines:8} {crossing:>16} {fullest:20.3f} {took_s:7.2f}", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
