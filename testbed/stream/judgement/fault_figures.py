"""The figures of each fault that overlaps no other one: the entries of ``per_fault``."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from fec.redundancy.block_size import (
    binomial_interval,
    order_share,
    window_share_error,
)
from fec.redundancy.label_layout import block_size_bound
from fec.redundancy.labels import LABELS
from testbed.faults.fault import FaultTimes, names_of_faults
from testbed.model.run_records import FaultOutcome
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.measurements import BoolArray
from testbed.stream.prediction.active_faults import (
    cable_name,
    fault_intervals,
)
from topologies import label_of

# The probability that a normal variable lies within four standard deviations.
_FOUR_SIGMAS = 1 - 6.3e-5


@dataclass(frozen=True, kw_only=True)
class FaultDiagnosis:
    """The sender's diagnosis of a fault.

    Attributes:
        cables: The suspected cables, which the sender could not distinguish.
        right: Whether the failed cable is among them. If the sender was certain, it must also have
            treated exactly this cable's labels as lost.
        certain: Whether only one set of lost labels was possible.
        certain_after_packets: Packets sent from the failure until the sender was certain, or None.
        certain_after_s: Time from the failure until the sender was certain, or None.
    """

    cables: tuple[str, ...]
    right: bool
    certain: bool
    certain_after_packets: int | None
    certain_after_s: float | None


@dataclass(frozen=True, kw_only=True)
class FaultResult(FaultOutcome):
    """The figures of a fault that overlaps no other one.

    Attributes:
        interval: Confidence interval of the loss.
        block_size_range: Smallest and largest accepted N.
        diagnosis: The sender's diagnosis; None if it suspected nothing.
        sent_per_source: Packets per source packet, without late parity, of the blocks that begin
            after the answer and arrive before the fault ends; blocks of a misinformed sender are
            left out.
        sent_per_source_error: The standard error of that mean.
        transient_packets: Packets sent between failure and answer.
        transient_late_parity: Late parity of the blocks before the answer.
        settled_late_parity: Late parity of the blocks that ``sent_per_source`` counts.
        spurious_loss_blocks: Blocks of a misinformed sender after the answer.
        sent_per_source_spurious: ``sent_per_source`` with these blocks counted as well.
        about: Which of the plan's faults it is, as checks name it ("fault:3").
    """

    interval: tuple[float, float]
    block_size_range: tuple[int, int]
    diagnosis: FaultDiagnosis | None
    sent_per_source: float | None
    sent_per_source_error: float
    transient_packets: int
    transient_late_parity: int
    settled_late_parity: int = 0
    spurious_loss_blocks: int = 0
    sent_per_source_spurious: float | None = None
    about: str = ""

    @property
    def impaired(self) -> bool:
        """True if the link was impaired; ``kind`` is then the text of its impairments."""
        return self.kind not in ("down", "blackhole", "loss")

    def to_json(self) -> dict[str, object]:
        """Return an entry of ``per_fault`` in the JSON document (docs/reference/commands.md)."""
        document = {k: list(v) if isinstance(v, tuple) else v for k, v in self.__dict__.items()}
        return document | {"diagnosis": None if self.diagnosis is None else asdict(self.diagnosis)}


class _FaultBlocks(NamedTuple):
    """Masks over the blocks of a run, for one fault.

    Attributes:
        transient: Blocks that the fault may have affected before the sender answered it.
        steady: Blocks that began after the answer, in the fault. Blocks that the links of two
            epochs together may leave undecodable are excluded.
        compared: Steady blocks that arrived before the end of the fault, and whose N is predicted.
    """

    transient: BoolArray
    steady: BoolArray
    compared: BoolArray


def fault_figures(facts: RunFacts) -> tuple[FaultResult, ...]:
    """Return the figures of each fault; none if faults overlap or nodes move."""
    if not facts.theory.faults_alone:
        return ()
    names = names_of_faults(facts.plan.faults, facts.run.faults)
    figures = []
    for times, about in zip(facts.run.faults, names, strict=True):
        figures.append(_figures(facts, times, about))
    return tuple(figures)


def _figures(facts: RunFacts, times: FaultTimes, about: str) -> FaultResult:
    run = facts.run
    fault = times.fault
    epoch = facts.epoch_at(times.start_s)
    required = facts.required[epoch]
    answered_s = min(float(facts.answered_s[epoch]), times.stop_s)
    blocks = _blocks_of(facts, times, epoch, answered_s)
    counted = blocks.compared & ~facts.spurious
    ratio, ratio_error = sent_per_source(facts, counted)
    sizes = run.initial_block_size[blocks.compared]
    met = facts.surely_met(times)
    packets = int(met.sum())
    loss = facts.theory.loss_of(fault)
    needs_more = facts.theory.adaptive and loss < 1 and required.low > facts.theory.policy.base
    reaction_s = _reaction_s(facts, times, required.low) if needs_more else None
    mistaken = required.exact and any(
        times.start_s <= at_s < times.stop_s for at_s in facts.mistaken_beliefs
    )
    size = int(required.size) if required.within_reach and not fault.impairments else None
    bound = None if loss >= 1 or fault.impairments else _bound(facts, times, loss)
    sent_s = run.sent.time_s
    undecodable = run.never_complete
    late = run.blocks.late_source_packets
    return FaultResult(
        link=label_of(fault.link),
        kind=fault.description,
        about=about,
        start_s=times.start_s,
        stop_s=times.stop_s,
        predicted_loss=loss,
        measured_loss=float(run.lost[met].mean()) if packets else None,
        interval=_loss_interval(facts, times, met),
        packets=packets,
        predicted_block_size=size,
        bound_block_size=bound,
        measured_block_size=float(np.median(sizes)) if len(sizes) else None,
        mean_block_size=float(sizes.mean()) if len(sizes) else None,
        block_size_range=(required.low, required.high),
        sender_reacted=(not needs_more or reaction_s is not None) and not mistaken,
        reaction_s=reaction_s,
        transient_blocks=int(blocks.transient.sum()),
        transient_blocks_lost=int((blocks.transient & undecodable).sum()),
        steady_blocks=int(blocks.steady.sum()),
        undecodable_blocks=int((blocks.steady & undecodable).sum()),
        late_packets=int(late[blocks.steady].sum()),
        transient_late_packets=int(late[blocks.transient].sum()),
        port_status_s=times.port_status_s,
        diagnosis=_diagnosis(facts, times, loss) if facts.theory.diagnosing else None,
        sent_per_source=ratio,
        sent_per_source_error=ratio_error,
        transient_packets=int(((sent_s >= times.start_s) & (sent_s < answered_s)).sum()),
        transient_late_parity=int(facts.late_parity[blocks.transient].sum()),
        settled_late_parity=int(facts.late_parity[counted].sum()),
        reaction_uncertainty_s=run.clocks.fault_to_sender_s,
        undecided_packets=_undecided_packets(facts, times),
        spurious_loss_blocks=int((blocks.compared & facts.spurious).sum()),
        sent_per_source_spurious=sent_per_source(facts, blocks.compared)[0],
    )


def _blocks_of(facts: RunFacts, times: FaultTimes, epoch: int, answered_s: float) -> _FaultBlocks:
    """Return the blocks of the fault with this epoch, which the sender answered at this time."""
    started_s = facts.run.blocks.started_s
    block_s = facts.plan.stream.block_s
    before_s = 2 * block_s + facts.theory.reach_s(times.fault)
    steady = (started_s >= answered_s) & (started_s < times.stop_s) & ~facts.between_epochs
    over = started_s + 2 * block_s < times.stop_s
    comparable = (started_s >= facts.settled_s[epoch]) & ~facts.unpredicted
    return _FaultBlocks(
        transient=(started_s >= times.start_s - before_s) & (started_s < answered_s),
        steady=steady,
        compared=steady & over & comparable,
    )


def sent_per_source(facts: RunFacts, blocks: BoolArray) -> tuple[float | None, float]:
    """Return the packets per source packet of these blocks, without late parity.

    Returns:
        The mean over the blocks, None if there are none, and its standard error.
    """
    if not blocks.any():
        return None, 0.0
    ratios = facts.first_packets[blocks] / facts.plan.stream.source_packets
    return float(ratios.mean()), float(ratios.std() / np.sqrt(len(ratios)))


def _reaction_s(facts: RunFacts, times: FaultTimes, low: int) -> float | None:
    """Return the time from the failure to the first packet under an N of at least ``low``."""
    sent = facts.run.sent
    during = (sent.time_s >= times.start_s) & (sent.time_s < times.stop_s)
    raised = during & (sent.block_size >= low)
    return float(sent.time_s[raised].min() - times.start_s) if raised.any() else None


def _undecided_packets(facts: RunFacts, times: FaultTimes) -> int:
    """Return how many packets may have been sent in the fault or outside of it.

    The uncertainty of the clocks does not allow a decision for them.
    """
    apart_s = facts.run.clocks.fault_to_sender_s
    if apart_s == 0:
        return 0
    sent_s = facts.run.sent.time_s
    near_start = np.abs(sent_s - times.start_s) <= apart_s
    near_stop = np.abs(sent_s - times.stop_s) <= apart_s
    return int((near_start | near_stop).sum())


def _labels_decide(facts: RunFacts, times: FaultTimes) -> bool:
    return facts.plan.stream.labels == "stratified" and not times.fault.partial


def _bound(facts: RunFacts, times: FaultTimes, loss: float) -> int:
    """Return ceil(M / (1 - r)), at least the base; r is the share of packets lost in this order."""
    stream = facts.plan.stream
    if _labels_decide(facts, times):
        loss = min(
            loss,
            order_share(fault_intervals(facts.plan, times.fault), stream.label_rule),
        )
    return max(
        facts.theory.policy.base,
        block_size_bound(loss, stream.source_packets),
    )


def _loss_interval(facts: RunFacts, times: FaultTimes, met: BoolArray) -> tuple[float, float]:
    """Return a confidence interval of the loss from the packets that met the fault.

    If labels determine which packets are lost, its half width is the discrepancy of the label
    order. Otherwise it is a binomial interval of four standard deviations.
    """
    packets = int(met.sum())
    if not packets:
        return 0.0, 1.0
    lost = facts.run.lost[met]
    if not _labels_decide(facts, times):
        return binomial_interval(int(lost.sum()), packets, _FOUR_SIGMAS)
    stream = facts.plan.stream
    intervals = fault_intervals(facts.plan, times.fault)
    error = window_share_error(intervals, packets, stream.label_rule) + 1 / packets
    error += 0.02 / max(1.0, packets / stream.source_packets)
    share = float(lost.mean())
    return max(0.0, share - error), min(1.0, share + error)


def _diagnosis(facts: RunFacts, times: FaultTimes, loss: float) -> FaultDiagnosis | None:
    """Return the sender's first certain diagnosis in the fault, or else its last uncertain one."""
    during = []
    for belief in facts.beliefs:
        if times.start_s <= belief["at_s"] < times.stop_s and belief["names"]:
            during.append(belief)
    if not during:
        return None
    event = next((belief for belief in during if belief["certain"]), during[-1])
    certain = bool(event["certain"])
    cable = cable_name(times.fault.link)
    named = any(name == cable or name.startswith(f"{cable} (") for name in event["names"])
    exact = not certain or abs(event["lost_fraction"] - loss) < 1 / LABELS
    after_packets = None
    after_s = None
    if certain:
        sent_s = facts.run.sent.time_s
        after_packets = int(((sent_s >= times.start_s) & (sent_s < event["at_s"])).sum())
        after_s = round(event["at_s"] - times.start_s, 6)
    return FaultDiagnosis(
        cables=tuple(event["names"]),
        right=exact and named,
        certain=certain,
        certain_after_packets=after_packets,
        certain_after_s=after_s,
    )
