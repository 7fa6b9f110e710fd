"""What hosts do with a plan's packets: the source's cable and the ways of hosts that forward, label by label.

Switches are told by ``rules``. Both are derived from the same label split or path, so that a packet whose way begins
at one of several cables, or leads through a router, takes the links that the plan says. A host that has nothing to
choose needs no route of a plan: none is made for a network whose hosts all have one cable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.model.label_split import LABELS, Interval, LabelSplit
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.shortest_paths import Step
from topologies.network import LinkId


@dataclass(frozen=True, kw_only=True, order=True)
class HostRoute:
    """At ``host`` (WiredHost.name), packets of a pair leave by ``port`` to the IP node ``node`` next.

    ``labels``: those of the stream to ``udp_port`` alone, half-open; None: all of the pair's packets that no route with
    labels takes. ``begins``: the host is the pair's source.
    """

    host: str
    source_ip: str
    sink_ip: str
    port: int
    node: str
    begins: bool
    udp_port: int | None = None
    labels: Interval | None = None


def path_steps(wiring: Wiring, source: WiredHost, sink: WiredHost, path: Sequence[LinkId]) -> dict[str, Step]:
    """Host -> its step along the path of links, for the source and every host that the path leads through."""
    names = {host.node: host.name for host in wiring.hosts if not host.outside}
    leaving = {source.name: 0} if source.outside else {}
    leaving |= {names[link[0]]: wiring.out_port(link) for link in path if link[0] in names}
    return {host: Step(leaving[host], following) for host, following in pairwise((*leaving, sink.name))}


def path_routes(wiring: Wiring, source: str, sink: str, path: Sequence[LinkId]) -> tuple[HostRoute, ...]:
    """All packets from one end point to another along one path; nothing where no host has a choice."""
    if not wiring.routed:
        return ()
    ends = wiring.host_at(source), wiring.host_at(sink)
    return tuple(_route(ends, host, step) for host, step in path_steps(wiring, *ends, path).items())


def stream_routes(wiring: Wiring, split: LabelSplit, *, udp_port: int) -> tuple[HostRoute, ...]:
    """The pair's labelled stream over the split, and everything else of the pair over the path of label 0; nothing
    where no host has a choice."""
    if not wiring.routed:
        return ()
    links = wiring.network.links
    ends = wiring.host_at(split.source), wiring.host_at(split.sink)
    found: dict[tuple[str, Step], list[Interval]] = {}
    for path in split.paths:
        for one in path_steps(wiring, *ends, [links[i].id for i in path.links]).items():
            own = found.setdefault(one, [])
            start = own.pop()[0] if own and own[-1][1] == path.start else path.start
            own.append((start, path.stop))
    labelled = tuple(
        _route(ends, host, step, udp_port, interval)
        for (host, step), intervals in found.items()
        for interval in intervals
        if interval != (0, LABELS)
    )
    return labelled + path_routes(wiring, split.source, split.sink, [links[i].id for i in split.path_of(0).links])


def step_of(routes: Iterable[HostRoute], host: str, label: int) -> Step | None:
    """What the routes of one pair say at a host of a stream's packet with that label; None where they say nothing."""
    own = [route for route in routes if route.host == host]
    meant = [route for route in own if route.labels and route.labels[0] <= label < route.labels[1]]
    chosen = next(iter((*meant, *(route for route in own if route.labels is None))), None)
    return None if chosen is None else Step(chosen.port, chosen.node)


def _route(
    ends: tuple[WiredHost, WiredHost],
    host: str,
    step: Step,
    udp_port: int | None = None,
    labels: Interval | None = None,
) -> HostRoute:
    source, sink = ends
    return HostRoute(
        host=host,
        source_ip=source.ip,
        sink_ip=sink.ip,
        port=step.port,
        node=step.node,
        begins=host == source.name,
        udp_port=udp_port,
        labels=labels,
    )
