"""Set-up time and memory of one network over several machines: python benchmarks/scale_over_machines.py --switches 250 --machines 2

Machines are namespaces of this one and share its processors; memory is that of each machine's processes, shared pages divided (PSS).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from testbed.emulation.sandbox.sandbox import run_in_sandbox
from testbed.machines.adapters.cluster import machines_up
from testbed.machines.adapters.spread import placed, spread_network
from testbed.machines.asked import MachinesRequest
from testbed.model.wiring import wire
from topologies import load_network


def held_mb() -> dict[str, float]:
    """Process namespace -> megabytes of its processes; those of the coordinator's own among them."""
    found: dict[str, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            space = str((entry / "ns" / "pid").readlink())
            pss = next(line for line in (entry / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
        found[space] = found.get(space, 0.0) + int(pss.split()[1]) / 1024
    return found


def measure(switches: int, machines: int) -> dict[str, object]:
    """Inside a sandbox only."""
    began = time.monotonic()
    with machines_up(MachinesRequest(count=machines)) as up:
        up_s, before = time.monotonic() - began, held_mb()
        network = load_network(f"manet:seed=3,nodes={switches}")
        wiring = wire(network, [node.id for node in network.switches])
        placement = placed(up, wiring, MachinesRequest(count=machines))
        began = time.monotonic()
        with spread_network(up, wiring, placement):
            setup_s, after = time.monotonic() - began, held_mb()
    own = str(Path("/proc/self/ns/pid").readlink())
    return {
        "switches": switches,
        "cables": len(wiring.cables),
        "machines": machines,
        "crossing": len(placement.crossing(wiring)),
        "machines_up_s": round(up_s, 2),
        "setup_s": round(setup_s, 2),
        "mb_of_each": sorted(round(mb) for space, mb in after.items() if space != own),
        "mb_before_of_each": sorted(round(mb) for space, mb in before.items() if space != own),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=250)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(measure(args.switches, args.machines)))
        return 0
    words = [sys.executable, __file__, "--inside", f"--switches={args.switches}", f"--machines={args.machines}"]
    done = run_in_sandbox(words, timeout_s=300)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
