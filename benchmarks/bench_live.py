"""Measures whether ``--live`` disturbs a run: the same run with and without it, in turn.

    python benchmarks/bench_live.py [--pairs 20] [--workload stream|bulk] [--output FILE]

A browser shows the page of the live runs. The benchmark counts invalid runs (exit code 4), and
compares figures that the runs print: packets lost outside faults, the largest lag of the sender,
the share of the processors, and the deviation of the measured loss. It is not part of
``make bench``, because 40 runs take some six minutes.
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

# The command of each workload.
RUNS = {
    "stream": "stream swiss-t1 --from s1 --to s6 --faults s1->s2@1-2.5 --duration 4",
    "bulk": "bulk swiss-t1:allocation=2-2-2-2-0-0-0-0 --message-size 500kB --no-comparison",
}

# The figures that are compared.
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

# Exit code of an invalid run.
INVALID = 4


def run_once(workload: str, live: bool, browser: Any, folder: str) -> dict[str, Any]:
    """Run a workload, and return its exit code and figures.

    Args:
        workload: "stream" or "bulk".
        live: Whether the run has a live page.
        browser: The browser that shows the page, or None.
        folder: Folder for the results.
    """
    argv = [sys.executable, "-P", "-m", "testbed.cli", *RUNS[workload].split()]
    argv += ["--fabric", "emulation", "--retries", "0", "--json", "--results", folder]
    if live:
        argv.append("--live")
    process = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    links_drawn = None
    if live:
        address_line = next(line for line in process.stderr if line.startswith("live: "))
        if browser is not None:
            browser.open(address_line.split()[1], width=1280)
    output, _ = process.communicate(timeout=120)
    if live and browser is not None:
        links_drawn = browser.evaluate("document.querySelectorAll('[data-link]').length")
    document = json.loads(output) if output.strip() else {}
    verdict = document.get("verdict", {})
    return {
        "live": live,
        "code": process.returncode,
        "links_drawn": links_drawn,
        "failed": verdict.get("failed"),
        "invalid": verdict.get("invalid"),
        **figures_of(workload, document),
    }


def figures_of(workload: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that are compared, from the output of a run."""
    if workload == "bulk":
        return {name: document.get(name) for name in FIGURES[workload]}
    figures = document.get("figures", {})
    result = {name: figures.get(name) for name in FIGURES[workload]}
    deviations = []
    for fault in document.get("per_fault", ()):
        if fault["measured_loss"] is not None:
            deviations.append(abs(fault["measured_loss"] - fault["predicted_loss"]))
    result["loss_deviation"] = max(deviations, default=None)
    return result


def invalid_share(rows: Sequence[dict[str, Any]]) -> str:
    """Return the number of invalid runs, with the exact 95 % interval of their share."""
    invalid = [row for row in rows if row["code"] == INVALID]
    low, high = binomtest(len(invalid), len(rows)).proportion_ci(method="exact")
    return f"{len(invalid)} of {len(rows)} [{100 * low:.0f} to {100 * high:.0f} %]"


def failed_count(rows: Sequence[dict[str, Any]]) -> int:
    """Return the number of runs that failed and are valid."""
    return len([row for row in rows if row["code"] not in (0, INVALID)])


def table(workload: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return a table with the medians and ranges of the figures, without and with ``--live``.

    The last column is the probability of such a difference by chance (Mann-Whitney test).
    """
    without = [row for row in rows if not row["live"]]
    with_live = [row for row in rows if row["live"]]
    lines = [
        "| | without | with `--live` | p |",
        "|---|---|---|---|",
        f"| invalid runs | {invalid_share(without)} | {invalid_share(with_live)} | |",
        "| runs that did not pass otherwise "
        f"| {failed_count(without)} | {failed_count(with_live)} | |",
    ]
    for name in FIGURES[workload]:
        values_without = values(without, name)
        values_with = values(with_live, name)
        if not values_without or not values_with:
            continue
        p_value = 1.0
        if len(set(values_without + values_with)) > 1:
            p_value = float(mannwhitneyu(values_without, values_with).pvalue)
        lines.append(
            f"| {name.replace('_', ' ')}, median (range) | {median_and_range(values_without)} "
            f"| {median_and_range(values_with)} | {p_value:.2f} |"
        )
    return "\n".join(lines)


def values(rows: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Return a figure of the runs that have it."""
    return [float(row[name]) for row in rows if row.get(name) is not None]


def median_and_range(numbers: Sequence[float]) -> str:
    return f"{statistics.median(numbers):.4g} ({min(numbers):.4g} to {max(numbers):.4g})"


def open_browser(stack: ExitStack, program: str | None) -> Any:
    """Start a browser with the priority of a user's program, and return it, or None."""
    from tests.helpers.chromium_pipe import Browser

    if program is None:
        return None
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(priority, 0))
    browser = stack.enter_context(Browser(program))
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    return browser


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pairs", type=int, default=20, help="number of runs with and without (default 20)"
    )
    parser.add_argument("--workload", choices=RUNS, default="stream")
    parser.add_argument(
        "--output", type=Path, help="file to which a JSON object is appended for each run"
    )
    arguments = parser.parse_args()
    from tests.helpers.chromium_pipe import find_chromium

    program = find_chromium()
    rows = []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        browser = open_browser(stack, program)
        for number in range(2 * arguments.pairs):
            row = run_once(arguments.workload, number % 2 == 1, browser, folder)
            row["load"] = os.getloadavg()[0]
            rows.append(row)
            if arguments.output is not None:
                with arguments.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    loads = [row["load"] for row in rows]
    print(f"browser: {program or 'none'}; load average {min(loads):.1f} to {max(loads):.1f}")
    print(table(arguments.workload, rows))


if __name__ == "__main__":
    main()
