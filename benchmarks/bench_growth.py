"""Measures how time and memory of every command grow, and which size would fill 24 GB.

    python benchmarks/bench_growth.py [--quick] [COMMAND ...]

Each command runs with three sizes. Every run is a process, which is stopped after LIMIT_S of
processor time. The results are written into ``benchmarks/growth.json``, from which the site makes
the page docs/measurements/growth.md. If commands are named, only their rows are measured again.
``--quick`` runs the smallest sizes, and writes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("growth.json")
LIMIT_S = 60
# Exit code of a run that was stopped.
STOPPED = -24
# Memory of the machine for which the largest size is extrapolated.
MEMORY_MB = 24_000
# A figure grows if it increases by at least this factor from one size to the next.
MIN_TIME_GROWTH = 1.3
MIN_MEMORY_GROWTH = 1.5


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A command that is measured.

    Attributes:
        words: The command line, in which ``{n}`` is the size.
        sizes: Three sizes.
        unit: Unit of the size in tables.
        counts: The sizes in this unit.
        beyond: What to use for sizes that are too large for the machine.
    """

    words: str
    sizes: tuple[int, int, int]
    unit: str
    counts: tuple[int, int, int]
    beyond: str


# The commands by name. Commands that run a program or a run on real switches
# (docs/measurements/scale.md), or read stored results, are left out.
CASES = {
    "topology": Growth(
        words="topology show manet:nodes={n},seed=3 --json",
        sizes=(500, 1000, 2000),
        unit="switches",
        counts=(500, 1000, 2000),
        beyond="parts of it",
    ),
    "route": Growth(
        words="route torus:{n}x{n} --from s0_0 --to s2_3 --json",
        sizes=(16, 32, 64),
        unit="switches",
        counts=(256, 1024, 4096),
        beyond="the library's float recursion (`FloatRouter`)",
    ),
    "ror": Growth(
        words="ror torus:{n}x{n} --from s0_0 --to s2_3 --json",
        sizes=(6, 8, 12),
        unit="switches",
        counts=(36, 64, 144),
        beyond="`--label-order random`",
    ),
    "demands": Growth(
        words="demands manet:nodes={n},seed=3 --routing optimum --label-order random --json",
        sizes=(25, 50, 100),
        unit="switches",
        counts=(25, 50, 100),
        beyond="the library (`optimal_demands`): the optimum alone",
    ),
    "campaign": Growth(
        words="campaign {file} --workers 1",
        sizes=(4, 8, 16),
        unit="networks",
        counts=(4, 8, 16),
        beyond="more workers, Dask on several machines (`--dask`)",
    ),
    "schedule": Growth(
        words="schedule clos:{n}",
        sizes=(8, 12, 16),
        unit="transfers",
        counts=(16_384, 186_624, 1_048_576),
        beyond="parts of the pattern (`--pattern FILE`)",
    ),
    "bulk": Growth(
        words="bulk torus:{n}x{n} --fabric simulator --message-size 20kB --no-comparison",
        sizes=(4, 6, 8),
        unit="messages",
        counts=(256, 1296, 4096),
        beyond="several machines (`--machines`)",
    ),
    "wavelengths": Growth(
        words="wavelengths ring:{n} --wavelengths 8 --json",
        sizes=(16, 32, 64),
        unit="lightpaths",
        counts=(240, 992, 4032),
        beyond="fewer pairs (`--pattern`)",
    ),
    "stream": Growth(
        words="stream torus:{n}x{n} --from s0_0 --to s2_3 --fabric simulator --faults none "
        "--duration 5",
        sizes=(6, 8, 12),
        unit="switches",
        counts=(36, 64, 144),
        beyond="several machines (`--machines`)",
    ),
    "mobility": Growth(
        words="mobility manet:nodes={n},degree=9 --from n0 --to n7 --fabric simulator --frames 3",
        sizes=(30, 60, 120),
        unit="switches",
        counts=(30, 60, 120),
        beyond="fewer frames a run",
    ),
    "download": Growth(
        words="download swiss-t1 --from s1 --to s6 --fabric simulator --file-size {n}MB",
        sizes=(8, 32, 128),
        unit="MB",
        counts=(8, 32, 128),
        beyond="the file in parts",
    ),
    "simulate": Growth(
        words="simulate torus:{n}x{n} --load 0.3 --duration 0.002 --json",
        sizes=(16, 32, 64),
        unit="routers",
        counts=(256, 1024, 4096),
        beyond="shorter runs, seeds side by side",
    ),
    "sfio": Growth(
        words="sfio crossbar:32 --compute-nodes 8 --io-nodes 8 --fabric simulator "
        "--file-size {n}MB",
        sizes=(16, 64, 256),
        unit="MB",
        counts=(16, 64, 256),
        beyond="several runs",
    ),
}
CAMPAIGN = """name = "growth"
networks = ["manet:nodes=40,seed={{seed}}"]
seeds = [{seeds}]
methods = ["capillary"]
tolerances = [0.05]
"""


def measure(argv: Sequence[str]) -> dict[str, float | int]:
    """Run ``testbed`` with these arguments.

    Returns:
        Processor time in seconds, memory in megabytes, and the exit code; ``STOPPED`` if the run
        took LIMIT_S.
    """

    def limit_time() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))

    with tempfile.TemporaryDirectory() as folder, Path(folder, "error").open("w+") as error:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.cli", *argv],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=error,
            preexec_fn=limit_time,
            env={**os.environ, "PYTHONPATH": str(STORED.parent.parent)},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1, 4, 5, STOPPED):
            raise SystemExit(
                f"testbed {' '.join(argv)}: exit code {process.returncode}\n"
                f"{Path(error.name).read_text()}"
            )
    return {
        "seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "mb": round(usage.ru_maxrss / 1024),
        "code": process.returncode,
    }


def arguments_of(case: Growth, size: int, folder: Path) -> list[str]:
    """Return the arguments of a command; the file of a campaign is written into the folder."""
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN.format(seeds=", ".join(map(str, range(size)))))
    return [word.format(n=size, file=file) for word in case.words.split()]


def exponent(counts: Sequence[int], figures: Sequence[float], min_growth: float) -> float | None:
    """Return the exponent of the growth from the last size but one to the last.

    Args:
        counts: The sizes.
        figures: The figure at each size.
        min_growth: The figure must grow by at least this factor. Otherwise the size does not matter
            yet, and the exponent is None.
    """
    previous, last = figures[-2:]
    if previous <= 0 or last < min_growth * previous:
        return None
    return math.log(last / previous) / math.log(counts[-1] / counts[-2])


def row_of(case: Growth, runs: Sequence[dict[str, Any]], idle: dict[str, Any]) -> dict[str, Any]:
    """Return the stored results of a command.

    The exponents are of time and memory beyond those of a command that does nothing. The size that
    fills MEMORY_MB, and its time, are extrapolated. Both are assumed to grow at least in proportion
    to the size if the size is large.

    Args:
        case: The command.
        runs: Results of its runs.
        idle: Results of the command that does nothing.
    """
    row: dict[str, Any] = {
        "words": case.words,
        "unit": case.unit,
        "beyond": case.beyond,
        "runs": list(runs),
    }
    completed = [run for run in runs if run["code"] >= 0]
    if len(completed) < 2:
        return row
    counts = [run["size"] for run in completed]
    times_s = [run["seconds"] - idle["seconds"] for run in completed]
    memory_mb = [run["mb"] - idle["mb"] for run in completed]
    time_exponent = exponent(counts, times_s, MIN_TIME_GROWTH)
    memory_exponent = exponent(counts, memory_mb, MIN_MEMORY_GROWTH)
    row["time_exponent"] = time_exponent
    row["memory_exponent"] = memory_exponent
    if memory_exponent is not None:
        memory_factor = (MEMORY_MB - idle["mb"]) / memory_mb[-1]
        size_factor = memory_factor ** (1 / max(memory_exponent, 1.0))
        row["fits"] = counts[-1] * size_factor
        row["fits_s"] = times_s[-1] * size_factor ** max(time_exponent or 1.0, 1.0)
    return row


def measure_case(name: str, sizes: int) -> list[dict[str, Any]]:
    """Run a command with its first sizes, print their rows, and return the results."""
    case = CASES[name]
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size, count in list(zip(case.sizes, case.counts, strict=True))[:sizes]:
            run = {"size": count, **measure(arguments_of(case, size, Path(folder)))}
            runs.append(run)
            print(f"{name:12} {count:>10} {run['seconds']:>12.2f} {run['mb']:>7.0f}", flush=True)
    return runs


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument(
        "commands",
        nargs="*",
        metavar="COMMAND",
        help=f"commands to measure, of {', '.join(CASES)} (default: all)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="run the smallest sizes, and store nothing"
    )
    arguments = parser.parse_args(argv)
    unknown = set(arguments.commands) - CASES.keys()
    if unknown:
        parser.error(f"no such command: {', '.join(sorted(unknown))}")
    stored: dict[str, Any] = {"commands": {}}
    if STORED.exists() and arguments.commands:
        stored = json.loads(STORED.read_text())
    idle = measure(["topology", "show", "two-switch", "--json"])
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    stored["machine"] = f"{os.cpu_count()} processors, {memory_gb} GB"
    stored["python"] = platform.python_version()
    stored["idle"] = idle
    print(f"{'command':12} {'size':>10} {'processor s':>12} {'MB':>7}")
    for name in arguments.commands or CASES:
        runs = measure_case(name, 1 if arguments.quick else 3)
        row = row_of(CASES[name], runs, idle)
        row["day"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        row["load"] = round(os.getloadavg()[2], 1)
        stored["commands"][name] = row
        if not arguments.quick:
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
