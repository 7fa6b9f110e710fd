"""How well and how fast a network is cut over machines.

python benchmarks/bench_partition.py
"""

from __future__ import annotations

import sys
import time

from testbed.machines.partition import partition
from testbed.model.wiring import wire
from topologies import load_network

CASES = (
    ("swiss-t1", (2, 4)),
    ("torus:16x16", (2, 4)),
    ("clos:8", (2, 4)),
    ("manet:nodes=115,seed=3", (2, 4)),
    ("torus:100x100", (4,)),
    ("manet:nodes=10000,seed=3", (4, 16)),
)


def main() -> int:
    print(f"{'':26} {'machines':>8} {'crossing cables':>16} {'fullest / its share':>20} {'s':>7}")
    for name, counts in CASES:
        network = load_network(name)
        wiring = wire(network)
        for machines in counts:
            began = time.perf_counter()
            found = partition(network, [1] * machines)
            took_s = time.perf_counter() - began
            where, loads = found.device_machines(wiring), [0] * machines
            for end in (end for cable in wiring.cables for end in (cable.a, cable.b)):
                loads[where[end]] += 1
            fullest = max(loads) * machines / sum(loads)
            crossing = f"{len(found.crossing(wiring))} of {len(wiring.cables)}"
            print(
                f"{name:26} {machines:8} {crossing:>16} {fullest:20.3f} {took_s:7.2f}", flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
