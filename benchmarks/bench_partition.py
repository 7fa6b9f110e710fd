"""Measures how evenly and how fast networks are divided among machines.

python benchmarks/bench_partition.py
"""

from __future__ import annotations

import sys
import time

from testbed.machines.partition import partition
from testbed.model.wiring import wire
from topologies import load_network

# Networks, and the numbers of machines.
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
    for network_name, machine_counts in CASES:
        for machines in machine_counts:
            print(row(network_name, machines), flush=True)
    return 0


def row(network_name: str, machines: int) -> str:
    """Divide a network, and return its row of the table.

    The load of a machine is the number of cable ends at its devices.
    """
    network = load_network(network_name)
    wiring = wire(network)
    start_s = time.perf_counter()
    result = partition(network, [1] * machines)
    duration_s = time.perf_counter() - start_s
    machine_of_device = result.device_machines(wiring)
    loads = [0] * machines
    for cable in wiring.cables:
        loads[machine_of_device[cable.a]] += 1
        loads[machine_of_device[cable.b]] += 1
    fullest = max(loads) * machines / sum(loads)
    crossing = f"{len(result.crossing(wiring))} of {len(wiring.cables)}"
    return f"{network_name:26} {machines:8} {crossing:>16} {fullest:20.3f} {duration_s:7.2f}"


if __name__ == "__main__":
    sys.exit(main())
