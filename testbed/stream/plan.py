"""The plan of a stream, which either fabric can run and which can be written as JSON.

It consists of the network, the forward and the backward label split, their changes while nodes
move, the parameters of the stream, the faults and the seed. It does not depend on a fabric, a clock
or a file.
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
    """A change of links and label splits after nodes have moved.

    Both directions of each cable are listed.

    Attributes:
        at_s: Time of the change, after the start of the stream.
        appeared: Links that appear.
        vanished: Links that vanish.
        forward: The forward split over the links that are now present.
        backward: The backward split over them.
    """

    at_s: float
    appeared: tuple[LinkId, ...] = ()
    vanished: tuple[LinkId, ...] = ()
    forward: LabelSplit
    backward: LabelSplit


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamPlan(ShortRepr):
    """The plan of one stream, sufficient to run and to judge it.

    Attributes:
        network: The network. If nodes move, it has every link that is present at any time.
        method: Routing method.
        forward: The forward label split, at first.
        backward: The backward label split, at first.
        stream: The parameters of the stream.
        faults: The faults.
        absent: Links that are not present at the start.
        changes: The route changes, in order.
        handover: "after" if links vanish without warning and the splits are replaced then;
            "before" if the new splits are active before links vanish.
        layers: Number of layers of capillary routing, for computing routes again; None for all.
        duration_s: Duration of the stream.
        seed: Seed of labels, faults and content.
        route: The route of which ``forward`` is a rounding. It is not written to files, so a plan
            that was read from a file has none.
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
        """The route at first; the loads of the label split if the route is unknown."""
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
        """The forward splits in the order in which they are active."""
        return (self.forward, *(change.forward for change in self.changes))

    @property
    def source(self) -> str:
        """The node at which the stream starts."""
        return self.forward.source

    @property
    def sink(self) -> str:
        """The node at which the stream ends."""
        return self.forward.sink

    def __post_init__(self) -> None:
        if self.duration_s <= 0:
            raise InputError(f"plan: duration {self.duration_s} s must be above 0")
        for fault in self.faults:
            if fault.link not in self.network.link_index:
                raise InputError(
                    f"plan: fault on {label_of(fault.link)}, "
                    f"which is no link of {self.network.name!r}"
                )
        if self.changes or self.absent:
            for fault in self.faults:
                if fault.kind == "impaired":
                    raise InputError(
                        f"plan: {fault.description} on {label_of(fault.link)}: "
                        "no impairments while nodes move"
                    )
        times = [0.0, *(change.at_s for change in self.changes), self.duration_s]
        if any(later <= earlier for earlier, later in pairwise(times)):
            raise InputError(
                "plan: route changes must come one after another, "
                "between the start and the end of the stream"
            )
        if self.handover not in ("after", "before"):
            raise InputError(f"plan: handover {self.handover!r} is neither after nor before")


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamsPlan(ShortRepr):
    """The plans of streams that run at the same time on one network.

    Attributes:
        plans: The plans. The faults are those of the first one.
        titles: A name of each stream for the reader.
    """

    plans: tuple[StreamPlan, ...]
    titles: tuple[str, ...]

    @property
    def network(self) -> Network:
        """The network of the streams."""
        return self.plans[0].network


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbePlan(ShortRepr):
    """The plan of a probe: two streams while a link is down, with block size N and N - 1.

    Attributes:
        plan: The plan of the streams.
        link: The link that is down.
        blocks: Number of blocks of each stream.
    """

    plan: StreamPlan
    link: LinkId
    blocks: int

    @property
    def network(self) -> Network:
        """The network of the streams."""
        return self.plan.network


# Version of the JSON document of a plan.
FORMAT = 1


def plan_to_json(plan: StreamPlan) -> JsonObject:
    """Return the plan as JSON, from which an equal plan can be read."""
    document: JsonObject = {
        "format": FORMAT,
        "network": network_document(plan.network),
        "network_name": plan.network.name,
    }
    document |= json_ready(replace(plan, route=None), without=Network)
    del document["route"]
    return document
