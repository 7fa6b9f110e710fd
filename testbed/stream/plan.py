"""The plan of a streaming run: a value (JSON) that either fabric can run.

Network, label splits there and back, changes of both while nodes move, stream parameters, faults and seed; no fabric,
clock or file in it.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.model.json_values import json_ready
from testbed.model.label_split import LabelSplit
from testbed.model.routes import SplitRoute
from testbed.model.short_repr import ShortRepr
from testbed.stream.options import Handover
from testbed.stream.options import StreamParameters as StreamParameters
from topologies import JsonObject, LinkId, Network, label_of
from topologies.files.node_link import network_document


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
        return SplitRoute(
            network=self.network,
            source=self.source,
            sink=self.sink,
            method=self.method,
            loads=loads,
        )

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
                raise InputError(
                    f"plan: fault on {label_of(fault.link)}, which is no link of {self.network.name!r}"
                )
        moving = (
            next((f for f in self.faults if f.kind == "impaired"), None)
            if self.changes or self.absent
            else None
        )
        if moving is not None:
            raise InputError(
                f"plan: {moving.description} on {label_of(moving.link)}: no impairments while nodes move"
            )
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


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbePlan(ShortRepr):
    """``plan`` is streamed twice with ``link`` down, at N and at N - 1, so many blocks each time."""

    plan: StreamPlan
    link: LinkId
    blocks: int

    @property
    def network(self) -> Network:
        return self.plan.network


FORMAT = 1


def plan_to_json(plan: StreamPlan) -> JsonObject:
    """The whole plan as JSON-ready values; an equal plan can be read back from it."""
    head = {
        "format": FORMAT,
        "network": network_document(plan.network),
        "network_name": plan.network.name,
    }
    document: JsonObject = head | json_ready(replace(plan, route=None), without=Network)
    del document["route"]
    return document
