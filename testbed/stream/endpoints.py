"""The two ends of a planned stream, configured from the plan; the same for either fabric."""

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
from testbed.stream.planning import most_carried
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


def payload_source(seed: int, symbol_bytes: int) -> Callable[[int], bytes]:
    """A function index -> payload of ``symbol_bytes - 2`` bytes (the symbol keeps two for the length).

    The index in front, then a window of a keystream that depends on seed and index: neighbours differ in every part.

    >>> payload_source(1, 64)(7) == payload_source(1, 64)(7) != payload_source(1, 64)(8)
    True
    """
    length = symbol_bytes - 2
    pool = hashlib.shake_128(b"stream" + seed.to_bytes(8, "big", signed=True)).digest(length + 4096)

    def payload(index: int) -> bytes:
        at = (index * 2654435761) % 4096
        return (index.to_bytes(8, "big") + pool[at : at + length])[:length]

    return payload


SETTLE_S = 0.03
"""Over which a failure's losses spread before the sender is certain of it; a switch that stalls delays packets for
less."""
SILENT_INTERVALS = 3
"""Without a report, before a sender allows for a failure that it is not told of."""
CHANGE_ALLOWED_S = 1.0
"""From the moment at which nodes move to the last packet under the old split, at most: a verdict allows a change no
more (``campaign_verdict``)."""


def label_sequence(plan: StreamPlan) -> LabelOrder:
    return (
        stratified_labels(plan.stream.label_rule)
        if plan.stream.labels == "stratified"
        else RandomLabels(plan.seed)
    )


def build_sender(
    plan: StreamPlan, *, key: bytes | None = None, kind: Callable[..., StreamSender] = StreamSender
) -> StreamSender:
    """A sender whose content, labels and policy follow from the plan alone. ``key``: seals packets and reports, and
    gives the sender a session of its own; without one (in the simulator) both are left out."""
    stream = plan.stream
    parameters, control = (
        sender_parameters(plan, key, adaptive=stream.block_size is None),
        block_size_control(plan),
    )
    code = ReedSolomonCode(source_packets=stream.source_packets)
    content = payload_source(plan.seed, stream.symbol_bytes)
    paths = path_of_label(plan.forward) if is_numbered(plan) else None
    return kind(parameters, code, label_sequence(plan), control, content, paths)


def sender_parameters(plan: StreamPlan, key: bytes | None, *, adaptive: bool) -> SenderParameters:
    """How a sender of the plan paces, seals and judges; ``adaptive``: its N follows what is reported."""
    stream = plan.stream
    names = ("source_packets", "symbol_bytes", "rate_pps", "playback_s")
    return SenderParameters(
        **{name: getattr(stream, name) for name in names},
        late_parity_pps=stream.late_pps,
        session=0 if key is None else secrets.randbits(32),
        key=key,
        delay_of_label=None if plan.changes else delay_of_label(plan.forward),
        silence_s=SILENT_INTERVALS * max(stream.report_interval_s, 1 / stream.rate_pps)
        if adaptive
        else math.inf,
        silent_size=worst_single_failure(plan) if adaptive else 0,
    )


def block_size_control(plan: StreamPlan, *, interleaved: bool = True) -> BlockSizeControl:
    """What decides N during the plan's stream: nothing where it is fixed, else what is broken by the diagnosis of the
    losses that are reported, or the estimate of their share where labels explain nothing or are passed to other paths
    as nodes move. ``interleaved``: as of ``burst_block_size``."""
    theory = StreamTheory(plan)
    stream = plan.stream
    policy = theory.policy
    carried = most_carried(theory)
    if stream.block_size is not None:
        return fixed_block_size(stream.block_size)
    parameters = AdaptationParameters(
        base=policy.base,
        largest=max(min(policy.largest, carried), policy.base),
        hold_s=stream.hold_s,
        deterministic=theory.deterministic,
        bursts_pass=stream.playback_s
        >= 2 * stream.block_s + stream.report_interval_s + 2 * theory.round_trip_s,
        apart_s=0.0 if plan.changes else (1 + JITTER) * path_spread_s(plan),
        return_apart_s=return_spread_s(plan),
        report_interval_s=stream.report_interval_s,
    )
    most = max(min(largest_in_bursts(plan), carried), policy.base)

    def of_bursts(chain: BurstChain) -> int:
        m, error_rate = stream.source_packets, stream.decoding_error_rate
        return burst_block_size(m, chain, error_rate, interleaved=interleaved, largest=most)

    too_late = stream.playback_s < 2 * (
        stream.block_s + theory.round_trip_s
    )  # for parity that answers a report
    estimator = BlockSizeController(parameters, policy, of_bursts if too_late else None)
    if not theory.diagnosing:
        return estimator

    def diagnoser(split: LabelSplit) -> Diagnoser:
        return Diagnoser(
            candidate_table(split),
            unexplained_window_s=stream.hold_s,
            transit_s=candidate_spread_s(plan),
            min_loss_spread_s=SETTLE_S,
            one_path=True,
        )

    changes = [
        NewPaths(from_s=c.at_s, until_s=c.at_s + CHANGE_ALLOWED_S, diagnoser=diagnoser(c.forward))
        for c in plan.changes
    ]
    control = DiagnosingControl(diagnoser(plan.forward), exact_block_size(plan), estimator, changes)
    control.prepare()
    return control


def worst_single_failure(plan: StreamPlan) -> int:
    """N that answers the failure of any one link that a code can repair."""
    size_of = exact_block_size(plan)
    hit = (split.intervals(i) for split in plan.splits for i in split.loaded if split.load(i) < 1)
    return max((size_of(intervals) or 0 for intervals in hit), default=0)


def receiver_parameters(plan: StreamPlan, key: bytes | None = None) -> ReceiverParameters:
    """Of the end that receives the plan's stream, sealed under the key."""
    names = ("source_packets", "symbol_bytes", "playback_s", "report_interval_s", "report_packets")
    return ReceiverParameters(**{name: getattr(plan.stream, name) for name in names}, key=key)


def build_receiver(
    plan: StreamPlan, key: bytes | None = None, kind: Callable[..., StreamReceiver] = StreamReceiver
) -> StreamReceiver:
    return kind(
        receiver_parameters(plan, key), ReedSolomonCode(source_packets=plan.stream.source_packets)
    )


class ContentCheck:
    """Holds every delivered payload against what was sent, and counts."""

    def __init__(self, plan: StreamPlan) -> None:
        self._expected = payload_source(plan.seed, plan.stream.symbol_bytes)
        self.corrupted = 0
        self.recovered = 0

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, SourceDelivered):
                self.corrupted += event.payload != self._expected(event.index)
                self.recovered += event.recovered

    def counters(self, receiver: StreamReceiver) -> JsonObject:
        """What the receiving end counted, JSON-ready."""
        rejected = {f"rejected_{reason}": n for reason, n in sorted(receiver.rejected.items())}
        return {**dict(sorted(receiver.counters.items())), **rejected, "corrupted": self.corrupted}


def sender_counters(sender: StreamSender) -> JsonObject:
    """What the sending end counted, JSON-ready, each name with ``sent_`` in front; ``path_reports`` is what reports
    told."""
    counters: JsonObject = {f"sent_{name}": n for name, n in sender.counters.items()}
    if isinstance(sender.control, DiagnosingControl):
        counters[DIAGNOSES] = [asdict(event) for event in sender.control.events]
    if sender.path_reports:
        counters[REPORTS] = {path: list(counts) for path, counts in sender.path_reports.items()}
    return counters


def strangers(counters: Json) -> tuple[str, ...]:
    """What a run's health says of datagrams that the other end did not send; ``counters``: of both ends."""
    foreign = counters.get("foreign", 0) + counters.get("sent_foreign", 0)
    forged = counters.get("rejected_key", 0)
    notes = []
    if foreign:
        notes.append(
            f"{foreign} datagrams came from other addresses than the other end's; they were left unread"
        )
    if others := counters.get("rejected_version", 0):
        notes.append(
            f"{others} packets were not of version {VERSION} of the format; bring the older end up to date"
        )
    if forged:
        notes.append(
            f"{forged} packets did not bear the seal of the stream's key; they were refused"
        )
    return tuple(notes)
