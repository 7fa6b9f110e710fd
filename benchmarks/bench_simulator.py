"""How many packet-hops a second the engines simulate; with ``--before DIR`` those of another checkout beside them, in one run.

Uniform traffic on an 8x8 and a 32x32 torus: plain, with NAC, with FT-DRB and NAC, at the document's load and at 0.8 of a link.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from testbed.interconnect.injection import InjectionProcess, build_injections
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.patterns import build_pattern
from testbed.interconnect.simulation import simulate
from topologies import load_network

BOOKSIM = SimulationParameters(deadlock="virtual-channels")
THESIS = SimulationParameters(model="thesis")
SMALL = replace(THESIS, packet_bytes=512, buffer_bytes=8192)
CASES = (
    ("reference, booksim hops, 2 VCs", "reference", "torus:8x8", BOOKSIM, 12_207.0, 0.01),
    ("booksim hops, 2 VCs", "compiled", "torus:8x8", BOOKSIM, 12_207.0, 1.0),
    ("thesis hops", "compiled", "torus:8x8", THESIS, 12_207.0, 0.5),
    ("thesis hops, NAC at 0.8", "compiled", "torus:8x8", replace(THESIS, deadlock="nac"), 97_656.0, 0.03),
    ("32x32, 400/s, 1 s", "compiled", "torus:32x32", SMALL, 400.0, 1.0),
    ("32x32, NAC at 0.8", "compiled", "torus:32x32", replace(THESIS, deadlock="nac"), 97_656.0, 0.0015),
    ("32x32, FT-DRB and NAC, 400/s, 0.2 s", "compiled", "torus:32x32", replace(SMALL, routing="ft-drb", deadlock="nac"), 400.0, 0.2),
    ("32x32, FT-DRB and NAC at 0.8", "compiled", "torus:32x32", replace(THESIS, routing="ft-drb", deadlock="nac"), 97_656.0, 0.0008),
)  # fmt: skip
ROUNDS = 3


def measured() -> Iterator[tuple[str, int, float]]:
    """Name, packet-hops and seconds of this process (median of three) of each case, as it ends."""
    for name, engine, network_name, parameters, rate, duration in CASES:
        model = build_model(load_network(network_name), parameters)
        shape = model.network.attributes.get("shape")
        pattern = build_pattern("uniform", model.layout.hosts, shape=shape, to_itself=parameters.hop.to_itself)
        process = InjectionProcess(rate_per_s=rate)
        simulate(model, build_injections(pattern, process, duration_s=0.0002, seed=1), parameters, engine=engine)
        injections = build_injections(pattern, process, duration_s=duration, seed=1)
        times = []
        for _ in range(ROUNDS):
            began = time.process_time()
            run = simulate(model, injections, parameters, engine=engine)
            times.append(time.process_time() - began)
        yield name, run.packet_hops, statistics.median(times)


def measured_in(directory: Path) -> dict[str, float]:
    """Packet-hops a second of each case, by the engines of another checkout."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--json"],
        cwd=directory, env={**os.environ, "PYTHONPATH": str(directory.resolve())}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    rows: dict[str, float] = json.loads(done.stdout)
    return rows


def main() -> None:
    """Prints a table: packet-hops, seconds of this process, hops a second, over the reference, and over those before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout, measured first")
    parser.add_argument("--json", action="store_true", help="hops a second by case, as JSON")
    args = parser.parse_args()
    if args.json:
        print(json.dumps({name: hops / seconds for name, hops, seconds in measured()}))
        return
    before = measured_in(args.before) if args.before else {}
    columns = ("run", "hops", "seconds", "M hops/s", "x reference", "M before", "x before")
    print("{:38} {:>10} {:>8} {:>9} {:>12} {:>9} {:>9}".format(*columns))
    base = 0.0
    for name, hops, seconds in measured():
        speed = hops / seconds
        base = base or speed
        line = f"{name:38} {hops:>10} {seconds:>8.2f} {speed / 1e6:>9.2f} {speed / base:>12.1f}"
        if name in before:
            line += f" {before[name] / 1e6:>9.2f} {speed / before[name]:>9.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
