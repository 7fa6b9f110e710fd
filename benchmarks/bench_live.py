"""Compares runs with and without ``--live``: does the live page disturb the measurement?

    python benchmarks/bench_live.py [--pairs 20] [--workload stream|bulk] [--output FILE]

The same run takes place with and without ``--live`` in turn. A browser shows the page of the live
runs. Invalid runs (exit code 4) are counted, and the figures of the runs are compared: packets lost
outside faults, the largest lag of the sender, the share of the processors, and the deviation of the
measured loss. 20 pairs of runs take some six minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scipy.stats import binomtest, mannwhitneyu

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RUNS = {
    "stream": (
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--faults",
        "s1->s2@1-2.5",
        "--duration",
        "4",
    ),
    "bulk": (
        "bulk",
        "swiss-t1:allocation=2-2-2-2-0-0-0-0",
        "--message-size",
        "500kB",
        "--no-comparison",
    ),
}
FIGURES = {
    "stream": (
        "packets_lost_outside_faults",
        "sender_lag_s",
        "cpu_fraction",
        "loss_deviation",
        "packets_sent",
    ),
    "bulk": ("ratio", "queue_drops", "slowest_change_s", "cpu_fraction"),
}


def run_once(workload: str, live: bool, browser: Any, folder: str) -> dict[str, Any]:
    """Run a workload, and return its exit code and figures.

    Args:
        workload: A key of RUNS.
        live: Whether the run has a live page.
        browser: The browser that shows the page, or None.
        folder: Where the run stores its results.
    """
    argv = [
        sys.executable,
        "-P",
        "-m",
        "testbed.cli",
        *RUNS[workload],
        "--fabric",
        "emulation",
        "--retries",
        "0",
        "--json",
        "--results",
        folder,
    ]
    if live:
        argv.append("--live")
    run = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.stderr is not None
    links_drawn = None
    if live:
        address = next(line for line in run.stderr if line.startswith("live: ")).split()[1]
        if browser is not None:
            browser.open(address, width=1280)
    out, _ = run.communicate(timeout=120)
    if live and browser is not None:
        links_drawn = browser.evaluate("document.querySelectorAll('[data-link]').length")
    document = json.loads(out) if out.strip() else {}
    verdict = document.get("verdict", {})
    return {
        "live": live,
        "code": run.returncode,
        "links_drawn": links_drawn,
        "failed": verdict.get("failed"),
        "invalid": verdict.get("invalid"),
        **figures(workload, document),
    }


def figures(workload: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run's JSON that are compared."""
    if workload == "bulk":
        return {name: document.get(name) for name in FIGURES[workload]}
    stream_figures = document.get("figures", {})
    deviations = []
    for fault in document.get("per_fault", ()):
        if fault["measured_loss"] is not None:
            deviations.append(abs(fault["measured_loss"] - fault["predicted_loss"]))
    compared = {name: stream_figures.get(name) for name in FIGURES[workload]}
    compared["loss_deviation"] = max(deviations, default=None)
    return compared


def interval(rows: Sequence[dict[str, Any]]) -> str:
    """Return the number of invalid runs, with the exact 95 % interval of their share."""
    invalid = sum(row["code"] == 4 for row in rows)
    low, high = binomtest(invalid, len(rows)).proportion_ci(method="exact")
    return f"{invalid} of {len(rows)} [{100 * low:.0f} to {100 * high:.0f} %]"


def table(workload: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the medians and ranges of both kinds of runs.

    The last column is the probability that a difference arises by chance (Mann-Whitney).
    """
    plain_rows = [row for row in rows if not row["live"]]
    live_rows = [row for row in rows if row["live"]]
    lines = ["| | without | with `--live` | p |", "|---|---|---|---|"]
    lines.append(f"| invalid runs | {interval(plain_rows)} | {interval(live_rows)} | |")
    lines.append(
        f"| runs that did not pass otherwise | {failures(plain_rows)} | {failures(live_rows)} | |"
    )
    for name in FIGURES[workload]:
        plain = [float(row[name]) for row in plain_rows if row.get(name) is not None]
        live = [float(row[name]) for row in live_rows if row.get(name) is not None]
        if not plain or not live:
            continue
        p = 1.0
        # The test is not defined if all values are equal.
        if len(set(plain + live)) > 1:
            p = float(mannwhitneyu(plain, live).pvalue)
        label = name.replace("_", " ")
        lines.append(
            f"| {label}, median (range) | {median_text(plain)} | {median_text(live)} | {p:.2f} |"
        )
    return "\n".join(lines)


def failures(rows: Sequence[dict[str, Any]]) -> int:
    """Return the number of runs that neither passed nor were invalid."""
    return sum(row["code"] not in (0, 4) for row in rows)


def median_text(values: Sequence[float]) -> str:
    """Return the median and the range."""
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def main() -> None:
    """Run the pairs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--workload", choices=RUNS, default="stream")
    parser.add_argument(
        "--output", type=Path, help="append the figures of each run, one JSON object per line"
    )
    args = parser.parse_args()
    from tests.helpers.chromium_pipe import Browser, find_chromium

    program = find_chromium()
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    rows = []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        browser = None
        if program is not None:
            # A user's browser has no raised priority, even if this process has one.
            os.setpriority(os.PRIO_PROCESS, 0, max(priority, 0))
            browser = stack.enter_context(Browser(program))
            os.setpriority(os.PRIO_PROCESS, 0, priority)
        for number in range(2 * args.pairs):
            row = run_once(args.workload, number % 2 == 1, browser, folder)
            row["load"] = os.getloadavg()[0]
            rows.append(row)
            if args.output is not None:
                with args.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    loads = [row["load"] for row in rows]
    print(f"browser: {program or 'none'}; load average {min(loads):.1f} to {max(loads):.1f}")
    print(table(args.workload, rows))


if __name__ == "__main__":
    main()
