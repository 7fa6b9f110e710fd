"""The checks of a stream: each predicted figure next to the measured one, with its tolerance."""

import math
from collections.abc import Iterator
from dataclasses import replace

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.fault_figures import FaultResult
from testbed.stream.judgement.packet_logs import mislabelled
from testbed.stream.judgement.packet_totals import residual_check

# Share of packets of certain fate that may have another fate, because the clocks of switches,
# sender and faults agree only to the duration of a few packets.
MAX_WRONG = 1e-3
# Longest accepted change of routes while nodes move.
MAX_CHANGE_S = 1.0
# Says in a check why it has no rival.
_COUNTED = "none: each is counted"
# Switches round the share of a path to a multiple of this.
_LABEL_SHARE = 1 / 65536


def checks(facts: Analysis) -> Iterator[Check]:
    """Yield all checks of a run without impairments."""
    for fault in facts.faults:
        yield from _checks_of_fault(facts, fault)
    if facts.answered_faults and facts.theory.adaptive:
        yield _ror(facts)
    yield from _checks_of_packets(facts)
    yield from _checks_of_blocks(facts)
    yield from residual_checks(facts)
    yield _labels(facts)
    if facts.paths:
        yield _paths(facts)
    yield content(facts)


def _checks_of_fault(facts: Analysis, fault: FaultResult) -> Iterator[Check]:
    yield loss(facts, fault)
    if facts.theory.adaptive and fault.predicted_block_size is not None:
        yield fault_block_size(fault, facts.theory.policy.base)
    if fault in facts.answered_faults:
        yield _undecodable_in_fault(facts, fault)


def _checks_of_packets(facts: Analysis) -> Iterator[Check]:
    yield _expected_losses(facts)
    if facts.epochs_result.random_losses[0]:
        yield _random_losses(facts)
    if facts.plan.changes:
        yield _frames(facts)
        yield _longest_change(facts)


def _checks_of_blocks(facts: Analysis) -> Iterator[Check]:
    outages = facts.epochs_result.outages
    # If a fault affects all blocks, the checks of the fault include them.
    if facts.safe.any() or not len(facts.safe):
        yield _undecodable_outside_faults(facts)
    if facts.blocks_within_reach or not outages:
        yield _undecodable_outside_outages(facts)
    if outages:
        yield _undecodable_in_outages(facts)
    if facts.theory.adaptive and (facts.answerable or facts.counted.any()):
        yield _redundancy(facts)
        # Queues of TCP delay packets, and nothing predicts which of them arrive in time.
        with_tcp = "background_bps" in facts.run.counters
        if facts.epochs_result.settled_packets and not with_tcp:
            yield _late_parity(facts)


def chance_failures(facts: RunFacts, blocks: int) -> int:
    """Return how many blocks may be undecodable by chance, although N is right.

    It is 0 if labels determine the losses. Otherwise it is the number of decoding errors that is
    exceeded with a probability of one in a thousand (Poisson distribution).
    """
    if facts.theory.deterministic:
        return 0
    mean = blocks * facts.plan.stream.decoding_error_rate
    failures = 0
    term = math.exp(-mean)
    tail = 1 - term
    while tail > 1e-3:
        failures += 1
        term *= mean / failures
        tail -= term
    return failures


def loss(facts: RunFacts, fault: FaultResult) -> Check:
    """Return the check of the loss of one fault of a run.

    The run cannot tell if the fault loses all packets, and nothing arrived outside faults either.
    """
    check = fault_loss(fault)
    if fault.predicted_loss < 1:
        return check
    # A loss of all packets is no evidence for the fault if nothing arrived at other times either.
    arrived = int((~facts.run.lost & (facts.loss_bounds.highest == 0)).sum())
    return check.of(arrived, "nothing arrived outside faults either")


def fault_loss(fault: FaultResult) -> Check:
    """Return the check of the loss of a fault, which uses the figures of this fault alone."""
    low, high = fault.interval
    inside = low - _LABEL_SHARE <= fault.predicted_loss <= high + _LABEL_SHARE
    return Check(
        name=f"loss, {fault.link} {fault.kind}",
        key="loss",
        about=fault.about,
        predicted=fault.predicted_loss,
        measured=fault.measured_loss,
        tolerance=(high - low) / 2,
        passed=fault.measured_loss is not None and inside,
        detail=f"{fault.packets} packets; the true loss lies in [{low:.4f}, {high:.4f}]",
        rival=1.0 if fault.kind in ("down", "blackhole") and high < 1 else None,
        rival_note="all, as on a single path",
    ).of(fault.packets)


def fault_block_size(fault: FaultResult, base: int) -> Check:
    """Return the check of the block size N in a fault.

    Args:
        fault: The figures of the fault.
        base: N outside faults, which is the rival: a sender that never raises N.
    """
    low, high = fault.block_size_range
    measured = fault.measured_block_size
    detail = f"the sender's policy gives {low} to {high} for losses it cannot tell apart"
    if low == high:
        detail = f"N for the labels that are lost is {low}"
    in_range = measured is not None and low - 0.5 <= measured <= high + 0.5
    check = Check(
        name=f"block size, {fault.link} {fault.kind}",
        key="block-size",
        about=fault.about,
        predicted=fault.predicted_block_size,
        measured=measured,
        tolerance=(high - low) / 2 + 0.5,
        passed=fault.sender_reacted and in_range,
        detail=detail,
        rival=float(base) if base < low else None,
        rival_note="N is never raised" if base < low else "none: no larger N is called for",
    )
    return check.of(1 if measured is not None else 0)


def _undecodable_in_fault(facts: RunFacts, fault: FaultResult) -> Check:
    name = f"undecodable blocks, {fault.link} {fault.kind}"
    claim = Claim(name, "undecodable-blocks", fault.about)
    blocks = fault.steady_blocks
    check = _within(claim, 0, fault.undecodable_blocks, chance_failures(facts, blocks))
    transient = f"{fault.transient_blocks_lost} of {fault.transient_blocks} transient blocks"
    detail = f"{blocks} blocks after the reaction; {transient} were not saved by late parity"
    return check.noting(detail).of(blocks)


def _ror(facts: Analysis) -> Check:
    ror = facts.ror
    claim = Claim("ROR over the failed links", "ror")
    check = _against_none(_within(claim, ror.predicted, ror.measured, ror.tolerance))
    source = f"Gabrielyan 2007, eq. 23, with the block sizes of {facts.theory.policy.name}"
    detail = f"{source}; counting whole blocks leaves {ror.error:.3f} open"
    return check.noting(detail).of(ror.counted)


def _expected_losses(facts: Analysis) -> Check:
    result = facts.epochs_result
    claim = Claim("packets that fared otherwise than their labels say", "packet-fates")
    wrong = result.wrongly_lost + result.wrongly_arrived
    check = _within(claim, 0, wrong, max(2.0, MAX_WRONG * result.certain))
    parts = f"{result.wrongly_lost} lost, {result.wrongly_arrived} arrived"
    uncertain = f"{result.uncertain} more were under way during a change"
    detail = f"of {result.certain} packets; {parts}; {uncertain}"
    return check.noting(detail).of(result.certain)


def _random_losses(facts: Analysis) -> Check:
    expected, lost, four_deviations = facts.epochs_result.random_losses
    claim = Claim("packets lost at random", "random-losses")
    check = _within(claim, expected, lost, four_deviations + 1)
    return check.noting("four standard deviations")


def _frames(facts: Analysis) -> Check:
    frames = [frame for frame in facts.epochs_result.frames if frame.packets]
    wrong = [frame for frame in frames if not frame.agrees]
    differences = [abs(frame.predicted_loss - frame.measured_loss) for frame in frames]
    worst = max(differences, default=0.0)
    claim = Claim("frames whose loss is not the predicted one", "frame-losses")
    detail = f"of {len(frames)}; largest difference {100 * worst:.2f} points"
    if wrong:
        detail += f"; frame {wrong[0].frame} is the first"
    return _within(claim, 0, len(wrong), 0).noting(detail).of(len(frames))


def _longest_change(facts: Analysis) -> Check:
    result = facts.epochs_result
    longest_s = math.inf if result.longest_change_s is None else result.longest_change_s
    changes = len(facts.plan.changes)
    until = "from the links' change to the last switch that sends by the new split"
    return Check(
        name="longest change of the plan, s",
        key="longest-change",
        measured=longest_s,
        tolerance=MAX_CHANGE_S,
        passed=len(result.frames) == changes + 1 and longest_s <= MAX_CHANGE_S,
        detail=f"{changes} changes, {until}",
    )


def _undecodable_outside_faults(facts: RunFacts) -> Check:
    failed = int((facts.safe & facts.run.never_complete).sum())
    claim = Claim("undecodable blocks outside faults", "undecodable-blocks")
    return claim.count(0, failed, _COUNTED).of(int(facts.safe.sum()))


def _undecodable_outside_outages(facts: Analysis) -> Check:
    result = facts.epochs_result
    blocks = facts.blocks_within_reach
    claim = Claim(
        "undecodable blocks within the code's reach",
        "undecodable-within-reach",
    )
    check = claim.equal(0, result.undecodable_within_reach, chance_failures(facts, blocks))
    at_once = f"up to {result.most_at_once} at once, {result.overlapping_s:.1f} s of overlap"
    return check.noting(f"{result.faults} faults, {at_once}").of(blocks)


def _undecodable_in_outages(facts: Analysis) -> Check:
    outages = facts.epochs_result.outages
    low = sum(outage.predicted for outage in outages)
    high = sum(outage.predicted_most for outage in outages)
    measured = sum(outage.measured for outage in outages)
    blocks = sum(outage.blocks for outage in outages)
    claim = Claim(
        "undecodable blocks beyond the code's reach",
        "undecodable-beyond-reach",
    )
    check = _within(claim, (low + high) / 2, measured, (high - low) / 2)
    return check.noting(f"in {len(outages)} outages, listed in the run's figures").of(blocks)


def _redundancy(facts: Analysis) -> Check:
    result = facts.epochs_result
    claim = Claim(
        "redundancy of what was sent once the sender had answered",
        "redundancy",
    )
    predicted = result.redundancy_predicted
    check = _within(claim, predicted, result.redundancy_measured, result.ror_tolerance)
    over = f"mean of N/FEC_t - 1 over {result.redundancy_over_s:.1f} s of blocks"
    detail = f"{over}; {result.transient_packets} packets more in the transients"
    accuracy = result.diagnoses
    if accuracy is not None:
        detail += f"; {accuracy}"
        # A reaction to a wrong diagnosis is no answer.
        if accuracy.right < accuracy.certain and facts.exact.all():
            check = replace(check, passed=False)
    return _against_none(check).noting(detail).of(result.redundancy_over_s)


def _late_parity(facts: Analysis) -> Check:
    """Return the check that no late parity is sent after the sender's answers.

    Blocks that are undecodable by chance although N is right get late parity up to the largest N.
    The tolerance includes these packets.
    """
    result = facts.epochs_result
    packets = result.settled_packets
    policy = facts.theory.policy
    by_chance = chance_failures(facts, int(facts.informed.sum())) * (policy.largest - policy.base)
    name = "late parity once the sender had answered, packets"
    claim = Claim(name, "late-parity-once-answered")
    tolerance = max(2.0, MAX_WRONG * packets) + by_chance
    check = _within(claim, 0, result.settled_late_parity, tolerance)
    return check.noting(f"of {packets} packets").of(packets)


def residual_checks(facts: RunFacts) -> Iterator[Check]:
    """Yield the check of the losses of a stream without parity; nothing if it has parity."""
    check = residual_check(facts)
    if check is not None:
        yield check


def _labels(facts: RunFacts) -> Check:
    wrong, packets = mislabelled(facts.plan, facts.run)
    claim = Claim("packets under another label than the plan's", "labels")
    return claim.count(0, wrong, _COUNTED).noting(f"of {packets} looked at").of(packets)


def _paths(facts: Analysis) -> Check:
    """Return the check that no path has another loss than predicted.

    Paths without packets of certain fate are left out.
    """
    compared = [path for path in facts.paths if path.certain]
    wrong = [path for path in compared if not path.agrees]
    claim = Claim("paths whose loss is not the predicted one", "path-losses")
    detail = f"of {len(compared)}"
    if wrong:
        detail += f"; path {wrong[0].path} is the first"
    return claim.count(0, len(wrong), _COUNTED).noting(detail).of(len(compared))


def content(facts: RunFacts) -> Check:
    """Return the check that no packet was corrupted."""
    corrupted = int(facts.run.counters.get("corrupted", 0))
    check = Claim("corrupted packets", "corrupted-packets").count(0, corrupted, _COUNTED)
    return check.of(corrupted + len(facts.run.received.time_s))


def _within(claim: Claim, predicted: float, measured: float, tolerance: float) -> Check:
    """Return the check, without rival, that two figures differ by ``tolerance`` at most."""
    return Check(
        name=claim.name,
        key=claim.key,
        about=claim.about,
        predicted=predicted,
        measured=measured,
        tolerance=tolerance,
        passed=abs(measured - predicted) <= tolerance,
        rival_note=_COUNTED,
    )


def _against_none(check: Check) -> Check:
    """Return the check of a redundancy with the rival 0, for no redundancy at all.

    It has no rival if 0 is within the tolerance.
    """
    distinct = abs(check.predicted or 0) > (check.tolerance or 0)
    if distinct:
        return replace(check, rival=0.0, rival_note="no redundancy is added")
    return replace(
        check,
        rival_note="none: the prediction is too near to no redundancy at all",
    )
