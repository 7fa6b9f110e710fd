"""Does ``--live`` disturb what is measured? The same run with and without it, turn by turn, a browser on the page of
the live ones.

    python benchmarks/bench_live.py [--pairs 20] [--workload stream|bulk] [--output FILE]

Counts invalid runs (exit code 4), and compares what a run says of itself: packets lost outside faults, the worst lag of
the sender, the share of the processors, the deviation of the measured loss. Not part of ``make bench``: 40 runs take
some six minutes.
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
from contextlib import ExitStack, nullcontext
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


def once(workload: str, live: bool, browser: Any, folder: str) -> dict[str, Any]:
    """Exit code and figures of one run."""
    words = [
        sys.executable,
        "-P",
        "-m",
        "testbed.cli",
        *RUNS[workload],
        "--fabric",
        "emulation",
        "--retries",
        "0",
    ]
    words += ["--json", "--results", folder, *(("--live",) if live else ())]
    run = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.stderr is not None
    connected = None
    if live:
        address = next(line for line in run.stderr if line.startswith("live: ")).split()[1]
        if browser is not None:
            browser.open(address, width=1280)
    out, _ = run.communicate(timeout=120)
    if live and browser is not None:
        connected = browser.evaluate("document.querySelectorAll('[data-link]').length")
    document = json.loads(out) if out.strip() else {}
    verdict = document.get("verdict", {})
    why = {"failed": verdict.get("failed"), "invalid": verdict.get("invalid")}
    return (
        {"live": live, "code": run.returncode, "links_drawn": connected}
        | why
        | figures(workload, document)
    )


def figures(workload: str, document: dict[str, Any]) -> dict[str, Any]:
    """What is compared."""
    if workload == "bulk":
        return {name: document.get(name) for name in FIGURES[workload]}
    told = document.get("figures", {})
    faults = document.get("per_fault", ())
    apart = [
        abs(f["measured_loss"] - f["predicted_loss"])
        for f in faults
        if f["measured_loss"] is not None
    ]
    return {name: told.get(name) for name in FIGURES[workload]} | {
        "loss_deviation": max(apart, default=None)
    }


def interval(rows: Sequence[dict[str, Any]]) -> str:
    """Invalid runs of all, with the exact 95 % interval of their share."""
    invalid = sum(row["code"] == 4 for row in rows)
    low, high = binomtest(invalid, len(rows)).proportion_ci(method="exact")
    return f"{invalid} of {len(rows)} [{100 * low:.0f} to {100 * high:.0f} %]"


def table(workload: str, rows: Sequence[dict[str, Any]]) -> str:
    """With and without side by side: medians and ranges, and how likely such a difference is by chance
    (Mann-Whitney)."""
    sides = [[row for row in rows if row["live"] is live] for live in (False, True)]
    lines = ["| | without | with `--live` | p |", "|---|---|---|---|"]
    lines.append(f"| invalid runs | {interval(sides[0])} | {interval(sides[1])} | |")
    failed = [sum(row["code"] not in (0, 4) for row in side) for side in sides]
    lines.append(f"| runs that did not pass otherwise | {failed[0]} | {failed[1]} | |")
    for name in FIGURES[workload]:
        values = [[float(row[name]) for row in side if row.get(name) is not None] for side in sides]
        if not all(values):
            continue
        told = [f"{statistics.median(v):.4g} ({min(v):.4g} to {max(v):.4g})" for v in values]
        p = 1.0 if len(set(values[0] + values[1])) == 1 else float(mannwhitneyu(*values).pvalue)
        lines.append(
            f"| {name.replace('_', ' ')}, median (range) | {told[0]} | {told[1]} | {p:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--workload", choices=RUNS, default="stream")
    parser.add_argument(
        "--output", type=Path, help="append each run's figures, a JSON object a line"
    )
    args = parser.parse_args()
    from tests.helpers.chromium_pipe import Browser, find_chromium

    program = find_chromium()
    own = os.getpriority(os.PRIO_PROCESS, 0)
    rows = []
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        os.setpriority(
            os.PRIO_PROCESS, 0, max(own, 0)
        )  # a user's browser has no priority of its own
        browser = stack.enter_context(nullcontext() if program is None else Browser(program))
        os.setpriority(os.PRIO_PROCESS, 0, own)
        for number in range(2 * args.pairs):
            row = once(args.workload, number % 2 == 1, browser, folder) | {
                "load": os.getloadavg()[0]
            }
            rows.append(row)
            if args.output is not None:
                with args.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(json.dumps(row), file=sys.stderr, flush=True)
    print(
        f"browser: {program or 'none'}; load average {min(r['load'] for r in rows):.1f} to "
        f"{max(r['load'] for r in rows):.1f}"
    )
    print(table(args.workload, rows))


if __name__ == "__main__":
    main()
