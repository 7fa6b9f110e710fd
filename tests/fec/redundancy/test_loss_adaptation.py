"""Loss estimates and block sizes: quick up, slow down, exact in the end."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest

from fec.errors import FecError
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController, LossEstimator
from fec.redundancy.block_size_control import PacketReport
from fec.redundancy.labels import StratifiedLabels

ORDER = StratifiedLabels()


def times(count: int, start: float = 0.0) -> list[float]:
    return [start + 0.001 * i for i in range(count)]


def fates(share: float, count: int, first: int = 0) -> list[bool]:
    """Fates of packets in stratified order while a link with one interval of that share is down."""
    return [int(label) < share * 65536 for label in map(ORDER.label, range(first, first + count))]


def controller(**changes: object) -> BlockSizeController:
    values: dict[str, object] = {"base": 22, "hold_s": 2.0}
    return BlockSizeController(
        AdaptationParameters(**(values | changes)), lambda loss: round(20 / (1 - loss)) + 2
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.06, 0.1, 0.25, 0.5, 0.8])
def test_after_a_jump_only_packets_since_the_jump_count(share: float) -> None:
    estimator = LossEstimator(deterministic=True)
    assert estimator.add([False] * 1500, times(1500)) is None
    changed_s = estimator.add(fates(share, 400), times(400, 1.5))
    assert changed_s is not None and 1.5 <= changed_s < 1.5 + 1.5 / share * 0.001
    assert estimator.packets <= 400
    assert estimator.loss == pytest.approx(share, abs=2 / 400 + 0.001)
    assert not estimator.fell


def test_three_losses_of_one_block_are_a_change_after_a_quiet_time() -> None:
    """Three of 22 are what the block at rest for a tolerance of 5 % cannot repair."""
    estimator = LossEstimator(deterministic=True)
    estimator.add([False] * 400, times(400))
    news = [
        True,
        False,
        False,
        False,
        False,
        False,
        False,
        True,
        False,
        False,
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    assert estimator.add(news, times(16, 0.4)) == pytest.approx(0.4)
    assert 0.1 < estimator.loss < 0.25


def test_the_end_of_a_loss_is_a_change() -> None:
    estimator = LossEstimator(deterministic=True)
    estimator.add(fates(0.2, 1000), times(1000))
    assert estimator.add([False] * 100, times(100, 1.0)) == pytest.approx(1.0, abs=0.006)
    assert estimator.fell and estimator.loss == 0


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_a_steady_loss_is_no_change(share: float) -> None:
    estimator = LossEstimator(deterministic=True)
    for k in range(60):
        assert estimator.add(fates(share, 50, first=50 * k), times(50, 0.05 * k)) is None
    assert estimator.loss == pytest.approx(share, abs=0.002)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2, 0.5])
def test_chance_is_hardly_ever_taken_for_a_change(share: float) -> None:
    chance, alarms = random.Random(1), 0
    estimator = LossEstimator(deterministic=False)
    for k in range(400):
        alarms += (
            estimator.add([chance.random() < share for _ in range(50)], times(50, 0.05 * k))
            is not None
        )
    assert alarms <= 1  # of 20,000 packets
    assert estimator.loss == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.1), (0.1, 0.3), (0.3, 0.1), (0.5, 0.0)])
def test_a_random_loss_that_changes_is_found(before: float, after: float) -> None:
    chance = random.Random(2)
    estimator = LossEstimator(deterministic=False)
    estimator.add([chance.random() < before for _ in range(1500)], times(1500))
    changed_s = estimator.add([chance.random() < after for _ in range(500)], times(500, 1.5))
    assert changed_s == pytest.approx(1.5, abs=0.1)
    assert estimator.fell == (after < before)
    assert estimator.loss == pytest.approx(after, abs=0.07)


def test_an_outage_that_is_over_leaves_no_trace_in_the_estimate() -> None:
    """Everything lost for a while, then nothing: both changes lie in one report."""
    estimator = LossEstimator(deterministic=False)
    estimator.add([False] * 500 + [True] * 400 + [False] * 30, times(930))
    assert estimator.loss == 0 and estimator.packets == 30


def test_block_size_rises_with_the_first_report_of_a_loss() -> None:
    control = controller()
    assert not control.add([False] * 500, times(500), 0.5)
    assert control.add(fates(0.3, 30), times(30, 0.5), 0.53)
    assert control.block_size >= 29


def test_block_size_is_kept_for_the_hold_and_then_falls_to_the_base() -> None:
    control = controller()
    control.add(fates(0.3, 500), times(500), 0.5)
    high = control.block_size
    for k in range(1, 40):
        now = 0.5 + 0.1 * k
        control.add([False] * 100, times(100, now - 0.1), now)
        held = now < 0.5 + 2.0
        assert control.block_size == (high if held else 22), now


def test_overshoot_of_a_second_rise_is_corrected_within_the_hold() -> None:
    control = controller()
    control.add(fates(0.3, 500), times(500), 0.5)
    settled = control.block_size
    control.add([False] * 100, times(100, 0.5), 0.6)
    control.add([True, False] * 6, times(12, 0.6), 0.612)
    assert control.block_size > settled
    control.add(fates(0.3, 500), times(500, 0.612), 1.2)
    assert settled <= control.block_size <= settled + 1
    control.add([False] * 200, times(200, 1.2), 1.4)
    assert control.block_size >= settled


def test_block_size_is_kept_without_reports() -> None:
    control = controller()
    control.add(fates(0.3, 500), times(500), 0.5)
    high = control.block_size
    control.add([], [], 60.0)
    assert control.block_size == high
    for k in range(1, 22):
        now = 60.0 + 0.1 * k
        control.add([False] * 100, times(100, now - 0.1), now)
        assert control.block_size == (high if now < 62.0 else 22), now


def test_block_size_stays_within_base_and_cap_whatever_the_policy_says() -> None:
    for answer, expected in ((0, 22), (10_000, 60)):
        control = BlockSizeController(
            AdaptationParameters(base=22, largest=60), lambda loss, n=answer: n
        )  # type: ignore[misc]
        control.add([True] * 100, times(100), 0.1)
        assert control.block_size == expected


def test_the_policy_is_never_asked_for_a_loss_of_everything() -> None:
    asked: list[float] = []
    control = BlockSizeController(
        AdaptationParameters(base=22), lambda loss: asked.append(loss) or 22
    )  # type: ignore[func-returns-value]
    control.add([True] * 100, times(100), 0.1)
    assert max(asked) < 1


@pytest.mark.parametrize(
    "wrong", [{"base": 0}, {"base": 256}, {"base": 30, "largest": 20}, {"hold_s": -1.0}]
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(FecError):
        AdaptationParameters(**({"base": 22} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("deterministic", [True, False])
def test_unknown_loss_is_none_and_unbounded(deterministic: bool) -> None:
    estimator = LossEstimator(deterministic=deterministic)
    assert (estimator.packets, estimator.loss, estimator.margin) == (0, 0.0, 1.0)
    estimator.add([True, False], times(2))
    assert estimator.packets == 2 and estimator.loss > 0
    estimator.restart()
    assert (estimator.packets, estimator.loss, estimator.margin) == (0, 0.0, 1.0)


def test_margin_is_one_packet_if_stratified_and_half_a_deviation_at_random() -> None:
    for deterministic, margin in ((True, 0.01), (False, 0.5 * (0.2 * 0.8 / 100) ** 0.5)):
        estimator = LossEstimator(deterministic=deterministic)
        estimator.add([k % 5 == 2 for k in range(100)], times(100))
        assert estimator.packets == 100 and estimator.loss == pytest.approx(0.2)
        assert estimator.margin == pytest.approx(margin)


def news(lost: list[bool], start_s: float = 0.0) -> list[PacketReport]:
    return [
        PacketReport(0, gone, at_s)
        for gone, at_s in zip(lost, times(len(lost), start_s), strict=True)
    ]


def test_128_losses_in_a_row_are_an_outage_and_do_not_count() -> None:
    for run, outage in ((127, False), (128, True)):
        control = controller()
        control.on_packet_reports(news([False] * 100 + [True] * run), 0.3)
        assert (control.loss == 0) == outage and (control.block_size == 22) == outage
    control = controller()
    control.on_packet_reports(news([True, True, False] * 100), 0.3)
    assert control.loss > 0.6, "many, but not on end"


def test_the_rate_of_what_the_estimate_rests_on() -> None:
    estimator = LossEstimator(deterministic=True)
    assert estimator.sent_pps == 0
    estimator.add([False], [1.0])
    assert estimator.sent_pps == 0
    estimator.add([False] * 100, times(100, 1.001))
    assert estimator.sent_pps == pytest.approx(1000)
    estimator.add([False] * 3000, times(3000, 1.101))
    assert estimator.packets == 2048 and estimator.sent_pps == pytest.approx(1000)


def test_half_a_gap_is_made_up_for_after_a_rise_alone() -> None:
    rose = LossEstimator(deterministic=True)
    rose.add([False] * 100, times(100))
    rose.add([True, False, False, False] * 5, times(20, 0.1))
    assert (rose.packets, rose.loss) == (20, 4.5 / 20)
    steady = LossEstimator(deterministic=True)
    steady.add([True, False, False, False] * 5, times(20))
    assert (steady.packets, steady.loss) == (20, 5 / 20)


def test_recent_packets_wait_for_reports_of_longer_paths() -> None:
    control = controller(apart_s=0.05)
    control.on_packet_reports(news([True] * 40), 0.1)  # the last of them left at 39 ms
    assert control.loss == 0 and control.block_size == 22
    control.on_packet_reports([PacketReport(0, False, 0.0605), PacketReport(0, True, 0.0005)], 0.2)
    assert control.loss > 0.9, "those that left until 10.5 ms are known"
    control.restart_estimate()
    assert control.loss == 0
    control.on_packet_reports(news([False] * 60, 0.2), 0.4)
    assert control.loss == 0, "what waited is forgotten, too"


@pytest.mark.parametrize(
    ("values", "good"),
    [
        ({"base": 255}, True),
        ({"base": 1, "largest": 1}, True),
        ({"base": 22, "largest": 256}, False),
        ({"base": 22, "hold_s": 0.0}, True),
        ({"base": 22, "report_timeout_s": 0.0}, False),
        ({"base": 22, "report_timeout_s": float("nan")}, False),
    ],
)
def test_parameters_reach_to_their_limits(values: dict[str, float], good: bool) -> None:
    with nullcontext() if good else pytest.raises(FecError):
        AdaptationParameters(**values)  # type: ignore[arg-type]
