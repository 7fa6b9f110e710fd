"""Trials of the machine that come to no end: what is known by then is told, and only the rest is unknown."""

from __future__ import annotations

import math
import sys

import pytest

from testbed.emulation.machine.capabilities import tried
from testbed.emulation.machine.capability_trials import judge_delays
from testbed.errors import CapabilityError

_FIRST = 'import sys, time; print(\'["shaping", {"detail": "it shapes", "lack": "", "mend": ""}]\', flush=True)\n'


def _tried(then: str, limit_s: float = 30.0) -> tuple[dict[str, dict[str, str]], str]:
    return tried([sys.executable, "-S", "-c", _FIRST + then], limit_s)


def test_results_before_the_time_limit_are_kept() -> None:
    found, why = _tried("time.sleep(60)", limit_s=1.5)
    assert (list(found), found["shaping"]["detail"]) == (["shaping"], "it shapes")
    assert why == "the trials came no further within 1.5 s"


def test_trials_that_break_tell_their_last_line() -> None:
    found, why = _tried(
        "print('[\"half a li', end='', flush=True); sys.exit('no more\\nthe kernel said no')"
    )
    assert list(found) == ["shaping"] and why == "the trials failed: the kernel said no"


def test_smallest_of_the_delays_is_reported() -> None:
    assert judge_delays([0.069, 0.0213, 0.03]) == "netem: a delay of 20 ms measured as 21.3 ms"


@pytest.mark.parametrize(
    ("delays_s", "message"),
    [
        ([0.069, 0.071], "netem delays a packet by 69 ms instead of 20"),
        ([0.001, 0.03], "netem delays a packet by 1 ms instead of 20"),
        ([math.inf, math.inf], "netem exists, but no packet passes it"),
    ],
)
def test_wrong_delay_is_no_capability(delays_s: list[float], message: str) -> None:
    with pytest.raises(CapabilityError, match=message):
        judge_delays(delays_s)
