"""Impaired links on real switches: bursts, copies, waits, overtaking and a trace are measured at the sink as they were
asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.warm import run

FAULTS = (
    "s1->s2@0.8-9.8 ge:p=0.08,r=0.2, s1->s4@0.8-9.8 delay:0.03,jitter=0.02 duplicate:0.1, s1->s8@0.8-9.8 "
    "trace:ms=20x10+300"
)
WORDS = ["stream", "swiss-t1", "--from", "s1", "--to", "s6", "--fabric", "emulation", "--json"]


@pytest.mark.emulation
@pytest.mark.soak
def test_impairments_on_switches_are_as_requested(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        *WORDS,
        "--faults",
        FAULTS,
        "--duration",
        "10.5",
        "--packet-rate",
        "600",
    ]
    words += ["--playback-buffer", "1.2", "--results", str(tmp_path)]
    done = valid_run(lambda: run(words, capture_output=True, text=True, timeout=120, check=False))
    document = json.loads(done.stdout)
    checks = {check["name"]: check for check in document["verdict"]["checks"]}
    assert done.returncode == 0, (document["verdict"], done.stderr)
    bursts = checks["share of losses that follow a loss, s1->s2 ge:p=0.08,r=0.2"]
    assert (
        bursts["outcome"] == "holds"
        and abs(bursts["rival"] - bursts["measured"]) > bursts["tolerance"]
    )
    assert checks["share of packets that came twice, s1->s4 delay:0.03,jitter=0.02 duplicate:0.1"][
        "measured"
    ] == pytest.approx(0.1, abs=0.04)
    assert checks["mean wait, s, s1->s4 delay:0.03,jitter=0.02 duplicate:0.1"][
        "measured"
    ] == pytest.approx(0.03, abs=0.006)
    assert (
        checks["share of packets overtaken, s1->s4 delay:0.03,jitter=0.02 duplicate:0.1"][
            "measured"
        ]
        > 0.4
    )
    assert checks["longest silence, s, s1->s8 trace:0.264Mbit/s"]["measured"] > 0.29
    assert document["figures"]["corrupted"] == 0
