"""Correct senders that the judge of overlapping faults used to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.faults.fault import Fault
from testbed.stream.workload import stream_plan
from tests.helpers.commands import in_process
from tests.helpers.drawn_streams import exit_code
from topologies import load_network

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


@pytest.mark.parametrize(
    "sender, failed_keys",
    [
        ("", []),
        ("N - 1, no late parity", ["undecodable-within-reach"]),
        ("never raises N, no late parity", ["undecodable-within-reach"]),
    ],
)
def test_only_correct_sender_passes_if_two_epochs_lose_everything(
    sender: str, failed_keys: list[str]
) -> None:
    """Packets sent from 3.76 to 3.86 s meet the second failure or the third, and all are lost.

    Most of the late parity leaves in this time.
    """
    network = load_network("mesh:3x3,delay_s=0.08")
    plan = stream_plan(
        network,
        "s0_0",
        "s2_2",
        faults="none",
        rate_pps=300.0,
        symbol_bytes=8,
        playback_s=3.0,
        hold_s=0.3,
        duration_s=8.0,
        seed=990,
    )
    faults = (
        _one_way_failure("s0_2", "s1_2", 2.92, 4.84),
        _one_way_failure("s0_0", "s1_0", 2.98, 3.86),
        _one_way_failure("s1_2", "s2_2", 4.0, 5.24),
    )
    code, failed = exit_code(replace(plan, faults=faults), sender)
    assert code == bool(failed_keys)
    assert [check.key for check in failed] == failed_keys


@pytest.mark.parametrize(
    "sender, failed_keys",
    [
        ("", []),
        ("never raises N, no late parity", ["undecodable-within-reach", "redundancy"]),
    ],
)
def test_wrong_sender_fails_if_losses_last_until_the_end(
    sender: str, failed_keys: list[str]
) -> None:
    """No packet certainly arrives after 0.9 s, and only the last blocks are excused."""
    plan = stream_plan(
        load_network("ring:6"),
        "s0",
        "s3",
        faults="none",
        rate_pps=500.0,
        symbol_bytes=8,
        hold_s=0.3,
        seed=3,
    )
    faults = []
    for first_router in ("s1", "s5"):
        failure = _one_way_failure("s0", first_router, 0.9, plan.duration_s)
        faults.append(replace(failure, kind="loss", loss_fraction=0.25))
    code, failed = exit_code(replace(plan, faults=tuple(faults)), sender)
    assert code == bool(failed_keys)
    assert [check.key for check in failed] == failed_keys


def _one_way_failure(source: str, target: str, start_s: float, stop_s: float) -> Fault:
    return Fault(link=(source, target, 0), start_s=start_s, stop_s=stop_s, direction="forward")
