"""The plan of a run of software routers: routers, cables, and messages with their paths.

``two_failures_plan`` builds the deadlock of two link failures (Zarza 2011, section 4.1, Figures 4.1
and 4.2). It is a part of a torus or mesh, 5 routers wide and 3 high. There are two pairs of hosts;
each has a dead link in the middle row, and a detour:

    o     o-----o-----D1    o        S1: right, dead link; detour: down, right, right, up; up to D1
          |           |              S2: left, dead link; detour: up, left, left, down; down to D2
    S1----o--x--o--x--o-----S2
          |           |
    o     D2----o-----o     o

The detours are a cycle of eight channels round the router in the middle. S1's packets hold four of
them and wait for S2's packets, and vice versa.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Literal, get_args

import networkx
import numpy as np

from testbed.errors import InputError
from testbed.model.short_repr import ShortRepr
from testbed.routers.wire import DataPacket

# How deadlock is avoided: not at all; by NAC; or by bubble flow control, which does not let a
# packet of a host take the last free slot behind an output.
Avoidance = Literal["none", "nac", "bubble"]
MAX_ROUTERS = 64
MAX_PAYLOAD_BYTES = 4000


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Messages from one host to another over a fixed path.

    Attributes:
        path: Routers from the source to the destination.
        times_s: When each message is generated (seconds after the start).
    """

    path: tuple[int, ...]
    times_s: tuple[float, ...]

    @property
    def source(self) -> int:
        """Router of the source host."""
        return self.path[0]

    @property
    def destination(self) -> int:
        """Router of the destination host."""
        return self.path[-1]


@dataclass(frozen=True, kw_only=True, repr=False)
class RouterPlan(ShortRepr):
    """Routers, each with one host, and the messages between the hosts.

    Attributes:
        routers: Number of routers; they are numbered from 0.
        cables: Pairs of routers that a cable connects, full duplex.
        flows: The messages.
        avoidance: How deadlock is avoided.
        slots: Number of packets that each input buffer and each output buffer holds.
        payload_bytes: Size of a message.
        packet_s: Time for which a packet occupies a link, in seconds.
        retry_s: NAC's retry time, in seconds.
        stuck_s: The run ends when no packet has moved for this time, in seconds. If buffers hold
            packets then, it is a deadlock.
        limit_s: Longest duration of the run, in seconds.

    Raises:
        InputError: A value is invalid: for instance, a path does not follow the cables, or two
            paths connect the same pair.
    """

    routers: int
    cables: tuple[tuple[int, int], ...]
    flows: tuple[Flow, ...]
    avoidance: Avoidance = "nac"
    slots: int = 2
    payload_bytes: int = 512
    packet_s: float = 0.002
    retry_s: float = 0.05
    stuck_s: float = 1.0
    limit_s: float = 20.0

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_cables_and_paths()

    def _check_numbers(self) -> None:
        if not 2 <= self.routers <= MAX_ROUTERS:
            raise InputError(f"{self.routers} routers; give 2 to {MAX_ROUTERS}")
        if self.avoidance not in get_args(Avoidance):
            raise InputError(
                f"avoidance {self.avoidance!r}; give one of {', '.join(get_args(Avoidance))}"
            )
        if self.slots < 1:
            raise InputError(f"{self.slots} slots a buffer; give 1 or more")
        if not 0 <= self.payload_bytes <= MAX_PAYLOAD_BYTES:
            raise InputError(
                f"payload of {self.payload_bytes} bytes; give 0 to {MAX_PAYLOAD_BYTES}"
            )

    def _check_cables_and_paths(self) -> None:
        for a, b in self.cables:
            if a == b or not (0 <= a < self.routers and 0 <= b < self.routers):
                raise InputError(
                    f"a cable joins {a} and {b}; give two routers of 0 to {self.routers - 1}"
                )
        connected = {frozenset(cable) for cable in self.cables}
        if len(connected) < len(self.cables):
            raise InputError("two cables join the same routers; give one")
        pairs = set()
        for flow in self.flows:
            steps = {frozenset(step) for step in itertools.pairwise(flow.path)}
            if not steps or not steps <= connected:
                raise InputError(
                    f"the path {flow.path} does not follow the cables; give routers that are joined"
                )
            if (flow.source, flow.destination) in pairs:
                raise InputError(f"two paths from {flow.source} to {flow.destination}; give one")
            pairs.add((flow.source, flow.destination))

    @cached_property
    def ports(self) -> tuple[tuple[int, ...], ...]:
        """The neighbour at each port of each router, in the order of the cables."""
        neighbours: list[list[int]] = [[] for _ in range(self.routers)]
        for a, b in self.cables:
            neighbours[a].append(b)
            neighbours[b].append(a)
        return tuple(tuple(ports) for ports in neighbours)

    def routes_of(self, router: int) -> Mapping[tuple[int, int], int]:
        """Return the routing table of a router: (source, destination) -> port.

        The port after the last one leads to the router's host.
        """
        ports = self.ports[router]
        host_port = len(ports)
        routes = {}
        for flow in self.flows:
            for position, on_path in enumerate(flow.path):
                if on_path != router:
                    continue
                if position == len(flow.path) - 1:
                    port = host_port
                else:
                    port = ports.index(flow.path[position + 1])
                routes[flow.source, flow.destination] = port
        return routes

    def messages_of(self, router: int) -> list[tuple[float, DataPacket]]:
        """Return the messages that a router's host sends, in order of time.

        Each is a pair: when it is generated (seconds after the start), and the message. Successive
        messages have different payloads.
        """
        messages = []
        for flow in self.flows:
            if flow.source != router:
                continue
            for number, time_s in enumerate(flow.times_s):
                seed = (flow.source * 65_537 + flow.destination * 257 + number) % 251
                packet = DataPacket(
                    source=flow.source,
                    destination=flow.destination,
                    number=number,
                    made_ns=round(time_s * 1e9),
                    payload=bytes((seed + k) % 256 for k in range(self.payload_bytes)),
                )
                messages.append((time_s, packet))
        return sorted(messages, key=itemgetter(0))

    @property
    def messages(self) -> int:
        """Number of messages of all hosts."""
        return sum(len(flow.times_s) for flow in self.flows)


def ring_plan(
    routers: int,
    hops: int,
    *,
    messages: int,
    load: float = 1.0,
    seed: int = 1,
    avoidance: Avoidance = "nac",
    slots: int = 2,
    packet_s: float = 0.002,
) -> RouterPlan:
    """Return the plan of a ring with tornado traffic: every host sends to one host on its right.

    Args:
        routers: Number of routers.
        hops: Distance of the destination, in links.
        messages: Number of messages of each host.
        load: Mean number of messages per host that are generated in the time of a packet (Poisson).
            A load of more than 1 / hops exceeds the capacity of the links.
        seed: Seed of the times.
        avoidance: How deadlock is avoided.
        slots: Number of packets that each buffer holds.
        packet_s: Time for which a packet occupies a link.
    """
    if not 1 <= hops < routers:
        raise InputError(f"{hops} hops on a ring of {routers}; give 1 to {routers - 1}")
    flows = []
    for source in range(routers):
        path = tuple((source + step) % routers for step in range(hops + 1))
        times_s = _poisson(messages, load / packet_s, [seed, source])
        flows.append(Flow(path=path, times_s=times_s))
    return RouterPlan(
        routers=routers,
        cables=tuple((k, (k + 1) % routers) for k in range(routers)),
        flows=tuple(flows),
        avoidance=avoidance,
        slots=slots,
        packet_s=packet_s,
    )


def _poisson(messages: int, rate_per_s: float, seed: Sequence[int]) -> tuple[float, ...]:
    """Return the times of a Poisson process, one per message, in seconds."""
    gaps = np.random.default_rng(list(seed)).exponential(1.0 / rate_per_s, messages)
    return tuple(float(time_s) for time_s in np.cumsum(gaps))


# Width and height of the mesh of ``two_failures_plan``.
SHAPE = (5, 3)

# Paths of both pairs as coordinates, without failures and round the dead link of each pair.
_PLAIN = ((0, 1), (1, 1), (2, 1), (3, 1), (3, 2)), ((4, 1), (3, 1), (2, 1), (1, 1), (1, 0))
_ROUND_1 = (
    ((0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)),
    ((4, 1), (3, 1), (2, 1), (2, 2), (1, 2), (1, 1), (1, 0)),
)
_ROUND_2 = (
    ((0, 1), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1), (3, 2)),
    ((4, 1), (3, 1), (3, 2), (2, 2), (1, 2), (1, 1), (1, 0)),
)
# Numbers of the dead links -> the paths of both pairs. Paths follow dimension order (x first), with
# a detour at the first dead link.
PATHS: dict[tuple[int, ...], Sequence[Sequence[tuple[int, int]]]] = {
    (): _PLAIN,
    (1,): _ROUND_1,
    (2,): _ROUND_2,
    (1, 2): (_ROUND_1[0], _ROUND_2[1]),
}
# The two links that may be dead, as coordinates of their routers.
DEAD = (((1, 1), (2, 1)), ((2, 1), (3, 1)))


def two_failures_plan(
    *,
    messages: int,
    dead: Sequence[int] = (1, 2),
    avoidance: Avoidance = "nac",
    load: float = 1.0,
    seed: int = 1,
    slots: int = 2,
) -> RouterPlan:
    """Return the plan of two pairs of hosts, each of which may have a dead link on its path.

    Each pair has a second source: the router after the first one on the path. With one source
    alone, the fair arbitration of the routers keeps the channels of the cycle just below full.

    Args:
        messages: Number of messages of each of the four sources.
        dead: The dead links: 1, 2, both or none.
        avoidance: How deadlock is avoided.
        load: Mean number of messages per source that are generated in the time of a packet.
        seed: Seed of the times.
        slots: Number of packets that each buffer holds.
    """
    mesh = networkx.grid_2d_graph(*SHAPE)
    mesh.remove_edges_from(DEAD[number - 1] for number in dead)
    router_at = {(x, y): y * SHAPE[0] + x for x, y in mesh}
    first, second = PATHS[tuple(dead)]
    flows = []
    for k, path in enumerate([first, second, first[1:], second[1:]]):
        routers = tuple(router_at[position] for position in path)
        times_s = _poisson(messages, load / RouterPlan.packet_s, [seed, k])
        flows.append(Flow(path=routers, times_s=times_s))
    cables = tuple(sorted((router_at[a], router_at[b]) for a, b in mesh.edges))
    return RouterPlan(
        routers=len(router_at),
        cables=cables,
        flows=tuple(flows),
        avoidance=avoidance,
        slots=slots,
    )


def dependency_cycles(paths: Iterable[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Return the cycles of channels in which packets on these paths may wait for each other.

    A channel is (from router, to router). A packet in a channel waits for the next channel of its
    path. Without a cycle there can be no deadlock (Dally and Seitz 1987).

    >>> dependency_cycles([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    [[(0, 1), (1, 2), (2, 0)]]
    """
    waits = networkx.DiGraph()
    for path in paths:
        channels = itertools.pairwise(path)
        waits.add_edges_from(itertools.pairwise(channels))
    cycles = []
    for cycle in networkx.simple_cycles(waits):
        first = cycle.index(min(cycle))
        cycles.append(cycle[first:] + cycle[:first])
    return sorted(cycles)
