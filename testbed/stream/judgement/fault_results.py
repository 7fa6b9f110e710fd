"""What happened in each fault of a run: loss, block size, what was sent, how soon the sender answered, and whom it
suspected; pure numpy.

A fault's figures come from its steady part: from the sender's answer, which is the first packet under an N that
suffices and, where the sender diagnoses, the moment from which it was certain what had failed, to the fault's end. What
was cut before is counted apart.
"""

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from fec import fec_block_size
from fec.redundancy.block_size import binomial_interval, order_share, window_share_error
from fec.redundancy.candidates import CandidateTable
from fec.redundancy.label_layout import block_size_bound
from fec.redundancy.labels import LABELS
from testbed.faults.fault import Fault, FaultTimes
from testbed.model.run_records import FaultOutcome
from testbed.stream.judgement.timing_errors import max_queueing_delay_s
from testbed.stream.measurements import (
    BlockOutcomes,
    BoolArray,
    IntArray,
    SentPackets,
    StreamMeasurements,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import predicted_loss
from testbed.stream.prediction.active_faults import (
    DIAGNOSES,
    Epoch,
    cable_name,
    candidate_table,
    epochs,
    exact_block_size,
    fault_intervals,
    is_diagnosing,
    is_exact,
)
from testbed.stream.prediction.block_size_policy import BlockSizePolicy, is_deterministic
from testbed.stream.prediction.epoch_analysis import DiagnosisAccuracy
from testbed.stream.prediction.path_delays import allowed_reaction_s, delay_to_fault_s
from topologies import Json, label_of

# The probability that a normal variable lies within four standard deviations.
_FOUR_SIGMAS = 1 - 6.3e-5
_QUEUED_BEFORE_S = 0.25
"""So long before a repair packets may still lie in a switch at it."""


@dataclass(frozen=True, kw_only=True)
class FaultDiagnosis:
    """Whom the sender suspected of a fault. ``cables``: all that it could not tell apart; ``right``: the failed one is
    among them and, where it was certain, just the labels that it carries were taken for lost.

    ``certain``: one set of lost labels was left, ``certain_after_s`` after the failure, in which
    ``certain_after_packets`` were sent (both None where it never was certain).
    """

    cables: tuple[str, ...]
    right: bool
    certain: bool
    certain_after_packets: int | None
    certain_after_s: float | None


@dataclass(frozen=True, kw_only=True)
class FaultResult(FaultOutcome):
    """A fault of a stream as it is judged; packets at its end that are ``undecided_packets`` are left out of the
    loss."""

    interval: tuple[float, float]
    size_range: tuple[int, int]
    diagnosis: FaultDiagnosis | None
    sent_per_source: float | None
    """Coded packets sent per source packet, late parity left out, counted over the whole blocks begun after the answer
    and sent before the fault's end, but for the ``misled_blocks`` among them (``lateness``)."""
    sent_per_source_error: float
    """The standard error of that mean."""
    transient_packets: int
    """Sent between failure and answer."""
    transient_late_parity: int
    """The late parity among them."""
    settled_late_parity: int = 0
    """Of the blocks that ``sent_per_source`` counts."""
    misled_blocks: int = 0
    sent_per_source_misled: float | None = None
    """``sent_per_source`` with the misinformed blocks counted as well."""
    about: str = ""
    """Which of the plan's faults it is, as checks name it ("fault:3")."""

    @property
    def impaired(self) -> bool:
        """Whether the link was impaired: its kind is then the words that say how."""
        return self.kind not in ("down", "blackhole", "loss")

    def to_json(self) -> dict[str, object]:
        """The keys of ``testbed stream --json``'s ``per_fault`` (docs/reference/commands.md)."""
        document = {k: list(v) if isinstance(v, tuple) else v for k, v in self.__dict__.items()}
        return document | {"diagnosis": None if self.diagnosis is None else asdict(self.diagnosis)}


def labels_decide(plan: StreamPlan, fault: Fault) -> bool:
    """Whether the order of labels decides how many packets the fault takes, whatever other faults of the plan do."""
    return plan.stream.labels == "stratified" and not fault.partial


def fault_result(
    plan: StreamPlan,
    run: StreamMeasurements,
    times: FaultTimes,
    lost: BoolArray,
    policy: BlockSizePolicy,
    spurious: IntArray,
) -> FaultResult:
    """Everything about one fault of a run in which faults do not overlap; ``spurious``: numbers of the blocks that a
    misinformed sender began. Cost: a few passes over the packets sent around it."""
    fault = times.fault
    before_s = delay_to_fault_s(plan, fault)
    run, lost = around(run, times, lost, before_s)
    loss = predicted_loss(plan, fault)
    predicted = predicted_block_size(plan, times, loss, policy.base)
    low, high = size_range(plan, loss, policy)
    if predicted is not None and predicted > policy.largest:
        predicted = None  # beyond the code's reach
    if is_exact(plan, fault) and predicted is not None:
        low = high = predicted
    needs_more = plan.stream.block_size is None and loss < 1 and low > policy.base
    reaction = _reaction(run, times, low) if needs_more else None
    diagnosis = _diagnosis(run, times, loss) if is_diagnosing(plan) else None
    answered = _answered_s(times, needs_more, reaction, diagnosis, allowed_reaction_s(plan))
    block_s = plan.stream.block_s
    apart_s = run.clocks.fault_to_sender_s
    # What lay in a switch at the repair may have come through: blocks that could have had packets there are left out.
    ends_s = (
        times.stop_s
        - before_s
        - apart_s
        - (
            max_queueing_delay_s(plan, run, times.stop_s - _QUEUED_BEFORE_S)
            if run.fabric == "emulation"
            else 0.0
        )
    )
    starts, last = run.blocks.started_s, ends_s - 2 * block_s
    begun_since = (starts >= answered + apart_s) & (starts < last)
    mask = begun_since[run.place_of_block] & (run.sent.time_s < ends_s)
    packets = int(mask.sum())
    broken, late = run.never_complete, run.blocks.late_source_packets
    transient = (starts >= times.start_s - 2 * block_s - before_s) & (starts < answered)
    steady = (starts >= answered) & (starts < times.stop_s)
    sizes = run.sent.block_size[run.first_of_block & mask]
    # a block that began at the very moment of the answer may have had the N from before it
    counted, spurious_losses = (
        (starts > answered) & (starts < last),
        np.isin(run.blocks.block, spurious),
    )
    ratio, error = sent_per_source(plan, run, counted & ~spurious_losses)
    late_parity = np.maximum(0, run.packets_of_block - run.size_begun)
    return FaultResult(
        link=label_of(fault.link),
        kind=fault.description,
        start_s=times.start_s,
        stop_s=times.stop_s,
        predicted_loss=loss,
        measured_loss=float(lost[mask].mean()) if packets else None,
        interval=loss_interval(plan, times, packets, lost[mask]),
        packets=packets,
        predicted_block_size=None if fault.impairments else predicted,
        bound_block_size=None
        if loss >= 1 or fault.impairments
        else _bound(plan, times, loss, policy.base),
        measured_block_size=float(np.median(sizes)) if len(sizes) else None,
        mean_block_size=float(sizes.mean()) if len(sizes) else None,
        size_range=(low, high),
        reacted=not needs_more or reaction is not None,
        reaction_s=reaction,
        transient_blocks=int(transient.sum()),
        transient_blocks_lost=int((transient & broken).sum()),
        steady_blocks=int(steady.sum()),
        undecodable_blocks=int((steady & broken).sum()),
        late_packets=int(late[steady].sum()),
        transient_late_packets=int(late[transient].sum()),
        port_status_s=times.port_status_s,
        diagnosis=diagnosis,
        sent_per_source=ratio,
        sent_per_source_error=error,
        transient_packets=int(
            ((run.sent.time_s >= times.start_s) & (run.sent.time_s < answered)).sum()
        ),
        transient_late_parity=int(late_parity[transient].sum()),
        settled_late_parity=int(late_parity[counted & ~spurious_losses].sum()),
        reaction_uncertainty_s=apart_s,
        undecided_packets=undecided_packets(run, times),
        misled_blocks=int((counted & spurious_losses).sum()),
        sent_per_source_misled=sent_per_source(plan, run, counted)[0],
    )


def undecided_packets(run: StreamMeasurements, times: FaultTimes) -> int:
    """Packets of which the clocks cannot tell whether they were sent before or after the fault began, or ended; none on
    one clock."""
    apart_s = run.clocks.fault_to_sender_s
    if apart_s == 0:
        return 0
    near = [np.abs(run.sent.time_s - moment) <= apart_s for moment in (times.start_s, times.stop_s)]
    return int((near[0] | near[1]).sum())


def around(
    run: StreamMeasurements, times: FaultTimes, lost: BoolArray, before_s: float = 0.0
) -> tuple[StreamMeasurements, BoolArray]:
    """The blocks that had packets to send during the fault or ``before_s`` before it, with all that was sent of them,
    and which of those were lost."""
    sent, blocks = run.sent, run.blocks
    during = sent.block[(sent.time_s >= times.start_s - before_s) & (sent.time_s < times.stop_s)]
    if not len(during):
        return run, lost
    low, high = (
        during.min() - 2,
        during.max(),
    )  # blocks cut by the fault began two blocks earlier at most
    own = np.flatnonzero((sent.block >= low) & (sent.block <= high))
    chosen = (blocks.block >= low) & (blocks.block <= high)
    cut = replace(
        run,
        sent=SentPackets(**{name: values[own] for name, values in vars(sent).items()}),
        blocks=BlockOutcomes(**{name: values[chosen] for name, values in vars(blocks).items()}),
    )
    return cut, lost[own]


def _answered_s(
    times: FaultTimes,
    needs_more: bool,
    reaction: float | None,
    diagnosis: FaultDiagnosis | None,
    allowed_s: float,
) -> float:
    """When the steady part begins; a sender that never answers, or is long in doubt, is given the time that one takes,
    and then judged."""
    if needs_more and reaction is None:
        return min(times.start_s + allowed_s, times.stop_s)
    certain = diagnosis.certain_after_s if diagnosis is not None else None
    return times.start_s + max(reaction or 0.0, min(certain or 0.0, allowed_s))


def size_range(plan: StreamPlan, loss: float, policy: BlockSizePolicy) -> tuple[int, int]:
    """Smallest and largest N that the policy gives for losses the receiver cannot tell from this one.

    A stratified share is known to a packet a window (two points of loss over a block or two); a random one to 1.5
    points and a tenth of itself after the few hundred packets of a fault's steady part.
    """
    if plan.stream.block_size is not None:
        return plan.stream.block_size, plan.stream.block_size
    spread = 0.02 if is_deterministic(plan) else 0.015 + 0.1 * loss
    return policy(max(0.0, loss - spread)), policy(min(0.99, loss + spread))


def predicted_block_size(plan: StreamPlan, times: FaultTimes, loss: float, base: int) -> int | None:
    """FEC_r(l) (Gabrielyan 2007, eq. 23): for the lost labels where they are known, else eq. 25; None where nothing
    gets by.

    Other faults of the plan have no say in it, but that a sender that only estimates shares goes by eq. 25 where one is
    random.
    """
    if loss >= 1:
        return None
    stream = plan.stream
    if is_exact(plan, times.fault) or is_deterministic(plan):
        return max(base, exact_block_size(plan)(fault_intervals(plan, times.fault)) or base)
    return max(base, fec_block_size(stream.source_packets, loss, stream.decoding_error_rate))


def _bound(plan: StreamPlan, times: FaultTimes, loss: float, base: int) -> int:
    """ceil(M / (1 - r)) or the base; r: the share of the order's packets that the fault takes, where labels decide."""
    if labels_decide(plan, times.fault):
        lost = order_share(fault_intervals(plan, times.fault), plan.stream.label_rule)
        loss = min(loss, lost)
    return max(base, block_size_bound(loss, plan.stream.source_packets))


def loss_interval(
    plan: StreamPlan, times: FaultTimes, packets: int, lost: BoolArray
) -> tuple[float, float]:
    """Where the true loss lies, given the measurement: the discrepancy of the intervals around it, or a binomial
    interval of four standard deviations."""
    if not packets:
        return (0.0, 1.0)
    share = float(lost.mean())
    if labels_decide(plan, times.fault):
        error = window_share_error(
            fault_intervals(plan, times.fault), max(1, packets), plan.stream.label_rule
        )
        error += 1 / packets
        blocks = 2 / max(1.0, packets / plan.stream.source_packets)
        return (max(0.0, share - error - 0.01 * blocks), min(1.0, share + error + 0.01 * blocks))
    return binomial_interval(int(lost.sum()), packets, _FOUR_SIGMAS)


def sent_per_source(
    plan: StreamPlan, run: StreamMeasurements, blocks: BoolArray
) -> tuple[float | None, float]:
    """Packets sent per source packet over whole blocks (``blocks``: a mask), late parity left out, and the mean's
    standard error."""
    if not blocks.any():
        return None, 0.0
    counts = np.minimum(run.packets_of_block, run.size_begun)[blocks] / plan.stream.source_packets
    return float(counts.mean()), float(counts.std() / np.sqrt(len(counts)))


def _diagnosis(run: StreamMeasurements, times: FaultTimes, loss: float) -> FaultDiagnosis | None:
    """What the sender believed in a fault's time: the first certain accusation, else the last uncertain one."""
    events: Sequence[Json] = run.counters.get(DIAGNOSES, ())
    during = [e for e in events if times.start_s <= e["at_s"] < times.stop_s and e["names"]]
    if not during:
        return None
    event = next((e for e in during if e["certain"]), during[-1])
    failed, certain = cable_name(times.fault.link), bool(event["certain"])
    exact = not certain or abs(event["lost_fraction"] - loss) < 1 / LABELS
    sent_s = run.sent.time_s
    return FaultDiagnosis(
        cables=tuple(event["names"]),
        right=exact
        and any(name == failed or name.startswith(f"{failed} (") for name in event["names"]),
        certain=certain,
        certain_after_packets=int(((sent_s >= times.start_s) & (sent_s < event["at_s"])).sum())
        if certain
        else None,
        certain_after_s=round(event["at_s"] - times.start_s, 6) if certain else None,
    )


def _reaction(run: StreamMeasurements, times: FaultTimes, needed: int) -> float | None:
    after = (
        (run.sent.time_s >= times.start_s)
        & (run.sent.time_s < times.stop_s)
        & (run.sent.block_size >= needed)
    )
    return float(run.sent.time_s[after].min() - times.start_s) if after.any() else None


def diagnosis_accuracy(plan: StreamPlan, run: StreamMeasurements) -> DiagnosisAccuracy | None:
    """From the sender's events and the run's packets; None where the sender does not diagnose, or its log is not
    there."""
    events = run.counters.get(DIAGNOSES, ())
    if not is_diagnosing(plan) or not events:
        return None
    ends = [*(event["at_s"] for event in events[1:]), plan.duration_s]
    spoke = sum(
        end - e["at_s"] for e, end in zip(events, ends, strict=True) if e["speaker"] == "diagnosis"
    )
    named = [event for event in events if event["names"]]
    certain, mistaken = sum(event["certain"] for event in named), len(mistaken_beliefs(plan, run))
    share, unsure = round(spoke / plan.duration_s, 4), len(named) - certain
    return DiagnosisAccuracy(spoke=share, certain=certain, right=certain - mistaken, unsure=unsure)


def mistaken_beliefs(plan: StreamPlan, run: StreamMeasurements) -> list[float]:
    """Return when the sender began to be certain of a loss that did not exist.

    What it named loses another number of labels than it said, or packets under those labels arrived
    and it was still certain when reports had long told of them.
    """
    events: Sequence[Json] = run.counters.get(DIAGNOSES, ()) if is_diagnosing(plan) else ()
    pairs = pairwise([*events, {"at_s": plan.duration_s}])
    beliefs = [(held, after) for held, after in pairs if held["names"] and held["certain"]]
    if not beliefs:
        return []
    tables = [candidate_table(split) for split in plan.splits]
    states = epochs(plan, run.faults, run.changes)
    sent_s = run.sent.time_s
    mistaken = []
    for belief, after in beliefs:
        known_s = after["at_s"] - allowed_reaction_s(plan)
        telling = ~run.lost & (sent_s >= belief["at_s"]) & (sent_s < known_s)
        for begin_s, end_s in _interruptions(plan, states, belief["lost_fraction"]):
            telling &= (sent_s < begin_s) | (sent_s >= end_s)
        unheard = any(
            state.reports_cut and state.start_s < after["at_s"] and state.stop_s > belief["at_s"]
            for state in states
        )
        candidates = _candidates(tables, belief)
        if candidates is None:
            mistaken.append(belief["at_s"])
            continue
        table, lost_labels = candidates
        arrived = run.sent.label[telling].tolist()
        if not unheard and any(table.bit_of(label) & lost_labels for label in arrived):
            mistaken.append(belief["at_s"])
    return mistaken


def _interruptions(
    plan: StreamPlan, states: Sequence[Epoch], lost_fraction: float
) -> list[tuple[float, float]]:
    """Return the times, shorter than an answer takes, for which a share of losses stopped.

    Packets that arrive then do not contradict a belief: the labels are lost again when the sender
    hears of it.
    """
    right = [state for state in states if abs(state.loss - lost_fraction) < 1 / LABELS]
    allowed_s = allowed_reaction_s(plan)
    return [
        (before.stop_s, after.start_s)
        for before, after in pairwise(right)
        if 0 < after.start_s - before.stop_s <= allowed_s
    ]


def _candidates(
    tables: Sequence[CandidateTable], belief: Json
) -> tuple[CandidateTable, int] | None:
    """Return the first table whose named candidates lose the number of labels that the belief says.

    Returns:
        The table and the labels as a bit set, or None if there is no such table.
    """
    for table in tables:
        labels = _lost_together(table, belief["names"])
        if table.labels_in(labels) == round(belief["lost_fraction"] * LABELS):
            return table, labels
    return None


def _lost_together(table: CandidateTable, names: Sequence[str]) -> int:
    """The labels that the candidates lose, as a bit set; 0 where one is no candidate."""
    masks = {one.name: mask for one, mask in zip(table.candidates, table.masks, strict=True)}
    return (
        reduce(operator.or_, (masks[name] for name in names), 0)
        if masks.keys() >= set(names)
        else 0
    )
