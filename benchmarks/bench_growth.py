"""Measures how time and memory of every command grow with the size of its task.

    python benchmarks/bench_growth.py [--quick] [COMMAND ...]

Each command runs at three sizes. From these follow the exponents of growth, and the size that would
fill a memory of 24 GB. Each run is a separate process, which is stopped after LIMIT_S of processor
time. Results are written to ``benchmarks/growth.json``, from which the page
docs/measurements/growth.md is made. If commands are named, only their rows are measured again.
``--quick`` runs the smallest sizes and writes nothing.
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

# Memory of the machine for which the largest size is extrapolated.
MEMORY_MB = 24_000


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The sizes at which a command runs.

    Attributes:
        words: The command line, in which ``{n}`` is replaced by a size.
        sizes: The sizes.
        unit: What the size is counted in.
        counts: Number of units at each size.
        beyond: What to use if the machine is too small.
    """

    words: str
    sizes: tuple[int, int, int]
    unit: str
    counts: tuple[int, int, int]
    beyond: str


def _counted(words: str, sizes: tuple[int, int, int], unit: str, beyond: str) -> Growth:
    """Return the sizes of a command in which ``{n}`` is the number of units."""
    return Growth(words=words, sizes=sizes, unit=unit, counts=sizes, beyond=beyond)


# The commands that are measured. The others run a program, or run on real switches
# (docs/measurements/scale.md), or only read stored results.
CASES = {
    "topology": _counted(
        "topology show manet:nodes={n},seed=3 --json",
        sizes=(500, 1000, 2000),
        unit="switches",
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
    "demands": _counted(
        "demands manet:nodes={n},seed=3 --routing optimum --label-order random --json",
        sizes=(25, 50, 100),
        unit="switches",
        beyond="the library (`optimal_demands`): the optimum alone",
    ),
    "campaign": _counted(
        "campaign {file} --workers 1",
        sizes=(4, 8, 16),
        unit="networks",
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
        words=(
            "stream torus:{n}x{n} --from s0_0 --to s2_3 --fabric simulator --faults none "
            "--duration 5"
        ),
        sizes=(6, 8, 12),
        unit="switches",
        counts=(36, 64, 144),
        beyond="several machines (`--machines`)",
    ),
    "mobility": _counted(
        "mobility manet:nodes={n},degree=9 --from n0 --to n7 --fabric simulator --frames 3",
        sizes=(30, 60, 120),
        unit="switches",
        beyond="fewer frames a run",
    ),
    "download": _counted(
        "download swiss-t1 --from s1 --to s6 --fabric simulator --file-size {n}MB",
        sizes=(8, 32, 128),
        unit="MB",
        beyond="the file in parts",
    ),
    "simulate": Growth(
        words="simulate torus:{n}x{n} --load 0.3 --duration 0.002 --json",
        sizes=(16, 32, 64),
        unit="routers",
        counts=(256, 1024, 4096),
        beyond="shorter runs, seeds side by side",
    ),
    "sfio": _counted(
        "sfio crossbar:32 --compute-nodes 8 --io-nodes 8 --fabric simulator --file-size {n}MB",
        sizes=(16, 64, 256),
        unit="MB",
        beyond="several runs",
    ),
}

CAMPAIGN = """name = "growth"
networks = ["manet:nodes=40,seed={{seed}}"]
seeds = [{seeds}]
methods = ["capillary"]
tolerances = [0.05]
"""


def measured(argv: Sequence[str]) -> dict[str, float | int]:
    """Run ``testbed``.

    Args:
        argv: Its arguments.

    Returns:
        The processor time in seconds, the peak memory in megabytes, and the exit code. The code is
        -24 if the run was stopped after LIMIT_S.
    """
    environment = {**os.environ, "PYTHONPATH": str(STORED.parent.parent)}
    with tempfile.TemporaryDirectory() as folder, Path(folder, "error").open("w+") as error:
        run = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.cli", *argv],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=error,
            preexec_fn=_limit_processor_time,
            env=environment,
        )
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode not in (0, 1, 4, 5, -24):
            command = f"testbed {' '.join(argv)}"
            message = Path(error.name).read_text()
            raise SystemExit(f"{command}: exit code {run.returncode}\n{message}")
    return {
        "seconds": round(used.ru_utime + used.ru_stime, 2),
        "mb": round(used.ru_maxrss / 1024),
        "code": run.returncode,
    }


def _limit_processor_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))


def command_line(case: Growth, size: int, folder: Path) -> list[str]:
    """Return the arguments of a command; the file of a campaign is written into the folder."""
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN.format(seeds=", ".join(map(str, range(size)))))
    return [word.format(n=size, file=file) for word in case.words.split()]


def exponent(counts: Sequence[int], values: Sequence[float], min_factor: float) -> float | None:
    """Return the exponent of the growth between the last two sizes.

    Args:
        counts: The sizes.
        values: The value at each size.
        min_factor: Smallest growth of the value that is taken into account.

    Returns:
        None if the value has grown less: then it does not depend on the size yet.
    """
    if values[-2] <= 0 or values[-1] < min_factor * values[-2]:
        return None
    return math.log(values[-1] / values[-2]) / math.log(counts[-1] / counts[-2])


def row_of(case: Growth, runs: Sequence[dict[str, Any]], idle: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a command that is stored.

    It has the runs, and the exponents of the growth of time and memory. It also has the size that
    fills MEMORY_MB and the time that this size takes, if time and memory of large sizes grow at
    least in proportion to the size.

    Args:
        case: The sizes.
        runs: The run at each size.
        idle: The run of a command that does nothing. Its time and memory are subtracted.
    """
    finished = [run for run in runs if run["code"] >= 0]
    row: dict[str, Any] = {
        "words": case.words,
        "unit": case.unit,
        "beyond": case.beyond,
        "runs": list(runs),
    }
    if len(finished) < 2:
        return row
    counts = [run["size"] for run in finished]
    times = [run["seconds"] - idle["seconds"] for run in finished]
    memory = [run["mb"] - idle["mb"] for run in finished]
    row["time_exponent"] = exponent(counts, times, 1.3)
    row["memory_exponent"] = exponent(counts, memory, 1.5)
    if row["memory_exponent"] is not None:
        growth = ((MEMORY_MB - idle["mb"]) / memory[-1]) ** (1 / max(row["memory_exponent"], 1.0))
        row["fits"] = counts[-1] * growth
        row["fits_s"] = times[-1] * growth ** max(row["time_exponent"] or 1.0, 1.0)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the commands, print a row for each run, and store the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(CASES)} (default all)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the smallest sizes; nothing is stored"
    )
    args = parser.parse_args(argv)
    unknown = set(args.commands) - CASES.keys()
    if unknown:
        parser.error(f"no such command: {', '.join(sorted(unknown))}")
    stored: dict[str, Any] = {"commands": {}}
    if STORED.exists() and args.commands:
        stored = json.loads(STORED.read_text())
    idle = measured(["topology", "show", "two-switch", "--json"])
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    stored |= {
        "machine": f"{os.cpu_count()} processors, {memory_gb} GB",
        "python": platform.python_version(),
    }
    stored["idle"] = idle
    print(f"{'command':12} {'size':>10} {'processor s':>12} {'MB':>7}")
    sizes_measured = 1 if args.quick else 3
    for name in args.commands or CASES:
        case = CASES[name]
        runs = []
        with tempfile.TemporaryDirectory() as folder:
            for size, count in list(zip(case.sizes, case.counts, strict=True))[:sizes_measured]:
                run = measured(command_line(case, size, Path(folder)))
                runs.append({"size": count, **run})
                print(
                    f"{name:12} {count:>10} {run['seconds']:>12.2f} {run['mb']:>7.0f}", flush=True
                )
        stored["commands"][name] = {
            **row_of(case, runs, idle),
            "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "load": round(os.getloadavg()[2], 1),
        }
        if not args.quick:
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
