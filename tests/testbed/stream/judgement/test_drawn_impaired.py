"""Correct senders over drawn plans with impaired links."""

from __future__ import annotations

import pytest

from tests.helpers import drawn_streams as drawn

pytestmark = pytest.mark.scaled


@pytest.mark.parametrize("seed", drawn.SEEDS)
def test_correct_sender_is_not_failed(seed: int) -> None:
    drawn.assert_correct_sender_is_not_failed("impaired", seed)
