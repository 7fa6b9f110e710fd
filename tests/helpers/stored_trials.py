"""A trial of a tunnel that ran on switches, as tests keep it; ``python -m tests.helpers.stored_trials FILE``: one."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import testbed
from testbed.faults.fault import FaultTimes
from testbed.model.json_values import json_ready
from testbed.tunnel.trial import RivalRun, TrialMeasurements, TrialPlan

PACKETS = [
    ("flow", "u1"),
    ("number", "u4"),
    ("at_s", "f8"),
    ("bytes", "u2"),
    ("came_s", "f8"),
    ("recovered", "?"),
]
LOGS = ("offered", "delivered")
_FIELDS = ("rival", "programs", "lag_s", "packets", "queue_drops", "machine_drops")


@cache
def trial_plan() -> TrialPlan:
    return testbed.tunnel_plan(
        "torus:3x3", ("s0_0", "s1_1"), duration_s=5.0, workload="voip,ping,video"
    )


def load_trial(path: Path) -> TrialMeasurements:
    return TrialMeasurements(runs=tuple(_run(one) for one in json.loads(path.read_text())))


def _run(stored: Any) -> RivalRun:
    plan = trial_plan()
    voice = stored["programs"]["voip"]
    voice["delay_s"] = [np.inf if delay is None else delay for delay in voice["delay_s"]]
    faults = [
        FaultTimes(fault=f, start_s=a, stop_s=b)
        for f, (a, b) in zip(plan.faults, stored["faults"], strict=True)
    ]
    ends = {end: stored[end] and {**stored[end], **{log: _packets(stored[end][log]) for log in LOGS}}
            for end in ("source", "sink")}  # fmt: skip
    return RivalRun(**{name: stored[name] for name in _FIELDS}, **ends, faults=tuple(faults))


def _packets(columns: Any) -> Any:
    found = np.zeros(len(columns["number"]), dtype=PACKETS)
    for name, _ in PACKETS:
        found[name] = columns[name]
    return found


def _stored(run: RivalRun) -> Any:
    def log(records: Any) -> Any:
        return {name: np.round(records[name].astype(float), 6).tolist() for name, _ in PACKETS}

    found: Any = {name: getattr(run, name) for name in _FIELDS}
    video = {
        name: value
        for name, value in run.programs.get("video", {}).items()
        if name not in ("clip", "moments")
    }
    found["programs"] = {**run.programs, "video": video}
    found["faults"] = [(round(one.start_s, 6), round(one.stop_s, 6)) for one in run.faults]
    for end in ("source", "sink"):
        own = getattr(run, end)
        found[end] = own and {
            "counters": own["counters"],
            **{name: log(own[name]) for name in LOGS},
        }
    return found


if __name__ == "__main__":
    result = testbed.run(trial_plan(), fabric="emulation")
    print(result.verdict)
    runs = json_ready([_stored(one) for one in result.measurements.runs])
    Path(sys.argv[1]).write_text(json.dumps(runs, separators=(",", ":")) + "\n")
