"""The estimate beside the truth: a process in a time namespace whose offset the kernel was told."""

from __future__ import annotations

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.clock_trial import TrialConditions, run_trial


@pytest.fixture(scope="module", autouse=True)
def time_namespaces() -> None:
    obstacle = probe_sandbox(clock_offset_s=1)
    if obstacle is not None:
        pytest.skip(obstacle)


@pytest.mark.parametrize(
    ("conditions", "most_s"),
    [
        (
            TrialConditions(name="a loaded machine and a drift", offset_s=5000, drift=2e-4, busy=2),
            0.05,
        ),
        (
            TrialConditions(name="lopsided delays and loss", offset_s=300, there_s=0.004, loss=0.1),
            0.1,
        ),
    ],
    ids=lambda value: value.name.replace(" ", "-") if isinstance(value, TrialConditions) else "",
)
def test_the_truth_lies_within_what_is_claimed(conditions: TrialConditions, most_s: float) -> None:
    found = run_trial(conditions, duration_s=0.8)
    assert found.outside == 0
    assert found.worst_error_s <= found.worst_claimed_s
    # The rival is a claim that takes everything in; a lopsided way is nearly all of what cannot be known.
    assert found.report.quickest_s / 2 <= found.median_claimed_s + 1e-6
    assert found.median_claimed_s < most_s
    assert found.report.asked >= found.report.replies_received > 3
