"""From the frames of a walk to a plan: all links of all frames in one network, and a route change at every frame.

Pure: the controller's part, routing and splitting again, is ``splits_of``; a fabric that recomputes calls the same
function.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from testbed.errors import InputError
from testbed.faults.fault import PoissonFaults
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.model.naming.names import NetworkLike, known_network, read_node
from testbed.model.routes import SplitRoute
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import disjoint_return_split, spray
from testbed.stream.options import HANDOVERS, EachLink, MobilityOptions
from testbed.stream.plan import RouteChange, StreamPlan
from testbed.stream.planning import (
    check_plan,
    made_faults,
    random_faults,
)
from topologies import Link, LinkId, Network, TopologyError

SEARCH = 300
"""Changes tried for fewer intervals (``spray``'s budget): a frame must be answered in tens of milliseconds."""


def splits_of(
    network: Network, source: str, sink: str, method: str = "capillary", layers: int | None = None
) -> tuple[SplitRoute, LabelSplit, LabelSplit]:
    """Route and splits, there and back, over the links of one frame. Raises TopologyError where no path is left."""
    route = route_by_name(network, source, sink, method, layers=layers)
    return route, spray(route, budget=SEARCH), disjoint_return_split(network, source, sink)


def build_mobility(requested: MobilityOptions) -> StreamPlan:
    """The plan of a stream during which nodes move through the frames (networks of the same nodes).

    Hosts are left out: the two ends get their own. Random faults come on the cables that some frame's route loads.
    Raises InputError naming the frame where the sink is out of reach, or what else cannot be streamed.
    """
    frames = [known_network(frame) for frame in frame_names(requested.frames, requested.count)]
    if not frames:
        raise InputError("mobility: no frame; give one at least")
    source, sink = read_node(requested.source, frames[0]), read_node(requested.sink, frames[0])
    method, begin = requested.method, requested.warm_up_s
    layers = requested.layers or None if method == "capillary" else None
    stream = requested.parameters
    switched = [switches_only(frame) for frame in frames]
    union = union_network(switched)
    present = [frozenset(link.id for link in frame.links) for frame in switched]
    routed = [
        _routed(k, _only(union, there), source, sink, method, layers)
        for k, there in enumerate(present)
    ]
    moved = [(on_network(there, union), on_network(back, union)) for _, there, back in routed]
    changes = tuple(
        RouteChange(
            at_s=round(begin + k * requested.frame_s, 4),
            appeared=_in_order(union, present[k] - present[k - 1]),
            vanished=_in_order(union, present[k - 1] - present[k]),
            forward=moved[k][0],
            backward=moved[k][1],
        )
        for k in range(1, len(frames))
    )
    plan = StreamPlan(
        network=union,
        method=method,
        layers=layers,
        forward=moved[0][0],
        backward=moved[0][1],
        stream=stream,
        absent=_in_order(union, frozenset(link.id for link in union.links) - present[0]),
        changes=changes,
        handover=HANDOVERS[requested.handover],
        duration_s=round(begin + len(frames) * requested.frame_s + stream.playback_s, 4),
        seed=requested.seed,
        route=route_on(routed[0][0], union),
    )
    faults = made_faults(requested.faults, union, "give none or poisson:rate=R,lasts=S")
    if isinstance(faults, EachLink):
        raise InputError(
            "faults: each-link is for a network that stands still; give none or poisson:rate=R,lasts=S"
        )
    scheduled = random_faults(plan, faults) if isinstance(faults, PoissonFaults) else faults
    plan = replace(plan, faults=scheduled)
    check_plan(plan)
    return plan


def union_network(frames: Sequence[Network]) -> Network:
    """One network with every link of any frame, in the order in which they come; nodes as in the first frame."""
    names = [node.id for node in frames[0].nodes]
    links: dict[LinkId, Link] = {}
    for frame in frames:
        if [node.id for node in frame.nodes] != names:
            raise InputError(
                f"mobility: {frame.name!r} has other nodes than {frames[0].name!r}; frames share their nodes"
            )
        for link in frame.links:
            links.setdefault(link.id, link)
    attributes = {k: v for k, v in frames[0].attributes.items() if k != "frame"} | {
        "frames": len(frames)
    }
    name = frames[0].name if len(frames) == 1 else f"{frames[0].name}..{len(frames) - 1}"
    return Network(
        name=name, nodes=frames[0].nodes, links=tuple(links.values()), attributes=attributes
    )


def switches_only(network: Network) -> Network:
    """The network without its hosts and their cables."""
    if not network.hosts:
        return network
    hosts = {host.id for host in network.hosts}
    return replace(
        network,
        nodes=tuple(node for node in network.nodes if node.id not in hosts),
        links=tuple(link for link in network.links if not {link.source, link.target} & hosts),
    )


def on_network(split: LabelSplit, network: Network) -> LabelSplit:
    """The same paths as links of another network that has them all."""
    number = {i: network.link_index[split.network.links[i].id] for i in split.loaded}
    paths = (
        LabelPath(start=p.start, stop=p.stop, links=tuple(number[i] for i in p.links))
        for p in split.paths
    )
    return LabelSplit(network=network, source=split.source, sink=split.sink, paths=tuple(paths))


def route_on(route: SplitRoute, network: Network) -> SplitRoute:
    """Return the same loads on another network that has the route's links.

    Other links carry nothing.
    """
    known = route.network.link_index
    loads = tuple(
        route.loads[known[link.id]] if link.id in known else Fraction(0) for link in network.links
    )
    if not route.link_layers:  # only capillary routing has layers
        return replace(route, network=network, loads=loads)
    layers = tuple(
        route.link_layers[known[link.id]] if link.id in known else 0 for link in network.links
    )
    return replace(route, network=network, loads=loads, link_layers=layers)


def _routed(
    number: int, frame: Network, source: str, sink: str, method: str, layers: int | None
) -> tuple[SplitRoute, LabelSplit, LabelSplit]:
    try:
        return splits_of(frame, source, sink, method, layers)
    except TopologyError as error:
        raise InputError(
            f"mobility: frame {number}: {error}; take other end points, another seed, or a longer range"
        ) from None


def _only(network: Network, links: frozenset[LinkId]) -> Network:
    return replace(network, links=tuple(link for link in network.links if link.id in links))


def _in_order(network: Network, links: frozenset[LinkId]) -> tuple[LinkId, ...]:
    return tuple(link.id for link in network.links if link.id in links)


def recomputed(plan: StreamPlan, change: int) -> tuple[LabelSplit, LabelSplit]:
    """What a controller notified of change number ``change`` (from 0) routes and splits again: the plan's own
    splits."""
    _, there, back = splits_of(
        frame_network(plan, change), plan.source, plan.sink, plan.method, plan.layers
    )
    return on_network(there, plan.network), on_network(back, plan.network)


def frame_network(plan: StreamPlan, change: int) -> Network:
    """The links that are there after change number ``change`` (from 0; -1: at the start), as the controller sees
    them."""
    gone = set(plan.absent)
    for one in plan.changes[: change + 1]:
        gone = (gone - set(one.appeared)) | set(one.vanished)
    return _only(plan.network, frozenset(plan.network.link_index) - gone)


def frame_names(frames: NetworkLike | Sequence[NetworkLike], count: int) -> tuple[NetworkLike, ...]:
    """One network a frame: those given, or the successive frames of the one mobile network.

    >>> frame_names("manet:nodes=9", 2)
    ('manet:nodes=9,frame=0', 'manet:nodes=9,frame=1')
    """
    listed = (
        list(frames) if isinstance(frames, Sequence) and not isinstance(frames, str) else [frames]
    )
    if len(listed) != 1 or isinstance(listed[0], Network):
        return tuple(listed)
    name = str(listed[0])
    if name.partition(":")[0] != "manet":
        raise InputError(
            f"{name!r} does not move; give a mobile network (manet:...) or one file a frame"
        )
    if "frame=" in name:
        raise InputError(f"{name!r}: leave frame= out; the walk begins with frame 0")
    return tuple(f"{name}{',' if ':' in name else ':'}frame={k}" for k in range(count))
