"""Measures how many packet-hops per second the router simulator simulates.

    python benchmarks/bench_simulator.py [--before DIR]

With ``--before``, another checkout is measured in the same run. Traffic is uniform on an 8x8 and a
32x32 torus: plain, with NAC, and with FT-DRB and NAC, at the load of the document and at 0.8 of a
link.
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
NAC = replace(THESIS, deadlock="nac")
FT_DRB = replace(THESIS, routing="ft-drb", deadlock="nac")
SMALL_FT_DRB = replace(SMALL, routing="ft-drb", deadlock="nac")

# Name, network, parameters, packets per second and node, and simulated seconds.
CASES = (
    ("booksim hops, 2 VCs", "torus:8x8", BOOKSIM, 12_207.0, 1.0),
    ("thesis hops", "torus:8x8", THESIS, 12_207.0, 0.5),
    ("thesis hops, NAC at 0.8", "torus:8x8", NAC, 97_656.0, 0.03),
    ("32x32, 400/s, 1 s", "torus:32x32", SMALL, 400.0, 1.0),
    ("32x32, NAC at 0.8", "torus:32x32", NAC, 97_656.0, 0.0015),
    ("32x32, FT-DRB and NAC, 400/s, 0.2 s", "torus:32x32", SMALL_FT_DRB, 400.0, 0.2),
    ("32x32, FT-DRB and NAC at 0.8", "torus:32x32", FT_DRB, 97_656.0, 0.0008),
)
ROUNDS = 3


def measured(rounds: int) -> Iterator[tuple[str, int, float]]:
    """Yield the results of the cases, each when it has ended.

    Args:
        rounds: Number of runs of each case.

    Yields:
        The name, the number of packet-hops, and the processor time in seconds (median of the
        rounds).
    """
    for name, network_name, parameters, rate, duration in CASES:
        network = load_network(network_name)
        model = build_model(network, parameters)
        shape = network.attributes.get("shape")
        pattern = build_pattern(
            "uniform", len(network.hosts), shape=shape, to_itself=parameters.hop.to_itself
        )
        process = InjectionProcess(rate_per_s=rate)
        # A short run first: the code may have to be compiled.
        simulate(model, build_injections(pattern, process, duration_s=0.0002, seed=1), parameters)
        injections = build_injections(pattern, process, duration_s=duration, seed=1)
        times = []
        for _ in range(rounds):
            began = time.process_time()
            run = simulate(model, injections, parameters)
            times.append(time.process_time() - began)
        yield name, run.packet_hops, statistics.median(times)


def measured_in(directory: Path) -> dict[str, float]:
    """Run each case once with the packages of a checkout.

    Returns:
        Millions of packet-hops per second, by case.
    """
    completed = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--json"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory.resolve())},
        stdout=subprocess.PIPE,
        check=True,
    )
    rows: dict[str, float] = json.loads(completed.stdout)
    return rows


def compare(before: Path) -> None:
    """Print a table of both checkouts.

    It has the medians of the millions of packet-hops per second, and the median of the ratios of
    consecutive runs.
    """
    rows_before = []
    rows_now = []
    for _ in range(ROUNDS):
        rows_before.append(measured_in(before))
        rows_now.append(measured_in(Path.cwd()))
    print(
        "{:38} {:>10} {:>10} {:>10} {:>16}".format(
            "run", "M before", "M now", "x before", "least to most"
        )
    )
    for name in rows_before[0]:
        speeds_before = [row[name] for row in rows_before]
        speeds_now = [row[name] for row in rows_now]
        ratios = [now / then for then, now in zip(speeds_before, speeds_now, strict=True)]
        print(
            f"{name:38} {statistics.median(speeds_before):>10.2f} "
            f"{statistics.median(speeds_now):>10.2f} {statistics.median(ratios):>10.2f} "
            f"{min(ratios):>7.2f} to {max(ratios):.2f}"
        )


def main() -> None:
    """Print a table: packet-hops, processor time, hops per second, and the ratio to the first row.

    With ``--before``, print the table of ``compare``.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="another checkout, run in turn with this one"
    )
    parser.add_argument(
        "--json", action="store_true", help="run each case once; print M hops per second as JSON"
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
