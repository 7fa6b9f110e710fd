"""Correct and wrong senders over drawn plans with faults on links with delays."""

from __future__ import annotations

import pytest

from tests.helpers import drawn_streams as drawn

pytestmark = pytest.mark.scaled


@pytest.mark.parametrize("seed", [*drawn.SEEDS, *drawn.FAILED_SEEDS["delayed"]])
def test_correct_sender_is_not_failed(seed: int) -> None:
    drawn.assert_correct_sender_is_not_failed("delayed", seed)


def test_wrong_senders_are_caught() -> None:
    drawn.assert_wrong_senders_are_caught("delayed")
