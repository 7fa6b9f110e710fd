"""Trials of the machine that come to no end: what is known by then is told, and only the rest is unknown."""

from __future__ import annotations

import sys

from testbed.emulation.machine.capabilities import tried

_FIRST = 'import sys, time; print(\'["shaping", {"detail": "it shapes", "lack": "", "mend": ""}]\', flush=True)\n'


def _tried(then: str, limit_s: float = 30.0) -> tuple[dict[str, dict[str, str]], str]:
    return tried([sys.executable, "-S", "-c", _FIRST + then], limit_s)


def test_what_a_slow_machine_found_is_kept() -> None:
    found, why = _tried("time.sleep(60)", limit_s=1.5)
    assert (list(found), found["shaping"]["detail"]) == (["shaping"], "it shapes")
    assert why == "the trials came no further within 1.5 s"


def test_trials_that_break_tell_their_last_line() -> None:
    found, why = _tried(
        "print('[\"half a li', end='', flush=True); sys.exit('no more\\nthe kernel said no')"
    )
    assert list(found) == ["shaping"] and why == "the trials failed: the kernel said no"
