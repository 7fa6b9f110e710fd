"""Correct senders that the judge of overlapping faults used to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.commands import in_process

OVER_LONG_DELAYS = (
    "stream swiss-t1:delay_s=0.12 --from s1 --to s6 --faults s1->s2@1-3,s2->s7@2-3.6 "
    "--playback-buffer 4s --hold-time 0.3s --packet-rate 500 --duration 12s"
)
WHILE_NODES_MOVE = (
    "mobility manet:nodes=14,seed=6 --from n0 --to n5 --frames 3 --frame-duration 1.2 "
    "--packet-rate 400 --faults poisson:rate=0.1,lasts=0.5 --handover make-before-break"
)
UNDER_RANDOM_LABELS = (
    "stream torus:3x3 --from s0_0 --to s1_1 --label-order random --decoding-error-rate 0.01 "
    "--faults s0_0->s0_1@0.9-2.2,s0_0->s1_0@1.5-3 --packet-rate 500 --hold-time 0.4s "
    "--duration 4.2s --seed 26"
)


@pytest.mark.parametrize("command", [OVER_LONG_DELAYS, WHILE_NODES_MOVE, UNDER_RANDOM_LABELS])
def test_correct_sender_passes(command: str, tmp_path: Path) -> None:
    done = in_process(*command.split(), "--fabric", "simulator", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
