"""The value that says which software routers there are, how they are cabled, and which messages their hosts send
where; and the deadlock of two link failures (Zarza 2011, section 4.1, Figures 4.1 and 4.2), built.

Part of a torus or mesh, 5 routers wide and 3 high; two pairs, each with its link dead in the middle row, and the
detours:

    o     o-----o-----D1    o        S1: right, its link is dead: down, right, right, up, and up again to D1
          |           |              S2: left, its link is dead: up, left, left, down, and down again to D2
    S1----o--x--o--x--o-----S2
          |           |              The detours are a cycle of eight channels round the router in the middle:
    o     D2----o-----o     o        S1's packets hold four of them and wait for S2's, and the other way round.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import networkx
import numpy as np

from testbed.errors import InputError
from testbed.model.short_repr import ShortRepr
from testbed.routers.wire import DataPacket

Avoidance = Literal["none", "nac", "bubble"]
"""How deadlock is avoided: not at all; by NAC; by bubble flow control (a ring's last free slot is not for
newcomers)."""
MAX_ROUTERS = 64
MAX_PAYLOAD_BYTES = 4000


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Messages of one host to another over a fixed path of routers, made at ``times_s`` (seconds after the start)."""

    path: tuple[int, ...]
    times_s: tuple[float, ...]

    @property
    def source(self) -> int:
        return self.path[0]

    @property
    def destination(self) -> int:
        return self.path[-1]


@dataclass(frozen=True, kw_only=True, repr=False)
class RouterPlan(ShortRepr):
    """``routers`` are numbered from 0, each with one host of its own; ``cables`` join two of them, full duplex.

    ``slots``: packets that each input buffer and each output buffer holds; ``packet_s``: how long a packet occupies a
    link; ``retry_s``: NAC's retry timer; ``stuck_s``: no packet having moved for so long, with packets in buffers, is a
    deadlock; ``limit_s``: how long the run may take. Raises InputError for what cannot be: a path over no cable, two
    paths of one pair.
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
        for a, b in self.cables:
            if a == b or not (0 <= a < self.routers and 0 <= b < self.routers):
                raise InputError(
                    f"a cable joins {a} and {b}; give two routers of 0 to {self.routers - 1}"
                )
        joined = {frozenset(cable) for cable in self.cables}
        if len(joined) < len(self.cables):
            raise InputError("two cables join the same routers; give one")
        pairs = set()
        for flow in self.flows:
            if len(flow.path) < 2 or any(
                frozenset(step) not in joined for step in itertools.pairwise(flow.path)
            ):
                raise InputError(
                    f"the path {flow.path} does not follow the cables; give routers that are joined"
                )
            if (flow.source, flow.destination) in pairs:
                raise InputError(f"two paths from {flow.source} to {flow.destination}; give one")
            pairs.add((flow.source, flow.destination))

    @cached_property
    def ports(self) -> tuple[tuple[int, ...], ...]:
        """The neighbour at each port of each router, in the order of the cables."""
        found: list[list[int]] = [[] for _ in range(self.routers)]
        for a, b in self.cables:
            found[a].append(b)
            found[b].append(a)
        return tuple(tuple(each) for each in found)

    def routes_of(self, router: int) -> Mapping[tuple[int, int], int]:
        """(source, destination) -> the port that the router sends such packets to; its own port count: to its host."""
        found = {}
        for flow in self.flows:
            for place, here in enumerate(flow.path):
                if here == router:
                    last = place == len(flow.path) - 1
                    port = (
                        len(self.ports[router])
                        if last
                        else self.ports[router].index(flow.path[place + 1])
                    )
                    found[flow.source, flow.destination] = port
        return found

    def messages_of(self, router: int) -> list[tuple[float, DataPacket]]:
        """What the router's host makes, and when (seconds after the start), in order. The payload tells its message
        apart."""
        found = []
        for flow in self.flows:
            if flow.source == router:
                for count, time_s in enumerate(flow.times_s):
                    seed = (flow.source * 65_537 + flow.destination * 257 + count) % 251
                    packet = DataPacket(
                        source=flow.source,
                        destination=flow.destination,
                        number=count,
                        made_ns=round(time_s * 1e9),
                        payload=bytes((seed + k) % 256 for k in range(self.payload_bytes)),
                    )
                    found.append((time_s, packet))
        return sorted(found, key=lambda each: each[0])

    @property
    def messages(self) -> int:
        return sum(len(flow.times_s) for flow in self.flows)


def ring_plan(
    routers: int, hops: int, *, messages: int, load: float = 1.0, seed: int = 1, avoidance: Avoidance = "nac",
    slots: int = 2, packet_s: float = 0.002,
) -> RouterPlan:  # fmt: skip
    """A ring whose every host sends so many messages to the host so many hops to its right (tornado traffic).

    ``load``: messages made a packet time and host, at random (Poisson). From 1 / hops on a link of the ring is asked
    for more than it can carry.
    """
    if not 1 <= hops < routers:
        raise InputError(f"{hops} hops on a ring of {routers}; give 1 to {routers - 1}")
    flows = tuple(
        Flow(
            path=tuple((k + step) % routers for step in range(hops + 1)),
            times_s=_poisson(messages, load / packet_s, [seed, k]),
        )
        for k in range(routers)
    )
    cables = tuple((k, (k + 1) % routers) for k in range(routers))
    return RouterPlan(
        routers=routers, cables=cables, flows=flows, avoidance=avoidance, slots=slots, packet_s=packet_s
    )  # fmt: skip


def _poisson(messages: int, rate_per_s: float, seed: Sequence[int]) -> tuple[float, ...]:
    gaps = np.random.default_rng(list(seed)).exponential(1.0 / rate_per_s, messages)
    return tuple(float(time_s) for time_s in np.cumsum(gaps))


SHAPE = (5, 3)
_PLAIN = ((0, 1), (1, 1), (2, 1), (3, 1), (3, 2)), ((4, 1), (3, 1), (2, 1), (1, 1), (1, 0))
_ROUND_1 = (
    ((0, 1), (1, 1), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2)),
    ((4, 1), (3, 1), (2, 1), (2, 2), (1, 2), (1, 1), (1, 0)),
)
_ROUND_2 = (
    ((0, 1), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1), (3, 2)),
    ((4, 1), (3, 1), (3, 2), (2, 2), (1, 2), (1, 1), (1, 0)),
)
PATHS: dict[tuple[int, ...], Sequence[Sequence[tuple[int, int]]]] = {
    (): _PLAIN,
    (1,): _ROUND_1,
    (2,): _ROUND_2,
    (1, 2): (_ROUND_1[0], _ROUND_2[1]),
}
"""Dead links -> the paths of both pairs: dimension order, x first, and a detour at the first dead link that is met."""
DEAD = (((1, 1), (2, 1)), ((2, 1), (3, 1)))


def two_failures_plan(
    *, messages: int, dead: Sequence[int] = (1, 2), avoidance: Avoidance = "nac", load: float = 1.0, seed: int = 1,
    slots: int = 2,
) -> RouterPlan:  # fmt: skip
    """Both pairs, with the first, the second, both (default) or neither of the links dead.

    Each pair has a second source, the router before its dead link: with one source alone the routers' fair arbitration
    keeps the cycle's channels just below full. ``messages``: of each of the four sources.
    """
    mesh = networkx.grid_2d_graph(*SHAPE)
    mesh.remove_edges_from(DEAD[number - 1] for number in dead)
    number = {(x, y): y * SHAPE[0] + x for x, y in mesh}
    first, second = PATHS[tuple(dead)]
    flows = tuple(
        Flow(
            path=tuple(number[each] for each in path),
            times_s=_poisson(messages, load / RouterPlan.packet_s, [seed, k]),
        )
        for k, path in enumerate([first, second, first[1:], second[1:]])
    )
    cables = tuple(sorted((number[a], number[b]) for a, b in mesh.edges))
    return RouterPlan(
        routers=len(number), cables=cables, flows=flows, avoidance=avoidance, slots=slots
    )


def dependency_cycles(paths: Iterable[Sequence[int]]) -> list[list[tuple[int, int]]]:
    """Cycles of channels (from router, to router) in which packets on these paths may wait for each other.

    A packet in a channel waits for the next channel of its path; without a cycle no deadlock can come (Dally and Seitz
    1987).

    >>> dependency_cycles([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    [[(0, 1), (1, 2), (2, 0)]]
    """
    waits = networkx.DiGraph()
    for path in paths:
        waits.add_edges_from(itertools.pairwise(itertools.pairwise(path)))
    found = [list(cycle) for cycle in networkx.simple_cycles(waits)]
    return sorted(
        cycle[cycle.index(min(cycle)) :] + cycle[: cycle.index(min(cycle))] for cycle in found
    )
