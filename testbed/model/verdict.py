"""A verdict: prediction, measurement and tolerance side by side, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack

Outcome = Literal["holds", "fails", "cannot-tell"]


class Evidence(TypedDict, total=False):
    """What a check may say beside its comparison.

    ``rival``: the value that would be measured if the claim were false; ``rival_is``: what that is, in words ("no gain"), or, alone,
    why there is none. ``uncertainty``: half width of the measurement's 95 % interval. ``stated``: what the document says, with its page.
    """

    rival: float | None
    rival_is: str
    uncertainty: float | None
    stated: float | str | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison. ``passed`` is that ``measured`` stands in ``relation`` to ``predicted``, or what ``name`` states where it is no
    comparison of the two, and that the rival would not.

    ``unsure``: tolerance or uncertainty takes the rival in, so that the run cannot tell; such a check is never passed.
    """

    name: str
    predicted: float | None
    measured: float | None
    tolerance: float | None
    passed: bool
    detail: str = ""
    relation: Literal["states", "equals", "at-least", "at-most"] = "states"
    document: float | str | None = None
    rival: float | None = None
    rival_note: str = ""
    interval: tuple[float, float] | None = None
    unsure: bool = False

    @property
    def outcome(self) -> Outcome:
        return "holds" if self.passed else "cannot-tell" if self.unsure else "fails"

    @classmethod
    def equal(
        cls, name: str, predicted: float, measured: float, *, tolerance: float = 0, **evidence: Unpack[Evidence]
    ) -> Check:
        """Holds where the two differ by ``tolerance`` at most."""
        known = cls(
            name=name, predicted=predicted, measured=measured, tolerance=tolerance, passed=False, relation="equals"
        )
        return _judged(known, lambda low, high: max(low - predicted, predicted - high, 0.0) <= tolerance, evidence)

    @classmethod
    def at_least(cls, name: str, least: float, measured: float, **evidence: Unpack[Evidence]) -> Check:
        """Holds where ``measured`` is ``least`` or more."""
        known = cls(name=name, predicted=least, measured=measured, tolerance=None, passed=False, relation="at-least")
        return _judged(known, lambda _, high: high >= least, evidence)

    @classmethod
    def at_most(cls, name: str, most: float, measured: float, **evidence: Unpack[Evidence]) -> Check:
        """Holds where ``measured`` is ``most`` or less."""
        known = cls(name=name, predicted=most, measured=measured, tolerance=None, passed=False, relation="at-most")
        return _judged(known, lambda low, _: low <= most, evidence)

    def to_json(self) -> Mapping[str, Any]:
        """The fields, and ``outcome``."""
        return asdict(self) | {"outcome": self.outcome}


def _judged(check: Check, reached: Callable[[float, float], bool], evidence: Evidence) -> Check:
    """``check`` with its outcome. ``reached(low, high)``: whether some value of that range is as the check demands.

    The rival makes the run unable to tell where it would pass as well, or where the measurement's interval holds both.
    """
    measured, rival, width = check.measured, evidence.get("rival"), evidence.get("uncertainty")
    assert measured is not None
    low, high = (measured, measured) if width is None else (measured - width, measured + width)
    passes = bool(reached(measured, measured))
    unsure = rival is not None and bool(
        (passes and reached(rival, rival)) or (low <= rival <= high and reached(low, high))
    )
    return replace(
        check,
        passed=passes and not unsure,
        unsure=unsure,
        rival=rival,
        rival_note=evidence.get("rival_is", ""),
        interval=None if width is None else (low, high),
        document=evidence.get("stated"),
        detail=evidence.get("detail", ""),
    )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All checks of one run. ``invalid`` is the reason why the run says nothing (then it is never passed), or None."""

    checks: tuple[Check, ...]
    invalid: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        return self.invalid is None and bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def outcome(self) -> Outcome:
        """That of all checks together, whether or not the run is valid: fails where one fails or there is none, else cannot tell where
        one cannot, else holds."""
        outcomes = {check.outcome for check in self.checks}
        if "fails" in outcomes or not outcomes:
            return "fails"
        return "cannot-tell" if "cannot-tell" in outcomes else "holds"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 invalid."""
        return 4 if self.invalid is not None else 0 if self.passed else 1

    def to_json(self) -> Mapping[str, Any]:
        return {
            "passed": self.passed,
            "invalid": self.invalid,
            "failed": [c.name for c in self.checks if not c.passed],
            "checks": [c.to_json() for c in self.checks],
            "notes": list(self.notes),
        }
