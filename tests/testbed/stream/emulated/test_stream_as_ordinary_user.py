"""A stream on switches by a user without rights: user namespaces are enough, prediction and measurement agree, no file
is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.ordinary_user import ordinary

OBSTACLE = probe_sandbox(clock_offset_s=1)
STREAM = [
    "stream",
    "ring:4",
    "--from",
    "s0",
    "--to",
    "s2",
    "--fabric",
    "emulation",
    "--packet-rate",
    "200",
    "--max-faults",
    "1",
    "--json",
]


@pytest.mark.emulation
def test_an_ordinary_user_streams_over_switches_with_a_verdict(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    words = [sys.executable, "-m", "testbed.cli", *STREAM]
    code = 'cd $HOME && exec "$@" --results $HOME/results'
    command = ordinary(["sh", "-c", code, "sh", *words], tmp_path / "compiled")
    own = {**os.environ, "HOME": str(tmp_path)}  # a user that is taken on has a home of its own
    done = valid_run(
        lambda: subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=own
        )
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    document = json.loads(done.stdout)
    assert document["fabric"] == "emulation" and document["verdict"]["passed"]
    (fault,) = document["per_fault"]
    assert abs(fault["measured_loss"] - fault["predicted_loss"]) < 0.02
    assert (
        sum(path["arrived"] for path in document["per_path"])
        == document["figures"]["packets_received"]
    )


@pytest.mark.soak
@pytest.mark.emulation
@pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
def test_an_ordinary_user_streams_over_two_machines(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    """Each machine is a namespace of each kind inside the user's own: nothing that stands between them asks for
    rights."""
    own_fault = ["--faults", "s0->s1@1-2", "--duration", "4", "--machines", "2"]
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        *(w for w in STREAM if w not in ("--max-faults", "1")),
        *own_fault,
    ]
    code = 'cd $HOME && exec "$@" --results $HOME/results'
    command = ordinary(["sh", "-c", code, "sh", *words], tmp_path / "compiled")
    own = {**os.environ, "HOME": str(tmp_path)}
    done = valid_run(
        lambda: subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=own
        )
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    document = json.loads(done.stdout)
    assert document["verdict"]["passed"] and len(document["per_fault"]) == 1
    counters = document["figures"]
    assert len(counters["machines"]) == 2 and counters["crossing_sent"] > 100
    for number, clock in enumerate(counters["machines"]):
        assert abs(clock["offset_s"] - 4321.0 * (number + 1)) <= clock["uncertainty_s"]
