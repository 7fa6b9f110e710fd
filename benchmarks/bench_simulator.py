"""How many packet-hops a second the engine simulates; with ``--before DIR`` those of another checkout next to them, in
one run.

Uniform traffic on an 8x8 and a 32x32 torus: plain, with NAC, with FT-DRB and NAC, at the document's load and at 0.8 of
a link.
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

from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import InjectionProcess, build_injections, build_pattern
from topologies import load_network

BOOKSIM = SimulationParameters(deadlock="virtual-channels")
THESIS = SimulationParameters(model="thesis")
SMALL = replace(THESIS, packet_bytes=512, buffer_bytes=8192)
CASES = (
    ("booksim hops, 2 VCs", "torus:8x8", BOOKSIM, 12_207.0, 1.0),
    ("thesis hops", "torus:8x8", THESIS, 12_207.0, 0.5),
    ("thesis hops, NAC at 0.8", "torus:8x8", replace(THESIS, deadlock="nac"), 97_656.0, 0.03),
    ("32x32, 400/s, 1 s", "torus:32x32", SMALL, 400.0, 1.0),
    ("32x32, NAC at 0.8", "torus:32x32", replace(THESIS, deadlock="nac"), 97_656.0, 0.0015),
    ("32x32, FT-DRB and NAC, 400/s, 0.2 "
    "s", "torus:32x32", replace(SMALL, routing="ft-drb", deadlock="nac"), 400.0, 0.2),
    ("32x32, FT-DRB and NAC at 0.8", "torus:32x32",
     replace(THESIS, routing="ft-drb", deadlock="nac"), 97_656.0, 0.0008),
)  # fmt: skip
ROUNDS = 3


def measured(rounds: int) -> Iterator[tuple[str, int, float]]:
    """Name, packet-hops and seconds of this process (median of the rounds) of each case, as it ends."""
    for name, network_name, parameters, rate, duration in CASES:
        network = load_network(network_name)
        model = build_model(network, parameters)
        shape = network.attributes.get("shape")
        pattern = build_pattern(
            "uniform", len(network.hosts), shape=shape, to_itself=parameters.hop.to_itself
        )
        process = InjectionProcess(rate_per_s=rate)
        simulate(model, build_injections(pattern, process, duration_s=0.0002, seed=1), parameters)
        injections = build_injections(pattern, process, duration_s=duration, seed=1)
        times = []
        for _ in range(rounds):
            began = time.process_time()
            run = simulate(model, injections, parameters)
            times.append(time.process_time() - began)
        yield name, run.packet_hops, statistics.median(times)


def measured_in(directory: Path) -> dict[str, float]:
    """M packet-hops a second of each case, once, by the engine of a checkout."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--json"],
        cwd=directory, env={**os.environ, "PYTHONPATH": str(directory.resolve())}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    rows: dict[str, float] = json.loads(done.stdout)
    return rows


def compare(before: Path) -> None:
    """Prints a table: M hops a second before and now (medians), and the median of the ratios of runs that followed each
    other."""
    pairs = [(measured_in(before), measured_in(Path.cwd())) for _ in range(ROUNDS)]
    print(
        "{:38} {:>10} {:>10} {:>10} {:>16}".format(
            "run", "M before", "M now", "x before", "least to most"
        )
    )
    for name in pairs[0][0]:
        ratios = sorted(now[name] / then[name] for then, now in pairs)
        medians = [
            statistics.median(side[name] for side in sides) for sides in zip(*pairs, strict=True)
        ]
        line = (
            f"{name:38} {medians[0]:>10.2f} {medians[1]:>10.2f} {statistics.median(ratios):>10.2f}"
        )
        print(f"{line} {ratios[0]:>7.2f} to {ratios[-1]:.2f}")


def main() -> None:
    """Prints a table: packet-hops, seconds of this process, hops a second, over the reference; or ``compare``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="another checkout, run in turn with this one"
    )
    parser.add_argument(
        "--json", action="store_true", help="M hops a second by case, each run once, as JSON"
    )
    args = parser.parse_args()
    if args.json:
        print(json.dumps({name: hops / seconds / 1e6 for name, hops, seconds in measured(1)}))
        return
    if args.before:
        compare(args.before)
        return
    print(
        "{:38} {:>10} {:>8} {:>9} {:>12}".format(
            "run", "hops", "seconds", "M hops/s", "x reference"
        )
    )
    base = 0.0
    for name, hops, seconds in measured(ROUNDS):
        speed = hops / seconds
        base = base or speed
        print(
            f"{name:38} {hops:>10} {seconds:>8.2f} {speed / 1e6:>9.2f} {speed / base:>12.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
