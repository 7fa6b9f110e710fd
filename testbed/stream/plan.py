"""The plan of a streaming run: a value (JSON) that either fabric can run.

Network, label splits there and back, changes of both while nodes move, stream parameters, faults and seed; no fabric,
clock or file in it.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

from fec.errors import FecError
from fec.redundancy.labels import WEYL_MULTIPLIER, LabelRule, stratified_labels
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.model.json_values import json_ready
from testbed.model.label_split import LabelSplit
from testbed.model.routes import SplitRoute
from testbed.model.short_repr import ShortRepr
from testbed.stream.options import Handover, LabelOrder
from topologies.files.node_link import network_document
from topologies.network import LinkId, Network, label_of

LEAST_PLAYBACK_S, LEAST_PLAYBACK_BLOCKS = 0.4, 4
"""The playback buffer where none is given: so long, and never shorter than so many blocks take to be sent."""


@dataclass(frozen=True, kw_only=True)
class StreamParameters:
    """How the stream is coded, paced and reported.

    ``rate_pps``: source packets a second (the wire carries rate * N / M). ``symbol_bytes``: bytes of one coded symbol.
    ``playback_s``: a source packet is late when it is not there this long after it was sent (None: 0.4 s, or the time
    of four blocks where that is longer). ``hold_s``: how long a lower loss must last before redundancy is lowered.
    ``block_size``: N fixed for the whole run (no adaptation), or None. ``most_overhead``: N - M is never more than so
    many times M, whatever the losses (None: what the plan's links can call for): a sender that answered the losses of
    its own congestion with more packets would never stop. ``late_pps``: late parity packets a second (None: eight times
    the rate, 1000 at least), fewer where the switches are slow. ``diagnosis``: the sender finds out what failed from
    the labels that are lost; without it, it only estimates the share that is. ``label_multiplier``: of the stratified
    order of labels, or ``label_slots``: the order of equal slots of the label space that makes it
    (``fec.redundancy.labels.SlottedLabels``).
    """

    rate_pps: float = 1000.0
    source_packets: int = 20
    symbol_bytes: int = 256
    tolerance: float = 0.05
    decoding_error_rate: float = 1e-5
    labels: LabelOrder = "stratified"
    playback_s: float = cast(float, None)
    report_interval_s: float = 0.1
    report_packets: int = 100
    hold_s: float = 2.0
    block_size: int | None = None
    most_overhead: float | None = None
    late_pps: float | None = None
    diagnosis: bool = True
    label_multiplier: int = WEYL_MULTIPLIER
    label_slots: tuple[int, ...] = ()

    @property
    def label_rule(self) -> LabelRule:
        """What makes the stratified order of labels."""
        return self.label_slots or self.label_multiplier

    @property
    def block_s(self) -> float:
        """How long the source packets of a block take to be sent."""
        return self.source_packets / self.rate_pps

    @property
    def recovery_s(self) -> float:
        """Time after a repair until the stream is at rest again: hold, two reports, four blocks."""
        if self.block_size is not None:
            return 2 * self.report_interval_s
        return self.hold_s + 2 * self.report_interval_s + 4 * self.block_s

    def __post_init__(self) -> None:
        given = self.playback_s is not None
        checks = (
            (0 < self.rate_pps <= 1e6, f"rate {self.rate_pps} packets/s; give one above 0 and at most 1e6"),
            (1 <= self.source_packets <= 254, f"M = {self.source_packets} source packets a block; give 1 to 254"),
            (4 <= self.symbol_bytes <= 8900, f"symbols of {self.symbol_bytes} bytes; give 4 to 8900"),
            (0 <= self.tolerance < 1, f"tolerance {self.tolerance} is outside [0, 1)"),
            (0 < self.decoding_error_rate < 1, f"decoding error rate {self.decoding_error_rate} is outside (0, 1)"),
            (self.labels in ("stratified", "random"), f"labels {self.labels!r}; give stratified or random"),
            (not given or self.playback_s > 0, f"playback buffer of {self.playback_s} s; give one above 0"),
            (self.report_interval_s > 0 and self.report_packets > 0, "report interval and packets must be above 0"),
            (
                self.most_overhead is None or self.most_overhead > 0,
                f"most overhead {self.most_overhead}; give one above 0",
            ),
            (self.late_pps is None or self.late_pps > 0, f"late parity at {self.late_pps} packets/s; give more than 0"),
            (self.hold_s >= 0, f"hold of {self.hold_s} s; give 0 or more"),
            (
                self.block_size is None or self.source_packets <= self.block_size <= 255,
                f"block size {self.block_size}; give M to 255",
            ),
        )
        for holds, wrong in checks:
            if not holds:
                raise InputError(f"stream: {wrong}")
        if not given:
            object.__setattr__(self, "playback_s", max(LEAST_PLAYBACK_S, LEAST_PLAYBACK_BLOCKS * self.block_s))
        try:
            stratified_labels(self.label_rule)
        except FecError as error:
            raise InputError(f"stream: {error}") from None


@dataclass(frozen=True, kw_only=True)
class RouteChange:
    """Nodes have moved, ``at_s`` after the stream's start: links that appeared and vanished (both directions of each
    cable are listed) and the label splits that follow from the links that are there now."""

    at_s: float
    appeared: tuple[LinkId, ...] = ()
    vanished: tuple[LinkId, ...] = ()
    forward: LabelSplit
    backward: LabelSplit


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamPlan(ShortRepr):
    """Everything a fabric needs to run one stream, and everything a verdict needs to judge it.

    Where nodes move, ``network`` has every link that is there at any time, ``absent`` are those that are not at the
    start, and ``changes`` follow in time. ``handover`` after: links vanish without warning, then the plan is replaced;
    before: the new plan is in force before the vanishing links stop to carry. ``layers``: of ``method``, by which it is
    routed again. ``route``: what ``forward`` (at first) is a rounding of; it goes into no file, and a plan read from
    one has none.
    """

    network: Network
    method: str
    forward: LabelSplit
    backward: LabelSplit
    stream: StreamParameters
    faults: tuple[Fault, ...] = ()
    absent: tuple[LinkId, ...] = ()
    changes: tuple[RouteChange, ...] = ()
    handover: Handover = "after"
    layers: int | None = None
    duration_s: float
    seed: int = 1
    route: SplitRoute | None = field(default=None, compare=False, repr=False)

    @property
    def exact_route(self) -> SplitRoute:
        """The route at first; where it is not known, with the loads of the label split."""
        if self.route is not None:
            return self.route
        loads = tuple(self.forward.load(i) for i in range(len(self.network.links)))
        return SplitRoute(network=self.network, source=self.source, sink=self.sink, method=self.method, loads=loads)

    @property
    def splits(self) -> tuple[LabelSplit, ...]:
        """The forward splits in the order in which they are in force: the first, then one a change."""
        return (self.forward, *(change.forward for change in self.changes))

    @property
    def source(self) -> str:
        return self.forward.source

    @property
    def sink(self) -> str:
        return self.forward.sink

    def __post_init__(self) -> None:
        if self.duration_s <= 0:
            raise InputError(f"plan: duration {self.duration_s} s must be above 0")
        for fault in self.faults:
            if fault.link not in self.network.link_index:
                raise InputError(f"plan: fault on {label_of(fault.link)}, which is no link of {self.network.name!r}")
        moving = next((f for f in self.faults if f.kind == "impaired"), None) if self.changes or self.absent else None
        if moving is not None:
            raise InputError(f"plan: {moving.description} on {label_of(moving.link)}: no impairments while nodes move")
        times = [0.0, *(change.at_s for change in self.changes), self.duration_s]
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise InputError(
                "plan: route changes must come one after another, between the start and the end of the stream"
            )
        if self.handover not in ("after", "before"):
            raise InputError(f"plan: handover {self.handover!r} is neither after nor before")


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamsPlan(ShortRepr):
    """Streams that run at once on one network, under the first one's faults; ``titles`` name them for the reader, one
    each."""

    plans: tuple[StreamPlan, ...]
    titles: tuple[str, ...]

    @property
    def network(self) -> Network:
        return self.plans[0].network


FORMAT = 1


def plan_to_json(plan: StreamPlan) -> dict[str, Any]:
    """The whole plan as JSON-ready values; an equal plan can be read back from it."""
    head = {"format": FORMAT, "network": network_document(plan.network), "network_name": plan.network.name}
    document: dict[str, Any] = head | json_ready(replace(plan, route=None), without=Network)
    del document["route"]
    return document
