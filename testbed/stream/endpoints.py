"""Configures the two ends of a stream from its plan, in the same way for both fabrics."""

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict

from fec.code.reed_solomon import ReedSolomonCode
from fec.protocol.framing import VERSION
from fec.protocol.path_deadlines import JITTER
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import Event, ReceiverParameters, SourceDelivered
from fec.protocol.sender import SenderParameters, StreamSender
from fec.redundancy.adaptation import AdaptationParameters, BlockSizeController
from fec.redundancy.block_size_control import BlockSizeControl, fixed_block_size
from fec.redundancy.diagnosis import Diagnoser
from fec.redundancy.diagnosis_control import DiagnosingControl, NewPaths
from fec.redundancy.labels import LabelOrder, RandomLabels, stratified_labels
from fec.redundancy.loss_bursts import BurstChain, burst_block_size
from testbed.model.label_split import LabelSplit
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import max_carried
from testbed.stream.prediction.active_faults import (
    DIAGNOSES,
    candidate_table,
    exact_block_size,
)
from testbed.stream.prediction.block_size_policy import (
    largest_in_bursts,
)
from testbed.stream.prediction.loss_by_path import REPORTS, is_numbered, path_of_label
from testbed.stream.prediction.path_delays import (
    candidate_spread_s,
    delay_of_label,
    path_spread_s,
    return_spread_s,
)
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies.text.json_types import Json, JsonObject

# Number of positions in the keystream at which a payload can begin.
_WINDOWS = 4096

# The position of a payload is its index times this, modulo the number of positions. Knuth's
# multiplicative hash moves the position far from one payload to the next.
_WINDOW_MULTIPLIER = 2654435761

# Losses must be spread over this time before the sender is certain of a failure. A switch that only
# stalls delays packets for a shorter time.
SETTLE_S = 0.03

# A sender that has received no report for this number of report intervals assumes that a failure
# cuts off the reports.
SILENT_INTERVALS = 3

# Maximum time from the moment at which nodes move to the last packet under the old split. The
# verdict of a run allows no more for a change (``judgement.checks.MAX_CHANGE_S``).
CHANGE_ALLOWED_S = 1.0


def payload_source(seed: int, symbol_bytes: int) -> Callable[[int], bytes]:
    """Return the function that generates the payload of each source packet from its index.

    A payload begins with the index. A window of a keystream follows, so that neighbouring payloads
    differ everywhere.

    >>> payload_source(1, 64)(7) == payload_source(1, 64)(7) != payload_source(1, 64)(8)
    True

    Args:
        seed: Seed of the keystream.
        symbol_bytes: Length of a symbol. The payload is two bytes shorter, because the symbol also
            contains its length.
    """
    length = symbol_bytes - 2
    keystream_seed = b"stream" + seed.to_bytes(8, "big", signed=True)
    keystream = hashlib.shake_128(keystream_seed).digest(length + _WINDOWS)

    def payload(index: int) -> bytes:
        begin = (index * _WINDOW_MULTIPLIER) % _WINDOWS
        return (index.to_bytes(8, "big") + keystream[begin : begin + length])[:length]

    return payload


def label_sequence(plan: StreamPlan) -> LabelOrder:
    """Return the order in which the sender uses the labels."""
    if plan.stream.labels == "stratified":
        return stratified_labels(plan.stream.label_rule)
    return RandomLabels(plan.seed)


def build_sender(
    plan: StreamPlan, *, key: bytes | None = None, kind: Callable[..., StreamSender] = StreamSender
) -> StreamSender:
    """Build a sender whose content, labels and policy follow from the plan.

    Args:
        plan: The plan of the stream.
        key: Seals packets and reports. A sender with a key has a random session number. The
            simulator needs neither.
        kind: The class of the sender.
    """
    stream = plan.stream
    parameters = sender_parameters(plan, key, adaptive=stream.block_size is None)
    control = block_size_control(plan)
    code = ReedSolomonCode(source_packets=stream.source_packets)
    content = payload_source(plan.seed, stream.symbol_bytes)
    paths = path_of_label(plan.forward) if is_numbered(plan) else None
    return kind(parameters, code, label_sequence(plan), control, content, paths)


def sender_parameters(plan: StreamPlan, key: bytes | None, *, adaptive: bool) -> SenderParameters:
    """Return the parameters of a sender.

    Args:
        plan: The plan of the stream.
        key: The key of the stream, or None.
        adaptive: The block size N follows the loss reports.
    """
    stream = plan.stream
    silence_s = math.inf
    silent_size = 0
    if adaptive:
        silence_s = SILENT_INTERVALS * max(stream.report_interval_s, 1 / stream.rate_pps)
        silent_size = worst_single_failure(plan)
    return SenderParameters(
        source_packets=stream.source_packets,
        symbol_bytes=stream.symbol_bytes,
        rate_pps=stream.rate_pps,
        playback_s=stream.playback_s,
        late_parity_pps=stream.late_pps,
        session=0 if key is None else secrets.randbits(32),
        key=key,
        delay_of_label=None if plan.changes else delay_of_label(plan.forward),
        silence_s=silence_s,
        silent_size=silent_size,
    )


def block_size_control(plan: StreamPlan, *, interleaved: bool = True) -> BlockSizeControl:
    """Return the control that decides the block size N during the stream.

    - If N is fixed, it never changes.
    - A sender that diagnoses finds out from the labels of lost packets which link has failed.
    - Otherwise N follows an estimate of the loss. It also does so while nodes move, and for losses
      that no failure explains.

    Args:
        plan: The plan of the stream.
        interleaved: Blocks are sent so that a burst of losses hits several (see
            ``burst_block_size``).
    """
    theory = StreamTheory(plan)
    stream = plan.stream
    policy = theory.policy
    carried = max_carried(theory)
    if stream.block_size is not None:
        return fixed_block_size(stream.block_size)
    # Parity that the next report requests can still arrive in time.
    bursts_pass_s = 2 * stream.block_s + stream.report_interval_s + 2 * theory.round_trip_s
    parameters = AdaptationParameters(
        base=policy.base,
        largest=max(min(policy.largest, carried), policy.base),
        hold_s=stream.hold_s,
        deterministic=theory.deterministic,
        bursts_pass=stream.playback_s >= bursts_pass_s,
        apart_s=0.0 if plan.changes else (1 + JITTER) * path_spread_s(plan),
        return_apart_s=return_spread_s(plan),
        report_interval_s=stream.report_interval_s,
    )
    largest_for_bursts = max(min(largest_in_bursts(plan), carried), policy.base)

    def size_for_bursts(chain: BurstChain) -> int:
        return burst_block_size(
            stream.source_packets,
            chain,
            stream.decoding_error_rate,
            interleaved=interleaved,
            largest=largest_for_bursts,
        )

    # If late parity would arrive too late, N alone must cover the bursts of losses.
    late_parity_s = 2 * (stream.block_s + theory.round_trip_s)
    late_parity_helps = stream.playback_s >= late_parity_s
    estimator = BlockSizeController(
        parameters, policy, None if late_parity_helps else size_for_bursts
    )
    if not theory.diagnosing:
        return estimator
    return _diagnosing_control(plan, estimator)


def _diagnosing_control(plan: StreamPlan, estimator: BlockSizeController) -> DiagnosingControl:
    """Return a control that diagnoses failures, and otherwise follows the estimator."""

    def diagnoser(split: LabelSplit) -> Diagnoser:
        return Diagnoser(
            candidate_table(split),
            unexplained_window_s=plan.stream.hold_s,
            transit_s=candidate_spread_s(plan),
            min_loss_spread_s=SETTLE_S,
            one_path=True,
        )

    changes = []
    for change in plan.changes:
        new_paths = NewPaths(
            from_s=change.at_s,
            until_s=change.at_s + CHANGE_ALLOWED_S,
            diagnoser=diagnoser(change.forward),
        )
        changes.append(new_paths)
    control = DiagnosingControl(diagnoser(plan.forward), exact_block_size(plan), estimator, changes)
    control.prepare()
    return control


def worst_single_failure(plan: StreamPlan) -> int:
    """Return the N that is sufficient if any single link fails.

    Links that carry every label are left out, because no code repairs their failure.
    """
    size_of = exact_block_size(plan)
    worst_size = 0
    for split in plan.splits:
        for link in split.loaded:
            if split.load(link) < 1:
                worst_size = max(worst_size, size_of(split.intervals(link)) or 0)
    return worst_size


def receiver_parameters(plan: StreamPlan, key: bytes | None = None) -> ReceiverParameters:
    """Return the parameters of a receiver; ``key`` is the key of the stream."""
    stream = plan.stream
    return ReceiverParameters(
        source_packets=stream.source_packets,
        symbol_bytes=stream.symbol_bytes,
        playback_s=stream.playback_s,
        report_interval_s=stream.report_interval_s,
        report_packets=stream.report_packets,
        key=key,
    )


def build_receiver(
    plan: StreamPlan, key: bytes | None = None, kind: Callable[..., StreamReceiver] = StreamReceiver
) -> StreamReceiver:
    """Build a receiver of the plan's stream.

    Args:
        plan: The plan of the stream.
        key: The key of the stream, or None.
        kind: The class of the receiver.
    """
    code = ReedSolomonCode(source_packets=plan.stream.source_packets)
    return kind(receiver_parameters(plan, key), code)


class ContentCheck:
    """Compares every delivered payload with the payload that was sent.

    Attributes:
        corrupted: Number of delivered payloads that differ.
        recovered: Number of delivered payloads that the code recovered.
    """

    def __init__(self, plan: StreamPlan) -> None:
        self._expected = payload_source(plan.seed, plan.stream.symbol_bytes)
        self.corrupted = 0
        self.recovered = 0

    def take(self, events: Iterable[Event]) -> None:
        """Check the payloads of these events."""
        for event in events:
            if isinstance(event, SourceDelivered):
                if event.payload != self._expected(event.index):
                    self.corrupted += 1
                if event.recovered:
                    self.recovered += 1

    def counters(self, receiver: StreamReceiver) -> JsonObject:
        """Return the counters of the receiver and of this check, by name, for JSON."""
        counters: JsonObject = dict(sorted(receiver.counters.items()))
        for reason, packets in sorted(receiver.rejected.items()):
            counters[f"rejected_{reason}"] = packets
        counters["corrupted"] = self.corrupted
        return counters


def sender_counters(sender: StreamSender) -> JsonObject:
    """Return the counters of the sender, by name, for JSON.

    Their names begin with ``sent_``. The diagnoses and the counts of the loss reports by path are
    added if there are any.
    """
    counters: JsonObject = {f"sent_{name}": count for name, count in sender.counters.items()}
    if isinstance(sender.control, DiagnosingControl):
        counters[DIAGNOSES] = [asdict(event) for event in sender.control.events]
    if sender.path_reports:
        counters[REPORTS] = {path: list(counts) for path, counts in sender.path_reports.items()}
    return counters


def foreign_notes(counters: Json) -> tuple[str, ...]:
    """Return notes for the verdict on datagrams that the other end of the stream did not send.

    Args:
        counters: The counters of the sender and of the receiver in one dictionary.
    """
    foreign = counters.get("foreign", 0) + counters.get("sent_foreign", 0)
    other_versions = counters.get("rejected_version", 0)
    forged = counters.get("rejected_key", 0)
    notes = []
    if foreign:
        notes.append(
            f"{foreign} datagrams came from other addresses than the other end's; they were ignored"
        )
    if other_versions:
        notes.append(
            f"{other_versions} packets were not of version {VERSION} of the format; "
            "bring the older end up to date"
        )
    if forged:
        notes.append(f"{forged} packets were not sealed with the stream's key; they were rejected")
    return tuple(notes)
