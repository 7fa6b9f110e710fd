"""How time and memory of every command grow: each at three sizes, the exponents, and what would fill 24 GB.

``python benchmarks/bench_growth.py [--quick] [COMMAND ...]``: every run is a process of its own, stopped after LIMIT_S
of processor time. Writes ``benchmarks/growth.json``, of which the site makes the page "how it grows"
(docs/measurements/growth.md); with names of commands, their rows alone are measured anew. ``--quick`` runs the smallest
sizes and writes nothing.
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
MEMORY_MB = 24_000
"""Of the machine whose fill is extrapolated."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """``words`` of the command, in which ``{n}`` is one of ``sizes``; ``counts``: how many of the ``unit`` that is.

    ``beyond``: what to use where the machine does not suffice.
    """

    words: str
    sizes: tuple[int, int, int]
    unit: str
    counts: tuple[int, int, int]
    beyond: str


def _alike(words: str, unit: str, beyond: str, *sizes: int) -> Growth:
    """A command whose size is the number in its words."""
    small, middle, large = sizes
    return Growth(
        words=words,
        sizes=(small, middle, large),
        unit=unit,
        counts=(small, middle, large),
        beyond=beyond,
    )


CASES = {
    "topology": _alike("topology show manet:nodes={n},seed=3 --json", "switches", "parts of it", 500, 1000, 2000),
    "route": Growth(words="route torus:{n}x{n} --from s0_0 --to s2_3 --json", sizes=(16, 32, 64), unit="switches",
                    counts=(256, 1024, 4096), beyond="the library's float recursion (`FloatRouter`)"),
    "ror": Growth(words="ror torus:{n}x{n} --from s0_0 --to s2_3 --json", sizes=(6, 8, 12), unit="switches",
                  counts=(36, 64, 144), beyond="`--label-order random`"),
    "demands": _alike("demands manet:nodes={n},seed=3 --routing optimum --label-order random --json", "switches",
                      "the library (`optimal_demands`): the optimum alone", 25, 50, 100),
    "campaign": _alike("campaign {file} --workers 1", "networks",
                       "more workers, Dask on several machines (`--dask`)", 4, 8, 16),
    "schedule": Growth(words="schedule clos:{n}", sizes=(8, 12, 16), unit="transfers",
                       counts=(16_384, 186_624, 1_048_576), beyond="parts of the pattern (`--pattern FILE`)"),
    "bulk": Growth(words="bulk torus:{n}x{n} --fabric simulator --message-size 20kB --no-comparison", sizes=(4, 6, 8),
                   unit="messages", counts=(256, 1296, 4096), beyond="several machines (`--machines`)"),
    "wavelengths": Growth(words="wavelengths ring:{n} --wavelengths 8 --json", sizes=(16, 32, 64), unit="lightpaths",
                          counts=(240, 992, 4032), beyond="fewer pairs (`--pattern`)"),
    "stream": Growth(words="stream torus:{n}x{n} --from s0_0 --to s2_3 --fabric simulator --faults none --duration 5",
                     sizes=(6, 8, 12), unit="switches", counts=(36, 64, 144), beyond="several machines (`--machines`)"),
    "mobility": _alike("mobility manet:nodes={n},degree=9 --from n0 --to n7 --fabric simulator --frames 3", "switches",
                       "fewer frames a run", 30, 60, 120),
    "download": _alike("download swiss-t1 --from s1 --to s6 --fabric simulator --file-size {n}MB", "MB",
                       "the file in parts", 8, 32, 128),
    "simulate": Growth(words="simulate torus:{n}x{n} --load 0.3 --duration 0.002 --json", sizes=(16, 32, 64),
                       unit="routers", counts=(256, 1024, 4096), beyond="shorter runs, seeds side by side"),
    "sfio": _alike("sfio crossbar:32 --compute-nodes 8 --io-nodes 8 --fabric simulator --file-size {n}MB", "MB",
                   "several runs", 16, 64, 256),
}  # fmt: skip
"""By command. What is left out carries out a program or a run on real switches (docs/measurements/scale.md), or reads
what is stored."""
CAMPAIGN = """name = "growth"
networks = ["manet:nodes=40,seed={{seed}}"]
seeds = [{seeds}]
methods = ["capillary"]
tolerances = [0.05]
"""


def measured(words: Sequence[str]) -> dict[str, float | int]:
    """Processor seconds and megabytes of ``testbed`` with these words, and its exit code; -24: it took LIMIT_S."""
    with tempfile.TemporaryDirectory() as folder, Path(folder, "error").open("w+") as error:
        command = [sys.executable, "-P", "-m", "testbed.cli", *words]
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))  # noqa: E731
        run = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=error, preexec_fn=limit,
            env={**os.environ, "PYTHONPATH": str(STORED.parent.parent)},
        )  # fmt: skip
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode not in (0, 1, 4, 5, -24):
            raise SystemExit(
                f"testbed {' '.join(words)}: exit code {run.returncode}\n{Path(error.name).read_text()}"
            )
    return {
        "seconds": round(used.ru_utime + used.ru_stime, 2), "mb": round(used.ru_maxrss / 1024), "code": run.returncode
    }  # fmt: skip


def words_of(case: Growth, size: int, folder: Path) -> list[str]:
    """The command's words; a campaign's file is written into the folder."""
    file = folder / "campaign.toml"
    file.write_text(CAMPAIGN.format(seeds=", ".join(map(str, range(size)))))
    return [word.format(n=size, file=file) for word in case.words.split()]


def exponent(counts: Sequence[int], values: Sequence[float], least: float) -> float | None:
    """Of the growth from the last size but one to the last; None where the value has not grown so many times: the size
    does not matter yet."""
    if values[-2] <= 0 or values[-1] < least * values[-2]:
        return None
    return math.log(values[-1] / values[-2]) / math.log(counts[-1] / counts[-2])


def row_of(case: Growth, runs: Sequence[dict[str, Any]], idle: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a command: its runs, the exponents beyond what a command that does nothing takes, and the size
    that fills MEMORY_MB, with the time that would take: both grow by the size at least, where it is large."""
    whole = [run for run in runs if run["code"] >= 0]
    row: dict[str, Any] = {
        "words": case.words,
        "unit": case.unit,
        "beyond": case.beyond,
        "runs": list(runs),
    }
    if len(whole) < 2:
        return row
    counts = [run["size"] for run in whole]
    times, memory = ([run[name] - idle[name] for run in whole] for name in ("seconds", "mb"))
    row["time_exponent"], row["memory_exponent"] = (
        exponent(counts, times, 1.3),
        exponent(counts, memory, 1.5),
    )
    if row["memory_exponent"] is not None:
        growth = ((MEMORY_MB - idle["mb"]) / memory[-1]) ** (1 / max(row["memory_exponent"], 1.0))
        row["fits"] = counts[-1] * growth
        row["fits_s"] = times[-1] * growth ** max(row["time_exponent"] or 1.0, 1.0)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(CASES)} (default all)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the smallest sizes; nothing is stored"
    )
    args = parser.parse_args(argv)
    if unknown := set(args.commands) - CASES.keys():
        parser.error(f"no such command: {', '.join(sorted(unknown))}")
    stored: dict[str, Any] = (
        json.loads(STORED.read_text()) if STORED.exists() and args.commands else {"commands": {}}
    )
    idle = measured(["topology", "show", "two-switch", "--json"])
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    stored |= {
        "machine": f"{os.cpu_count()} processors, {memory_gb} GB",
        "python": platform.python_version(),
    }
    stored["idle"] = idle
    print(f"{'command':12} {'size':>10} {'processor s':>12} {'MB':>7}")
    for name in args.commands or CASES:
        case, runs = CASES[name], []
        with tempfile.TemporaryDirectory() as folder:
            for size, count in list(zip(case.sizes, case.counts, strict=True))[
                : 1 if args.quick else 3
            ]:
                runs.append({"size": count, **measured(words_of(case, size, Path(folder)))})
                print(
                    f"{name:12} {count:>10} {runs[-1]['seconds']:>12.2f} {runs[-1]['mb']:>7.0f}",
                    flush=True,
                )
        stored["commands"][name] = {
            **row_of(case, runs, idle), "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "load": round(os.getloadavg()[2], 1),
        }  # fmt: skip
        if not args.quick:
            STORED.write_text(json.dumps(stored, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
