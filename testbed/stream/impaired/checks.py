"""Checks of what impaired links did to a stream's packets.

They compare losses, loss bursts, copies, extra delays and reordering with their predictions. Each
check names its rival: the figure that would be measured if the link were not impaired, or if it
lost the same share of packets independently of each other.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.block_losses import INDEPENDENT, block_checks
from testbed.stream.impaired.burst_loss import (
    follows_a_loss,
    mean_of,
    share_error,
    survival_covariance,
)
from testbed.stream.impaired.delay_spread import (
    DelaySpread,
    overtaken_packets,
    predicted_delay_spread,
)
from testbed.stream.impaired.tolerances import (
    MIN_PACKETS,
    SIGMAS,
    burst_tolerance,
    loss_tolerance,
    number_of_chains,
    without_copies,
)
from testbed.stream.impaired.trace_checks import trace_checks
from testbed.stream.impaired.traversals import LinkTraversal, link_traversals
from testbed.stream.measurements import FloatArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import ImpairedSpan
from topologies import label_of
from topologies.impairments import (
    Duplication,
    ExtraDelay,
    RateTrace,
    Reordering,
    to_text,
)

# What the fabric itself may add to the mean extra delay: real switches and the relay, or the
# simulator, where it is only a rounding error.
GRAIN_S = 0.004
_SIMULATOR_GRAIN_S = 1e-6


def impairment_checks(facts: RunFacts) -> list[Check]:
    """Return the checks of all impaired links that the stream crossed.

    A link of which nothing can be predicted has one check, which says that the run cannot tell.
    """
    crossings = link_traversals(facts)
    checks: list[Check] = []
    for crossing in crossings:
        checks_of_link = list(_link_checks(facts, crossing))
        if not checks_of_link:
            checks_of_link.append(_unpredicted(facts.plan, crossing.span))
        checks += [_identified(facts.plan, crossing.span, check) for check in checks_of_link]
    return checks + block_checks(facts, crossings)


def unrest_s(facts: RunFacts) -> float:
    """Return the spread of the transit times of packets that met no impairment, in seconds.

    It is the 99th percentile of their transit times beyond propagation, minus the median: the delay
    that the machine itself adds. It is 0 if no impairment concerns delays.
    """
    unrest = 0.0
    for crossing in link_traversals(facts):
        for step in crossing.span.impairments:
            if isinstance(step, (ExtraDelay, Reordering, RateTrace)):
                unrest = max(unrest, crossing.unrest_s[0])
    return unrest


def span_label(plan: StreamPlan, span: ImpairedSpan) -> str:
    """Return the link and its impairments, as checks name them.

    If a fault impairs both directions of a link, both have the name of the fault's direction.
    """
    link = plan.network.links[span.link].id
    if span.fault is not None:
        link = plan.faults[span.fault].link
    return f"{label_of(link)} {to_text(span.impairments)}"


def _identified(plan: StreamPlan, span: ImpairedSpan, check: Check) -> Check:
    """Return the check with the fault or the link that it is about.

    If a fault impairs both directions of a link, the checks of the reverse one have keys that end
    in ``-back``.
    """
    link = plan.network.links[span.link].id
    if span.fault is None:
        return replace(check, about=f"link:{label_of(link)}")
    key = check.key if link == plan.faults[span.fault].link else f"{check.key}-back"
    return replace(check, key=key, about=f"fault:{span.fault}")


def _unpredicted(plan: StreamPlan, span: ImpairedSpan) -> Check:
    why = "too few packets crossed it alone, or the words together have no prediction"
    check = Check.unmeasured(f"unpredicted, {span_label(plan, span)}", why)
    return replace(check, key="unpredicted")


def _link_checks(facts: RunFacts, crossing: LinkTraversal) -> Iterator[Check]:
    run = facts.run
    impairments = crossing.span.impairments
    ending = span_label(facts.plan, crossing.span)
    if len(crossing.own) < MIN_PACKETS:
        return
    if any(isinstance(step, RateTrace) for step in impairments):
        yield from trace_checks(facts, crossing, ending)
        return
    if mean_of(impairments) > 0:
        yield _loss_check(run, crossing, ending)
    if number_of_chains(impairments) == 1:
        yield _burst_check(run, crossing, ending)
    if sum(isinstance(step, Duplication) for step in impairments) == 1:
        yield _copies_check(run, crossing, ending)
    yield from _waiting_checks(run, crossing, ending)


def _loss_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    impairments = crossing.span.impairments
    packets = len(crossing.own)
    lost = float(run.lost[crossing.own].mean())
    expected = mean_of(without_copies(impairments))
    claim = Claim(f"share of packets lost, {ending}", "loss")
    check = claim.equal(expected, lost, loss_tolerance(impairments, packets))
    return check.against(0.0, "nothing is lost").noting(f"{packets} packets crossed")


def _burst_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    """Return the check of how often the packet after a lost one is lost too.

    Two consecutive packets of the link count if neither met another fault or impairment.
    """
    losing = without_copies(crossing.span.impairments)
    lost = run.lost[crossing.packets]
    first = lost[:-1] & crossing.alone[:-1] & crossing.alone[1:]
    losses = int(first.sum())
    both = int((first & lost[1:]).sum())
    expected = follows_a_loss(losing)
    claim = Claim(f"share of losses that follow a loss, {ending}", "losses-in-a-row")
    check = claim.equal(expected, both / max(1, losses), burst_tolerance(losing, losses))
    mean_burst = 1 / max(1e-9, 1 - expected)
    detail = f"{losses} losses; bursts of {mean_burst:.1f} packets predicted on average"
    return check.against(mean_of(losing), INDEPENDENT).noting(detail)


def _copies_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    impairments = crossing.span.impairments
    position = next(k for k, step in enumerate(impairments) if isinstance(step, Duplication))
    copier = impairments[position]
    assert isinstance(copier, Duplication)
    before = impairments[:position]
    after = impairments[position + 1 :]
    both_survive = (1 - mean_of(after)) ** 2 + survival_covariance(after, 1)
    expected = (1 - mean_of(before)) * copier.fraction * both_survive
    packets = len(crossing.own)
    copied = float((run.deliveries.copies[crossing.own] > 1).mean())
    variance = expected * (1 - expected) / packets
    # Losses in bursts take copies with them. Behind the copier either copy may be lost.
    if mean_of(before) > 0:
        variance += (copier.fraction * share_error(before, packets)) ** 2
    if mean_of(after) > 0:
        variance += (2 * copier.fraction * share_error(after, packets)) ** 2
    tolerance = SIGMAS * math.sqrt(variance) + 1 / packets
    claim = Claim(f"share of packets that came twice, {ending}", "duplicates")
    check = claim.equal(expected, copied, tolerance).against(0.0, "no packet comes twice")
    return check.noting(f"{packets} packets crossed; a packet that comes twice is decoded once")


def _waiting_checks(
    run: StreamMeasurements, crossing: LinkTraversal, ending: str
) -> Iterator[Check]:
    """Yield the checks of the mean extra delay and of the share of reordered packets.

    Both are predicted by Monte Carlo simulation for the actual times of sending.
    """
    arrived = crossing.alone & ~run.lost[crossing.packets]
    packets = crossing.packets[arrived]
    sent_s = run.sent.time_s[packets]
    predicted = predicted_delay_spread(crossing.span.impairments, sent_s)
    if predicted is None or len(packets) < MIN_PACKETS:
        return
    grain_s = GRAIN_S if run.fabric == "emulation" else _SIMULATOR_GRAIN_S
    transit_s = run.deliveries.transit_s[packets]
    wait_s = float((transit_s - crossing.base_s[arrived]).mean())
    tolerance_s = SIGMAS * predicted.mean_error_s + grain_s
    claim = Claim(f"mean wait, s, {ending}", "mean-wait")
    check = claim.equal(predicted.mean_s, wait_s, tolerance_s).against(0.0, "no packet waits")
    allowance = f"{grain_s * 1000:g} ms are left to the fabric"
    yield check.noting(f"{len(packets)} packets arrived; {allowance}")
    if predicted.overtaken > 0:
        yield _overtaken_check(predicted, sent_s + transit_s, grain_s, ending)


def _overtaken_check(
    predicted: DelaySpread,
    arrived_s: FloatArray,
    grain_s: float,
    ending: str,
) -> Check:
    measured = float(overtaken_packets(arrived_s).mean())
    tolerance = SIGMAS * predicted.overtaken_error + predicted.overtaken_slack(grain_s)
    claim = Claim(f"share of packets overtaken, {ending}", "overtaken")
    check = claim.equal(predicted.overtaken, measured, tolerance)
    definition = "packets that came after one sent later (RFC 4737)"
    detail = f"{definition}; predicted by drawing waits for the times of sending"
    return check.against(0.0, "no packet overtakes another").noting(detail)
