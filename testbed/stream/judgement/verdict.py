"""The verdict of a streaming run."""

from collections.abc import Iterator

from testbed.model.verdict import Check, Verdict
from testbed.stream.impaired.checks import impairment_checks
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.checks import (
    checks,
    content,
    loss,
    residual_checks,
)
from testbed.stream.judgement.validity import invalid_reason

UNPREDICTED = (
    "unpredicted beside impairments: block sizes, ROR, undecodable blocks after late parity"
)


def judge(facts: Analysis) -> Verdict:
    """Return the verdict with all checks; the run is invalid if the machine did not keep up."""
    notes = facts.run.health.notes
    if facts.theory.impaired_spans:
        impaired_checks = tuple(_checks_of_impaired_run(facts))
        return Verdict(
            checks=impaired_checks,
            invalid=invalid_reason(facts),
            notes=(*notes, UNPREDICTED),
        )
    return Verdict(
        checks=tuple(checks(facts)),
        invalid=invalid_reason(facts),
        notes=notes,
    )


def _checks_of_impaired_run(facts: Analysis) -> Iterator[Check]:
    """Yield the checks of impaired links and of the losses of other faults.

    The block sizes that a sender chooses for loss bursts and delayed packets are not predicted, and
    neither is ROR in such a run.
    """
    yield from impairment_checks(facts)
    if facts.lone_impairments:
        for fault in facts.faults:
            if not fault.impaired:
                yield loss(facts, fault)
    yield from residual_checks(facts)
    yield content(facts)
