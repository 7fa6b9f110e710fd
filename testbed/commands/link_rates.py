"""Repeats of runs that say nothing."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from testbed.errors import InvalidRunError, MachineDiedError
from testbed.model.verdict import Verdict

Result = TypeVar("Result")


def repeated(run: Callable[[], Result], verdict_of: Callable[[Result], Verdict], repeats: int) -> Result:
    """Run; where the machine did not keep up run again, at most ``repeats`` times. Raises the last InvalidRunError, and
    MachineDiedError at once: a run over several machines ends with the first that dies."""
    for left in range(repeats, -1, -1):
        try:
            result = run()
            if verdict_of(result).invalid is None or not left:
                return result
            why = verdict_of(result).invalid
        except InvalidRunError as error:
            if not left or isinstance(error, MachineDiedError):
                raise
            why = str(error)
        print(f"testbed: {why}; once more ({left} left)", file=sys.stderr)
    raise AssertionError("unreachable")


def with_note(verdict: Verdict, note: str) -> Verdict:
    """The verdict with one more note, the first."""
    return replace(verdict, notes=(note, *verdict.notes))
