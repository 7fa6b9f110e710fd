"""A verdict: prediction, measurement and tolerance side by side, and whether they agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Literal, TypeVar

from testbed.errors import InputError, InvalidRunError, MachineDiedError
from topologies.text.json_types import Json

T = TypeVar("T")
CheckOutcome = Literal["holds", "fails", "cannot-tell"]
Relation = Literal["states", "equals", "at-least", "at-most"]
Measured = float | tuple[float, float | None]
"""What was measured, alone or with half the width of its 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison. ``passed`` is that ``measured`` stands in ``relation`` to ``predicted``, or what ``name`` states
    where it is no comparison of the two, and that the rival would not.

    ``unsure``: the run cannot tell, since the tolerance takes the rival in, since the interval holds values that pass
    and values that do not, or since nothing was there to be compared; such a check is never passed. ``key``: which
    check it is, whatever its name says, the same in every run ("loss"); ``about``: which part of the run it speaks of
    ("fault:3": ``plan.faults[3]``, "link:s1->s2", "operation:0"), or empty. Both together are unique in a verdict.
    """

    name: str
    predicted: float | None = None
    measured: float | None = None
    tolerance: float | None = None
    passed: bool
    detail: str = ""
    relation: Relation = "states"
    document: float | str | None = None
    rival: float | None = None
    rival_note: str = ""
    interval: tuple[float, float] | None = None
    unsure: bool = False
    key: str = ""
    about: str = ""

    @property
    def outcome(self) -> CheckOutcome:
        return "holds" if self.passed else "cannot-tell" if self.unsure else "fails"

    @classmethod
    def unmeasured(
        cls,
        name: str,
        why: str,
        *,
        predicted: float | None = None,
        rival: float | None = None,
        rival_note: str = "",
    ) -> Check:
        """One that cannot tell, since nothing was measured, and ``why``."""
        return cls(
            name=name,
            predicted=predicted,
            passed=False,
            unsure=True,
            rival=rival,
            rival_note=rival_note,
            detail=why,
        )

    def cites(self, stated: float | str | None) -> Check:
        """This check, with what the document says, and its page or section."""
        return replace(self, document=stated)

    def against(self, rival: float | None, rival_is: str = "") -> Check:
        """This check, distinguished from ``rival``: the value that would be measured if the claim were false.
        ``rival_is``: what that is, in words ("no gain"), or, where the value is None, why there is none."""
        return replace(self, rival=rival, rival_note=rival_is)._decide()

    def plus_minus(self, half_width: float | None) -> Check:
        """This check, with half the width of the measurement's 95 % interval."""
        assert self.measured is not None
        interval = (
            None if half_width is None else (self.measured - half_width, self.measured + half_width)
        )
        return replace(self, interval=interval)._decide()

    def noting(self, detail: str) -> Check:
        """This check, with a detail for its reader."""
        return replace(self, detail=detail)

    def _decide(self) -> Check:
        """With its outcome: a run cannot tell where the interval of what was measured crosses the check's own bar, or
        where the rival would pass as well."""
        assert self.measured is not None
        low, high = self.interval or (self.measured, self.measured)
        reached, throughout = (
            self._reached(low, high),
            self._reached(low, low) and self._reached(high, high),
        )
        rival_too = self.rival is not None and self._reached(self.rival, self.rival)
        unsure = reached and (rival_too or not throughout)
        return replace(self, passed=reached and not unsure, unsure=unsure)

    def _reached(self, low: float, high: float) -> bool:
        """Whether some value of that range is as the check demands."""
        bound, tolerance = self.predicted, self.tolerance or 0.0
        assert bound is not None
        if self.relation == "equals":
            return bool(max(low - bound, bound - high, 0.0) <= tolerance)
        return bool(high >= bound if self.relation == "at-least" else low <= bound)

    def of(self, events: float, why: str = "nothing was there to be compared") -> Check:
        """This check, where it compares so many events (packets, blocks, seconds); of none it cannot tell, and says
        ``why``."""
        if events > 0:
            return self
        return replace(
            self, passed=False, unsure=True, detail="; ".join(filter(None, (self.detail, why)))
        )

    def to_json(self) -> Json:
        """The fields, ``key`` and ``about`` only where they say something, and ``outcome``."""
        left_out = [name for name in ("key", "about") if not getattr(self, name)]
        return {k: v for k, v in asdict(self).items() if k not in left_out} | {
            "outcome": self.outcome
        }


@dataclass(frozen=True)
class Claim:
    """What is claimed, in words; ``key`` and ``about`` as of ``Check``. It becomes a check with the measurement, and
    the check says more:

    >>> gain = Claim("median gain over round robin").at_least(1.5, 1.8).cites("1.5 to 2, section 3.9")
    >>> gain = gain.against(1.0, "no gain")
    >>> gain.outcome, Claim("the same, with half its interval").at_least(1.5, (1.8, 0.9)).outcome
    ('holds', 'cannot-tell')
    """

    name: str
    key: str = ""
    about: str = ""

    def equal(self, predicted: float, measured: Measured, tolerance: float = 0) -> Check:
        """Holds where the two differ by ``tolerance`` at most."""
        return self._check("equals", predicted, measured, tolerance)

    def count(self, predicted: float, measured: float, why: str = "none: an exact count") -> Check:
        """Holds where the two are equal; ``why`` says that there is no rival, as nothing is left to chance."""
        return self.equal(predicted, measured).against(None, why)

    def at_least(self, least: float, measured: Measured) -> Check:
        """Holds where ``measured`` is ``least`` or more."""
        return self._check("at-least", least, measured, None)

    def at_most(self, most: float, measured: Measured) -> Check:
        """Holds where ``measured`` is ``most`` or less."""
        return self._check("at-most", most, measured, None)

    def _check(
        self, relation: Relation, bound: float, measured: Measured, tolerance: float | None
    ) -> Check:
        value, half_width = measured if isinstance(measured, tuple) else (measured, None)
        known = Check(
            name=self.name, predicted=bound, measured=value, tolerance=tolerance, passed=False, relation=relation,
            key=self.key, about=self.about,
        )  # fmt: skip
        return known.plus_minus(half_width)


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """All checks of one run. ``invalid`` is the reason why the run says nothing (then it is never passed), or None;
    ``lacking``: what to install so that all that was requested can run, or None.

    Raises InputError where two checks of one key speak of the same.
    """

    checks: tuple[Check, ...]
    invalid: str | None = None
    notes: tuple[str, ...] = field(default=())
    lacking: str | None = None

    @classmethod
    def of(cls, checks: Iterable[Check], notes: Iterable[str] = ()) -> Verdict:
        """That of a run which is valid."""
        return cls(checks=tuple(checks), notes=tuple(notes))

    def __post_init__(self) -> None:
        named = [(check.key, check.about) for check in self.checks if check.key]
        twice = (
            next((pair for pair in named if named.count(pair) > 1), None)
            if len(set(named)) < len(named)
            else None
        )
        if twice is not None:
            raise InputError(
                f"verdict: two checks have the key {twice[0]!r}, both about {twice[1]!r}; keep one"
            )

    def __repr__(self) -> str:
        state = self.outcome if self.invalid is None else f"invalid: {self.invalid[:60]}"
        return f"Verdict({state}, checks: {len(self.checks)}, notes: {len(self.notes)})"

    @property
    def passed(self) -> bool:
        return self.invalid is None and bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def outcome(self) -> CheckOutcome:
        """That of all checks together, whether or not the run is valid: fails where one fails, else cannot tell where
        one cannot or there is none, else holds."""
        outcomes = {check.outcome for check in self.checks}
        return (
            "fails" if "fails" in outcomes else "holds" if outcomes == {"holds"} else "cannot-tell"
        )

    def passed_about(self, what: str) -> bool | None:
        """What the checks about it say together: False where one fails, None where there is none or one cannot tell."""
        outcomes = {check.outcome for check in self.checks if check.about == what}
        return False if "fails" in outcomes else True if outcomes == {"holds"} else None

    def keyed(self) -> Verdict:
        """The same, where each check that has no key is given the words of its name for one, numbered where two share
        them.

        >>> checks = Claim("ROR, 2 layers").equal(1, 1), Claim("ROR: 2 layers").equal(2, 2)
        >>> Verdict(checks=checks).keyed().checks[1].key
        'ror-2-layers-2'
        """
        taken, checks = {(check.key, check.about) for check in self.checks}, []
        for check in self.checks:
            if not check.key:
                words = re.sub(r"[^a-z0-9]+", "-", check.name.lower()).strip("-") or "check"
                keys = (words if number == 1 else f"{words}-{number}" for number in count(1))
                check = replace(
                    check, key=next(key for key in keys if (key, check.about) not in taken)
                )
                taken.add((check.key, check.about))
            checks.append(check)
        return replace(self, checks=tuple(checks))

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 a part was left out for want of a program, 4 invalid, 5 cannot tell."""
        if self.invalid is not None:
            return 4
        if self.lacking and self.outcome != "fails":
            return 3
        return {"holds": 0, "fails": 1, "cannot-tell": 5}[self.outcome]

    def to_json(self) -> Json:
        return {
            "passed": self.passed,
            "invalid": self.invalid,
            "failed": [c.name for c in self.checks if not c.passed],
            "checks": [c.to_json() for c in self.checks],
            "notes": list(self.notes),
        }


def repeated(
    run: Callable[[], T],
    invalid: Callable[[T], str | None],
    repeats: int,
    say: Callable[[str], object] = lambda _: None,
) -> T:
    """Run; where that says nothing because the machine did not keep up (``invalid``: why, or None), run again, at most
    ``repeats`` times, and ``say`` so. Raises the last InvalidRunError, and MachineDiedError at once: a run over several
    machines ends with the first that dies."""
    for left in range(repeats, -1, -1):
        try:
            result = run()
            why = invalid(result)
            if why is None or not left:
                return result
        except InvalidRunError as error:
            if not left or isinstance(error, MachineDiedError):
                raise
            why = str(error)
        say(f"{why}; once more ({left} left)")
    raise AssertionError("unreachable")


IMPOSSIBLE = (ArithmeticError, LookupError, ValueError)
"""What a judge stumbles over where figures cannot be those of a plan, or lack what its checks compare."""
