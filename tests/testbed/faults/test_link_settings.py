"""What may be set of a link while its network is up, in words and as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.link_settings import LinkSettings, parse_settings, settings_text
from topologies.network import Link

LINK = Link(source="a", target="b")


@given(st.floats(8, 1e15), st.floats(0, 86400), st.floats(0, 1))
def test_described_settings_restore_the_link(
    capacity_bps: float, delay_s: float, loss: float
) -> None:
    given = LinkSettings(capacity_bps=capacity_bps, delay_s=delay_s, loss_fraction=loss)
    again = parse_settings(settings_text(given.applied_to(LINK), loss).split())
    assert again.capacity_bps == pytest.approx(capacity_bps) and again.delay_s == pytest.approx(
        delay_s
    )
    assert again.loss_fraction == pytest.approx(loss)


def test_unnamed_settings_are_unchanged() -> None:
    assert parse_settings(["delay=5ms"]).applied_to(LINK) == Link(
        source="a", target="b", delay_s=0.005
    )
    assert parse_settings(["bw=100Mbps"]).applied_to(LINK) == Link(
        source="a", target="b", capacity_bps=1e8
    )
    assert parse_settings(["loss=2%", "one-way"]).applied_to(LINK) == LINK
    assert parse_settings(["delay=0"]).delay_s == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "nothing is set"),
        ("one-way", "nothing is set"),
        ("reset bw=1", "reset with values"),
        ("bw=1 bw=2", "bw is given twice"),
        ("bw=0", r"bw \(capacity_bps\) 0.0: give a number from 8"),
        ("bw=-1", "give a number"),
        ("bw=much", "^bw: 'much'"),
        ("delay=10", "say the unit, as delay=10ms"),
        ("delay=-1ms", "^delay: '-1ms'"),
        ("loss=101", r"loss \(loss_fraction\) 1.01: give a number from 0 to 1"),
        ("loss=nan", "nan"),
        ("jitter=1ms", "'jitter=1ms' is not a setting of a link"),
        ("faster", "'faster' is not a setting of a link"),
    ],
)
def test_a_wrong_setting_is_named(words: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_settings(words.split())


def test_values_of_another_type_are_refused() -> None:
    with pytest.raises(InputError, match=r"delay \(delay_s\) '5ms': give a number"):
        LinkSettings(delay_s="5ms")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"loss \(loss_fraction\) True: give a number"):
        LinkSettings(loss_fraction=True)
