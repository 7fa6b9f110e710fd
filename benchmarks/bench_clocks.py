"""Measures how well the clock of another machine is estimated.

    python benchmarks/bench_clocks.py [--seconds 5]

The other machine is a process in a time namespace, whose clock is thousands of seconds ahead. It
answers over a socket, with delays, losses, drift and load. The estimate and its claimed error are
compared with the true offset, which the kernel was told.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from testbed.emulation.sandbox.sandbox import probe_sandbox

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.helpers.clock_trial import TrialConditions, run_trial

TRIALS = (
    TrialConditions(name="a quiet machine"),
    TrialConditions(name="four processes beside that want the processors", busy=4),
    TrialConditions(name="drift of 200 parts in a million", drift=2e-4),
    TrialConditions(
        name="drift of -900 parts in a million, a day ahead", drift=-9e-4, offset_s=86_400
    ),
    TrialConditions(name="5 ms there, nothing back", there_s=0.005),
    TrialConditions(
        name="1 ms there, 20 ms back, a tenth lost", there_s=0.001, back_s=0.02, loss=0.1
    ),
)


def main() -> int:
    """Print a row for each trial, and whether the truth was always within the claimed error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each trial")
    arguments = parser.parse_args()
    obstacle = probe_sandbox(clock_offset_s=1)
    if obstacle is not None:
        print(f"foreign clocks: not measured, {obstacle}")
        return 0
    print(
        f"{'':46} {'exchanges':>9} {'round trip ms':>14} {'error ms':>9} {'claimed ms':>17} "
        f"{'outside':>7}"
    )
    print(f"{'':46} {'':>9} {'quickest':>14} {'worst':>9} {'median':>8} {'worst':>8}")
    wrong = 0
    for conditions in TRIALS:
        trial = run_trial(conditions, duration_s=arguments.seconds)
        report = trial.report
        print(
            f"{conditions.name:46} {report.replies_received:>4}/{report.asked:<4} "
            f"{report.quickest_s * 1e3:14.3f} {trial.worst_error_s * 1e3:9.3f} "
            f"{trial.median_claimed_s * 1e3:8.3f} {trial.worst_claimed_s * 1e3:8.3f} "
            f"{trial.outside:7}",
            flush=True,
        )
        wrong += trial.outside
    verdict = "met   " if wrong == 0 else "MISSED"
    print(f"{verdict} moments at which the truth lay outside the claim: {wrong} (at most 0)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
