"""Verdicts: comparisons of predictions with measurements, and whether they agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeVar

from testbed.errors import InputError, InvalidRunError, MachineDiedError
from topologies.text.json_types import Json

T = TypeVar("T")
CheckOutcome = Literal["holds", "fails", "cannot-tell"]
Relation = Literal["states", "equals", "at-least", "at-most"]
#: A measured value, alone or with half the width of its 95 % confidence interval.
Measured = float | tuple[float, float | None]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A comparison of a measured with a predicted value, or a statement that a run confirms.

    A check tries to distinguish its claim from a rival: the value that would be measured if the
    claim were false. The run cannot tell (``unsure``) if the rival passes the check too, if the
    confidence interval contains values that pass and values that do not, or if nothing was
    measured. Such a check is never passed.

    Attributes:
        name: What is compared, for people.
        predicted: The predicted value, or None.
        measured: The measured value, or None.
        tolerance: The largest difference of equal values, or None.
        passed: Whether ``measured`` stands in ``relation`` to ``predicted`` and the rival does not,
            or whether the statement ``name`` is true.
        detail: Remarks for people.
        relation: How ``measured`` must relate to ``predicted``. "states" if ``name`` is a
            statement.
        document: The value in the document that makes the claim, with its page or section.
        rival: The value that would be measured if the claim were false.
        rival_note: Description of the rival, such as "no gain", or why there is none.
        interval: The 95 % confidence interval of the measured value, or None.
        unsure: Whether the run cannot tell.
        key: Which check it is, such as "loss". The same in every run, whatever the name says.
        about: The part of the run to which the check applies, or "". "fault:3" is
            ``plan.faults[3]``; others are "link:s1->s2" and "operation:0". Key and part together
            are unique in a verdict.
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
        """The outcome of the check."""
        if self.passed:
            return "holds"
        return "cannot-tell" if self.unsure else "fails"

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
        """Return a check that cannot tell because nothing was measured.

        Args:
            name: What would be compared.
            why: Why nothing was measured.
            predicted: The predicted value.
            rival: The value that would be measured if the claim were false.
            rival_note: Description of the rival.
        """
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
        """Return this check with the value in the document, and its page or section."""
        return replace(self, document=stated)

    def against(self, rival: float | None, rival_is: str = "") -> Check:
        """Return this check with a rival, which must not pass it.

        Args:
            rival: The value that would be measured if the claim were false, or None.
            rival_is: Description of the rival, such as "no gain", or why there is none.
        """
        return replace(self, rival=rival, rival_note=rival_is)._decide()

    def plus_minus(self, half_width: float | None) -> Check:
        """Return this check with a confidence interval around the measured value.

        Args:
            half_width: Half the width of the 95 % confidence interval. None: no interval.
        """
        assert self.measured is not None
        interval = None
        if half_width is not None:
            interval = (self.measured - half_width, self.measured + half_width)
        return replace(self, interval=interval)._decide()

    def noting(self, detail: str) -> Check:
        """Return this check with a remark for people."""
        return replace(self, detail=detail)

    def _decide(self) -> Check:
        """Return this check with its outcome.

        The run cannot tell if only a part of the confidence interval passes, or if the rival passes
        too.
        """
        assert self.measured is not None
        low, high = self.interval or (self.measured, self.measured)
        some_pass = self._accepts_some(low, high)
        all_pass = self._accepts(low) and self._accepts(high)
        rival_passes = self.rival is not None and self._accepts(self.rival)
        unsure = some_pass and (rival_passes or not all_pass)
        return replace(self, passed=some_pass and not unsure, unsure=unsure)

    def _accepts(self, value: float) -> bool:
        return self._accepts_some(value, value)

    def _accepts_some(self, low: float, high: float) -> bool:
        """Return whether some value of the range from low to high passes the check."""
        bound = self.predicted
        assert bound is not None
        if self.relation == "equals":
            distance = max(low - bound, bound - high, 0.0)
            return bool(distance <= (self.tolerance or 0.0))
        if self.relation == "at-least":
            return bool(high >= bound)
        return bool(low <= bound)

    def of(self, events: float, why: str = "nothing was there to be compared") -> Check:
        """Return this check, which cannot tell if it compares no events.

        Args:
            events: Number of the packets, blocks or seconds that are compared.
            why: The remark that is added if there are none.
        """
        if events > 0:
            return self
        detail = "; ".join(filter(None, (self.detail, why)))
        return replace(self, passed=False, unsure=True, detail=detail)

    def to_json(self) -> Json:
        """Return the fields and ``outcome``, without ``key`` and ``about`` if they are empty."""
        document = asdict(self)
        for name in ("key", "about"):
            if not document[name]:
                del document[name]
        document["outcome"] = self.outcome
        return document


@dataclass(frozen=True)
class Claim:
    """A claim, which becomes a check when it is compared with a measurement.

    ``key`` and ``about`` are those of ``Check``. The methods of ``Check`` add more to it:

    >>> gain = Claim("median gain over round robin").at_least(1.5, 1.8)
    >>> gain = gain.cites("1.5 to 2, section 3.9").against(1.0, "no gain")
    >>> gain.outcome, Claim("the same, with half its interval").at_least(1.5, (1.8, 0.9)).outcome
    ('holds', 'cannot-tell')
    """

    name: str
    key: str = ""
    about: str = ""

    def equal(self, predicted: float, measured: Measured, tolerance: float = 0) -> Check:
        """Return a check that passes if both values differ by at most ``tolerance``."""
        return self._check("equals", predicted, measured, tolerance)

    def count(self, predicted: float, measured: float, why: str = "none: an exact count") -> Check:
        """Return a check that passes if two exact counts are equal.

        Args:
            predicted: The predicted count.
            measured: The measured count.
            why: Why the check has no rival.
        """
        return self.equal(predicted, measured).against(None, why)

    def at_least(self, least: float, measured: Measured) -> Check:
        """Return a check that passes if ``measured`` is ``least`` or more."""
        return self._check("at-least", least, measured, None)

    def at_most(self, most: float, measured: Measured) -> Check:
        """Return a check that passes if ``measured`` is ``most`` or less."""
        return self._check("at-most", most, measured, None)

    def _check(
        self, relation: Relation, bound: float, measured: Measured, tolerance: float | None
    ) -> Check:
        half_width = None
        if isinstance(measured, tuple):
            measured, half_width = measured
        check = Check(
            name=self.name,
            predicted=bound,
            measured=measured,
            tolerance=tolerance,
            passed=False,
            relation=relation,
            key=self.key,
            about=self.about,
        )
        return check.plus_minus(half_width)


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict:
    """All checks of one run.

    Attributes:
        checks: The checks.
        invalid: Why the run shows nothing, or None. An invalid verdict is never passed.
        notes: Remarks for people.
        lacking: What to install so that everything that was requested can run, or None.

    Raises:
        InputError: Two checks have the same ``key`` and ``about``.
    """

    checks: tuple[Check, ...]
    invalid: str | None = None
    notes: tuple[str, ...] = field(default=())
    lacking: str | None = None

    @classmethod
    def of(cls, checks: Iterable[Check], notes: Iterable[str] = ()) -> Verdict:
        """Return the verdict of a valid run."""
        return cls(checks=tuple(checks), notes=tuple(notes))

    def __post_init__(self) -> None:
        counts = Counter((check.key, check.about) for check in self.checks if check.key)
        for (key, about), count in counts.items():
            if count > 1:
                raise InputError(
                    f"verdict: two checks have the key {key!r}, both about {about!r}; keep one"
                )

    def __repr__(self) -> str:
        state = self.outcome if self.invalid is None else f"invalid: {self.invalid[:60]}"
        return f"Verdict({state}, checks: {len(self.checks)}, notes: {len(self.notes)})"

    @property
    def passed(self) -> bool:
        """True if the run is valid and has checks, all of which have passed."""
        return self.invalid is None and bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def outcome(self) -> CheckOutcome:
        """The outcome of all checks together, even if the run is invalid.

        "fails" if a check fails; otherwise "cannot-tell" if a check cannot tell or there is none;
        otherwise "holds".
        """
        return _joint_outcome(self.checks)

    def passed_about(self, part: str) -> bool | None:
        """Return whether all checks about a part of the run have passed.

        Args:
            part: The part, as in ``Check.about``.

        Returns:
            None if there is no check, or if none fails and one cannot tell.
        """
        outcome = _joint_outcome(check for check in self.checks if check.about == part)
        if outcome == "cannot-tell":
            return None
        return outcome == "holds"

    def keyed(self) -> Verdict:
        """Return this verdict with a key for each check.

        The key of a check without one is made of the words of its name, and numbered if another
        check has the same words.

        >>> checks = Claim("ROR, 2 layers").equal(1, 1), Claim("ROR: 2 layers").equal(2, 2)
        >>> Verdict(checks=checks).keyed().checks[1].key
        'ror-2-layers-2'
        """
        taken = {(check.key, check.about) for check in self.checks}
        checks: list[Check] = []
        for check in self.checks:
            if check.key:
                checks.append(check)
                continue
            base_key = re.sub(r"[^a-z0-9]+", "-", check.name.lower()).strip("-") or "check"
            key = base_key
            number = 1
            while (key, check.about) in taken:
                number += 1
                key = f"{base_key}-{number}"
            taken.add((key, check.about))
            checks.append(replace(check, key=key))
        return replace(self, checks=tuple(checks))

    @property
    def exit_code(self) -> int:
        """The exit code of a command with this verdict.

        0: passed. 1: failed. 3: a program is missing, and a part was left out. 4: the run is
        invalid. 5: the run cannot tell.
        """
        if self.invalid is not None:
            return 4
        if self.lacking and self.outcome != "fails":
            return 3
        return {"holds": 0, "fails": 1, "cannot-tell": 5}[self.outcome]

    def to_json(self) -> Json:
        """Return the JSON document of the verdict."""
        return {
            "passed": self.passed,
            "invalid": self.invalid,
            "failed": [check.name for check in self.checks if not check.passed],
            "checks": [check.to_json() for check in self.checks],
            "notes": list(self.notes),
        }


def _joint_outcome(checks: Iterable[Check]) -> CheckOutcome:
    outcomes = {check.outcome for check in checks}
    if "fails" in outcomes:
        return "fails"
    return "holds" if outcomes == {"holds"} else "cannot-tell"


def _say_nothing(_message: str) -> None:
    pass


def repeated(
    run: Callable[[], T],
    invalid: Callable[[T], str | None],
    repeats: int,
    say: Callable[[str], object] = _say_nothing,
) -> T:
    """Run, and repeat while the run is invalid because the machine could not keep up.

    Args:
        run: Carries out a run, and returns its result.
        invalid: Returns why a result is invalid, or None.
        repeats: How often an invalid run is repeated at most.
        say: Called with a message before each repetition.

    Returns:
        The first valid result, or the last one.

    Raises:
        InvalidRunError: The last run raised it.
        MachineDiedError: A run raised it. It is not repeated, because a run over several machines
            ends with the first machine that fails.
    """
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


#: Errors that the judge of a run raises if the figures do not fit the plan, or a value is missing.
IMPOSSIBLE = (ArithmeticError, LookupError, ValueError)
