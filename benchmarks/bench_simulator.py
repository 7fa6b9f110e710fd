"""Measures how many packet-hops per second the router simulator computes.

With ``--before DIR``, another checkout is measured too, in the same run. The traffic is uniform, on
a torus of 8x8 and of 32x32: without additions, with NAC, and with FT-DRB and NAC. The load is that
of the document, or 0.8 of a link.
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
from typing import NamedTuple

from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import InjectionProcess, build_injections, build_pattern
from topologies import load_network


class Case(NamedTuple):
    """A simulated run.

    Attributes:
        name: Its name in the table.
        network: Name of the network.
        parameters: Parameters of the simulation.
        rate_per_s: Packets of each host per second.
        duration_s: Duration of the injection, in simulated seconds.
    """

    name: str
    network: str
    parameters: SimulationParameters
    rate_per_s: float
    duration_s: float


BOOKSIM = SimulationParameters(deadlock="virtual-channels")
THESIS = SimulationParameters(model="thesis")
SMALL_PACKETS = replace(THESIS, packet_bytes=512, buffer_bytes=8192)
NAC = replace(THESIS, deadlock="nac")
FT_DRB = replace(THESIS, routing="ft-drb", deadlock="nac")
FT_DRB_SMALL_PACKETS = replace(SMALL_PACKETS, routing="ft-drb", deadlock="nac")
CASES = (
    Case("booksim hops, 2 VCs", "torus:8x8", BOOKSIM, 12_207.0, 1.0),
    Case("thesis hops", "torus:8x8", THESIS, 12_207.0, 0.5),
    Case("thesis hops, NAC at 0.8", "torus:8x8", NAC, 97_656.0, 0.03),
    Case("32x32, 400/s, 1 s", "torus:32x32", SMALL_PACKETS, 400.0, 1.0),
    Case("32x32, NAC at 0.8", "torus:32x32", NAC, 97_656.0, 0.0015),
    Case("32x32, FT-DRB and NAC, 400/s, 0.2 s", "torus:32x32", FT_DRB_SMALL_PACKETS, 400.0, 0.2),
    Case("32x32, FT-DRB and NAC at 0.8", "torus:32x32", FT_DRB, 97_656.0, 0.0008),
)
ROUNDS = 3
# Duration of a first run, which compiles.
WARM_UP_S = 0.0002


class Measurement(NamedTuple):
    """The packet-hops of a case, and the median processor time in seconds."""

    name: str
    packet_hops: int
    seconds: float


def measure_cases(rounds: int) -> Iterator[Measurement]:
    """Measure each case a number of times, and yield its measurement."""
    for case in CASES:
        network = load_network(case.network)
        model = build_model(network, case.parameters)
        pattern = build_pattern(
            "uniform",
            len(network.hosts),
            shape=network.attributes.get("shape"),
            to_itself=case.parameters.hop.to_itself,
        )
        process = InjectionProcess(rate_per_s=case.rate_per_s)
        warm_up = build_injections(pattern, process, duration_s=WARM_UP_S, seed=1)
        simulate(model, warm_up, case.parameters)
        injections = build_injections(pattern, process, duration_s=case.duration_s, seed=1)
        times_s = []
        packet_hops = 0
        for _ in range(rounds):
            start_s = time.process_time()
            run = simulate(model, injections, case.parameters)
            times_s.append(time.process_time() - start_s)
            packet_hops = run.packet_hops
        yield Measurement(case.name, packet_hops, statistics.median(times_s))


def speeds_of_checkout(directory: Path) -> dict[str, float]:
    """Measure each case once with a checkout, and return millions of packet-hops per second."""
    process = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--json"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(directory.resolve())},
        stdout=subprocess.PIPE,
        check=True,
    )
    speeds: dict[str, float] = json.loads(process.stdout)
    return speeds


def compare(before: Path) -> None:
    """Print the speeds of another checkout and of this one.

    The speeds are medians. The ratios are of two runs that followed each other.
    """
    speeds_before = []
    speeds_now = []
    for _ in range(ROUNDS):
        speeds_before.append(speeds_of_checkout(before))
        speeds_now.append(speeds_of_checkout(Path.cwd()))
    print(f"{'run':38} {'M before':>10} {'M now':>10} {'x before':>10} {'least to most':>16}")
    for case in CASES:
        before_values = [speeds[case.name] for speeds in speeds_before]
        now_values = [speeds[case.name] for speeds in speeds_now]
        ratios = []
        for now, earlier in zip(now_values, before_values, strict=True):
            ratios.append(now / earlier)
        print(
            f"{case.name:38} {statistics.median(before_values):>10.2f} "
            f"{statistics.median(now_values):>10.2f} {statistics.median(ratios):>10.2f} "
            f"{min(ratios):>7.2f} to {max(ratios):.2f}"
        )


def print_table() -> None:
    """Print packet-hops, seconds of this process, and speeds, also relative to the first case."""
    print(f"{'run':38} {'hops':>10} {'seconds':>8} {'M hops/s':>9} {'x reference':>12}")
    reference = None
    for measurement in measure_cases(ROUNDS):
        speed = measurement.packet_hops / measurement.seconds
        if reference is None:
            reference = speed
        print(
            f"{measurement.name:38} {measurement.packet_hops:>10} {measurement.seconds:>8.2f} "
            f"{speed / 1e6:>9.2f} {speed / reference:>12.1f}",
            flush=True,
        )


def main() -> None:
    """Print a table, the comparison with another checkout, or the speeds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="another checkout, run in turn with this one"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print millions of packet-hops per second of each case as JSON, after one run each",
    )
    arguments = parser.parse_args()
    if arguments.json:
        speeds = {}
        for measurement in measure_cases(1):
            speeds[measurement.name] = measurement.packet_hops / measurement.seconds / 1e6
        print(json.dumps(speeds))
    elif arguments.before:
        compare(arguments.before)
    else:
        print_table()


if __name__ == "__main__":
    main()
