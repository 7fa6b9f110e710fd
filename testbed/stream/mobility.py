"""Makes the plan of a stream from the frames of a walk.

The network of the plan has the links of all frames, and every frame is a route change. A fabric
computes the route of a frame by the same function, ``splits_of``.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from testbed.errors import InputError
from testbed.faults.fault import Fault, PoissonFaults
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.model.naming.names import NetworkLike, known_network, read_node
from testbed.model.routes import SplitRoute
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import disjoint_return_split, spray
from testbed.stream.options import HANDOVERS, EachLink, MobilityOptions
from testbed.stream.plan import RouteChange, StreamPlan
from testbed.stream.planning import (
    check_plan,
    parse_faults,
    random_faults,
)
from topologies import Link, LinkId, Network, TopologyError

# Number of changes that the search for few label intervals tries (``spray``'s budget). A route must
# be found within tens of milliseconds after a frame begins.
SEARCH = 300


def splits_of(
    network: Network, source: str, sink: str, method: str = "capillary", layers: int | None = None
) -> tuple[SplitRoute, LabelSplit, LabelSplit]:
    """Return the route, the forward split and the backward split over the links of one frame.

    Args:
        network: The network with the links of the frame.
        source: The node at which the stream starts.
        sink: The node at which the stream ends.
        method: Routing method.
        layers: Number of layers of capillary routing; None for all.

    Raises:
        TopologyError: There is no path from source to sink.
    """
    route = route_by_name(network, source, sink, method, layers=layers)
    return route, spray(route, budget=SEARCH), disjoint_return_split(network, source, sink)


class _Frame(NamedTuple):
    """The links and the routes of one frame.

    Attributes:
        links: The links that are present.
        route: The route over them.
        forward: The forward split, on the network with the links of all frames.
        backward: The backward split, on the same network.
    """

    links: frozenset[LinkId]
    route: SplitRoute
    forward: LabelSplit
    backward: LabelSplit


def build_mobility(requested: MobilityOptions) -> StreamPlan:
    """Make the plan of a stream during which nodes move.

    Hosts are removed, because source and sink get hosts of their own. Random faults affect the
    cables that the route of some frame loads.

    Raises:
        InputError: The sink is unreachable in a frame, or the stream is not possible.
    """
    networks = [known_network(name) for name in frame_names(requested.frames, requested.count)]
    if not networks:
        raise InputError("mobility: no frame; give one at least")
    source = read_node(requested.source, networks[0])
    sink = read_node(requested.sink, networks[0])
    layers = None
    if requested.method == "capillary":
        layers = requested.layers or None
    switched = [switches_only(network) for network in networks]
    union = union_network(switched)
    frames: list[_Frame] = []
    for number, network in enumerate(switched):
        links = frozenset(link.id for link in network.links)
        try:
            frames.append(_route_frame(union, links, source, sink, requested.method, layers))
        except TopologyError as error:
            raise InputError(
                f"mobility: frame {number}: {error}; "
                "take other end points, another seed, or a longer range"
            ) from None
    first = frames[0]
    duration_s = requested.warm_up_s + len(frames) * requested.frame_s
    plan = StreamPlan(
        network=union,
        method=requested.method,
        layers=layers,
        forward=first.forward,
        backward=first.backward,
        stream=requested.parameters,
        absent=_in_order(union, frozenset(union.link_index) - first.links),
        changes=_route_changes(frames, union, requested),
        handover=HANDOVERS[requested.handover],
        duration_s=round(duration_s + requested.parameters.playback_s, 4),
        seed=requested.seed,
        route=route_on(first.route, union),
    )
    plan = replace(plan, faults=_planned_faults(plan, requested))
    check_plan(plan)
    return plan


def _route_changes(
    frames: Sequence[_Frame], union: Network, requested: MobilityOptions
) -> tuple[RouteChange, ...]:
    """Return the change at the beginning of each frame but the first."""
    changes = []
    for number in range(1, len(frames)):
        frame = frames[number]
        previous_links = frames[number - 1].links
        change = RouteChange(
            at_s=round(requested.warm_up_s + number * requested.frame_s, 4),
            appeared=_in_order(union, frame.links - previous_links),
            vanished=_in_order(union, previous_links - frame.links),
            forward=frame.forward,
            backward=frame.backward,
        )
        changes.append(change)
    return tuple(changes)


def _planned_faults(plan: StreamPlan, requested: MobilityOptions) -> tuple[Fault, ...]:
    """Return the faults of a plan while nodes move."""
    faults = parse_faults(requested.faults, plan.network, "give none or poisson:rate=R,lasts=S")
    if isinstance(faults, EachLink):
        raise InputError(
            "faults: each-link is for a network that stands still; "
            "give none or poisson:rate=R,lasts=S"
        )
    if isinstance(faults, PoissonFaults):
        return random_faults(plan, faults)
    return faults


def union_network(frames: Sequence[Network]) -> Network:
    """Return a network with the links of all frames, in the order in which they appear.

    Raises:
        InputError: The frames have different nodes.
    """
    first = frames[0]
    node_names = [node.id for node in first.nodes]
    links: dict[LinkId, Link] = {}
    for frame in frames:
        if [node.id for node in frame.nodes] != node_names:
            raise InputError(
                f"mobility: {frame.name!r} has other nodes than {first.name!r}; "
                "frames share their nodes"
            )
        for link in frame.links:
            links.setdefault(link.id, link)
    attributes = dict(first.attributes)
    attributes.pop("frame", None)
    attributes["frames"] = len(frames)
    name = first.name
    if len(frames) > 1:
        name = f"{name}..{len(frames) - 1}"
    return Network(name=name, nodes=first.nodes, links=tuple(links.values()), attributes=attributes)


def switches_only(network: Network) -> Network:
    """Return the network without its hosts and their cables."""
    if not network.hosts:
        return network
    hosts = {host.id for host in network.hosts}
    nodes = tuple(node for node in network.nodes if node.id not in hosts)
    links = tuple(link for link in network.links if hosts.isdisjoint((link.source, link.target)))
    return replace(network, nodes=nodes, links=links)


def on_network(split: LabelSplit, network: Network) -> LabelSplit:
    """Return the same paths on another network, which has all their links."""
    paths = []
    for path in split.paths:
        links = [network.link_index[split.network.links[link].id] for link in path.links]
        paths.append(LabelPath(start=path.start, stop=path.stop, links=tuple(links)))
    return LabelSplit(network=network, source=split.source, sink=split.sink, paths=tuple(paths))


def route_on(route: SplitRoute, network: Network) -> SplitRoute:
    """Return the same loads on another network that has the route's links.

    Other links carry nothing.
    """
    known_links = route.network.link_index
    loads = []
    layers = []
    for link in network.links:
        index = known_links.get(link.id)
        loads.append(Fraction(0) if index is None else route.loads[index])
        # Only capillary routing has layers.
        if route.link_layers:
            layers.append(0 if index is None else route.link_layers[index])
    return replace(route, network=network, loads=tuple(loads), link_layers=tuple(layers))


def _route_frame(
    union: Network,
    links: frozenset[LinkId],
    source: str,
    sink: str,
    method: str,
    layers: int | None,
) -> _Frame:
    """Return the route and the splits of a frame with these links (see ``splits_of``)."""
    network = _with_links(union, links)
    route, forward, backward = splits_of(network, source, sink, method, layers)
    return _Frame(links, route, on_network(forward, union), on_network(backward, union))


def _with_links(network: Network, links: frozenset[LinkId]) -> Network:
    """Return the network with these of its links."""
    return replace(network, links=tuple(link for link in network.links if link.id in links))


def _in_order(network: Network, links: frozenset[LinkId]) -> tuple[LinkId, ...]:
    """Return the links in the order of the network."""
    return tuple(link.id for link in network.links if link.id in links)


def recomputed(plan: StreamPlan, change: int) -> tuple[LabelSplit, LabelSplit]:
    """Compute the splits after a route change, as a controller does that is notified of it.

    Args:
        plan: The plan.
        change: The number of the change, from 0.

    Returns:
        The forward and the backward split, which are those of the plan.
    """
    frame = frame_network(plan, change)
    _, forward, backward = splits_of(frame, plan.source, plan.sink, plan.method, plan.layers)
    return on_network(forward, plan.network), on_network(backward, plan.network)


def frame_network(plan: StreamPlan, change: int) -> Network:
    """Return the network with the links that are present after a route change.

    Args:
        plan: The plan.
        change: The number of the change, from 0; -1 for the start of the stream.
    """
    absent = set(plan.absent)
    for route_change in plan.changes[: change + 1]:
        absent.difference_update(route_change.appeared)
        absent.update(route_change.vanished)
    return _with_links(plan.network, frozenset(plan.network.link_index) - absent)


def frame_names(frames: NetworkLike | Sequence[NetworkLike], count: int) -> tuple[NetworkLike, ...]:
    """Return one network for each frame.

    >>> frame_names("manet:nodes=9", 2)
    ('manet:nodes=9,frame=0', 'manet:nodes=9,frame=1')

    Args:
        frames: The networks of the frames, or one mobile network.
        count: Number of frames of a mobile network.

    Raises:
        InputError: There is one network, and it is not mobile.
    """
    networks: list[NetworkLike]
    if isinstance(frames, Sequence) and not isinstance(frames, str):
        networks = list(frames)
    else:
        networks = [frames]
    if len(networks) != 1 or isinstance(networks[0], Network):
        return tuple(networks)
    name = str(networks[0])
    kind, _, parameters = name.partition(":")
    if kind != "manet":
        raise InputError(
            f"{name!r} does not move; give a mobile network (manet:...) or one file for each frame"
        )
    if "frame=" in name:
        raise InputError(f"{name!r}: leave frame= out; the walk begins with frame 0")
    separator = "," if ":" in name else ":"
    return tuple(f"{name}{separator}frame={number}" for number in range(count))
