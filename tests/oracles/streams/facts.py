"""What a judge of streams is told: the plan in plain numbers, and the logs of both ends. No module of the product is
imported here: a packet is a tuple, a log is a list."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any, NamedTuple

LABELS = 65536
GUARD_S, REACTION_S, START_UP_S, QUEUED_S, MARGIN_S = 0.02, 0.45, 0.4, 0.25, 0.2
"""As docs/explanation/stream_verdict.md states them: around a fault, for an answer, at the start, in a switch, after recovery."""


class Sent(NamedTuple):
    at_s: float
    block: int
    symbol: int
    label: int
    size: int


class Cut(NamedTuple):
    """A fault as it was carried out: links (indices) that it touches, of whose packets it takes a share."""

    links: frozenset[int]
    kind: str
    share: float
    start_s: float
    stop_s: float
    planned_s: tuple[float, float]
    name: str
    cable: str


@dataclass(kw_only=True)
class Facts:
    """``paths``: (first label, label after the last, links, propagation delay in s); ``delays``, ``ends``: of each link
    (index); ``back_s``: propagation of the ways by which reports come back, ``back``: links of those that they take.
    ``largest``: N that the sender never exceeds. ``answer``: (share lost) -> N of a sender that only estimates.
    ``apart_s``: how far clocks of faults and sender are apart. ``beliefs``: what the sender told of failures, in time.
    ``told_s``: when loss reports came; ``news_ages_s``: how old the newest packet was that each told of; ``doubts``:
    block and symbol of each packet that the sender took for lost, since when, and until a report told otherwise
    (infinite: none did).
    """

    m: int
    rate_pps: float
    playback_s: float
    report_s: float
    hold_s: float
    fixed: int | None
    tolerance: float
    der: float
    stratified: bool
    diagnosing: bool
    multiplier: int
    duration_s: float
    paths: list[tuple[int, int, tuple[int, ...], float]]
    delays: dict[int, float]
    ends: dict[int, tuple[str, str]]
    back_s: list[float]
    back: list[frozenset[int]]
    cuts: list[Cut]
    sent: list[Sent]
    received: list[tuple[float, int, int]]
    base: int
    largest: int
    answer: Any
    apart_s: float = 0.0
    through_s: float = 0.0
    emulated: bool = False
    symbol_bytes: int = 4
    corrupted: int = 0
    told_s: list[float] = field(default_factory=list)
    news_ages_s: list[float] = field(default_factory=list)
    doubts: list[tuple[int, int, float, float]] = field(default_factory=list)
    impaired: bool = False
    beliefs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.block_s = self.m / self.rate_pps
        self.arrivals: dict[tuple[int, int], list[float]] = {}
        for at_s, block, symbol in sorted(self.received):
            self.arrivals.setdefault((block, symbol), []).append(at_s)
        self.blocks: dict[int, list[Sent]] = {}
        for packet in self.sent:
            self.blocks.setdefault(packet.block, []).append(packet)
        self.begun = {b: min(p.at_s for p in own) for b, own in self.blocks.items()}
        self.first_size = {b: own[0].size for b, own in self.blocks.items()}
        self.spurious = self._misinformed() if self.emulated and not self.impaired else set()

    def _misinformed(self) -> set[int]:
        """Blocks begun while the sender took a packet for lost that came, and one report longer (where none told it,
        for the playback buffer's time), and those that got late parity until the playback buffer's time after that."""
        found = set()
        for block, symbol, since_s, until_s in self.doubts:
            if (block, symbol) not in self.arrivals:
                continue
            told_s = until_s if until_s < math.inf else since_s + self.playback_s
            next_s = min((t for t in self.told_s if t > told_s), default=told_s + self.report_s)
            found |= {b for b, at_s in self.begun.items() if since_s <= at_s <= next_s}
            found |= {
                p.block for p in self.sent
                if p.symbol >= self.first_size[p.block] and since_s <= p.at_s <= next_s + self.playback_s
            }  # fmt: skip
        return found

    def lost(self, packet: Sent) -> bool:
        return (packet.block, packet.symbol) not in self.arrivals

    def transit_s(self, packet: Sent) -> float:
        return self.arrivals[packet.block, packet.symbol][0] - packet.at_s

    def path(self, packet: Sent) -> int:
        return next(k for k, p in enumerate(self.paths) if p[0] <= packet.label < p[1])

    def decoded_s(self, block: int) -> float:
        """When the M-th distinct symbol came; infinite where that was later than the playback buffer lasts."""
        came = sorted(
            self.arrivals[block, p.symbol][0] for p in self.blocks[block] if not self.lost(p)
        )
        return (
            came[self.m - 1]
            if len(came) >= self.m and came[self.m - 1] <= self.begun[block] + self.playback_s
            else math.inf
        )

    def undecodable(self, block: int) -> bool:
        return math.isinf(self.decoded_s(block))

    def late_sources(self, block: int) -> int:
        """Source packets of which neither they nor their block's decoding came within the playback buffer's time."""
        decoded, late = self.decoded_s(block), 0
        for p in self.blocks[block]:
            came = self.arrivals.get((p.block, p.symbol), [math.inf])[0]
            late += p.symbol < self.m and min(came, decoded) > p.at_s + self.playback_s
        return late

    def reach_s(self, links: frozenset[int]) -> float:
        """How long a packet is under way, at most, until it has passed one of the links."""
        passed = [0.0]
        for _, _, over, _ in self.paths:
            passed += [
                sum(self.delays[j] for j in over[: k + 1]) for k, i in enumerate(over) if i in links
            ]
        return max(passed)

    @property
    def spread_s(self) -> float:
        return max(p[3] for p in self.paths) - min(p[3] for p in self.paths)

    @property
    def tail_s(self) -> float:
        """How long before the newest packet that arrives another one was sent, if the sender is to judge it."""
        return 0.005 + self.spread_s + 0.2 * max(p[3] for p in self.paths)

    @property
    def round_s(self) -> float:
        return max(p[3] for p in self.paths) + max(self.back_s)

    @property
    def allowed_s(self) -> float:
        """For an answer: what a report takes, the way there and back, and by how much packets that meet at one node or
        cable may have left apart, each way a tenth longer or shorter."""
        source, sink = self.ends[self.paths[0][2][0]][0], self.ends[self.paths[0][2][-1]][1]
        apart_s = 0.0
        for thing in {
            *map(frozenset, self.ends.values()),
            *(n for pair in self.ends.values() for n in pair),
        }:
            first = []
            for _, _, over, _ in self.paths:
                touched = [
                    k
                    for k, i in enumerate(over)
                    if thing in (frozenset(self.ends[i]), *self.ends[i])
                ]
                first += [sum(self.delays[j] for j in over[:k]) for k in touched[:1]]
            if first and thing not in (source, sink):
                apart_s = max(apart_s, 1.1 * max(first) - 0.9 * min(first))
        return REACTION_S + self.round_s + apart_s

    def carried(self, links: frozenset[int]) -> list[tuple[int, int]]:
        """Label intervals of paths over any of the links, adjacent ones joined."""
        joined: list[tuple[int, int]] = []
        for start, stop, over, _ in self.paths:
            if links & set(over):
                start = joined.pop()[0] if joined and joined[-1][1] == start else start
                joined.append((start, stop))
        return joined

    def share(self, links: frozenset[int]) -> float:
        return sum(stop - start for start, stop in self.carried(links)) / LABELS

    @property
    def deterministic(self) -> bool:
        return self.stratified and all(cut.share == 1 for cut in self.cuts)

    def sent_per_source(self, blocks: list[int]) -> tuple[float | None, float]:
        """Mean and standard error of first transmissions over source packets."""
        ratios = [min(len(self.blocks[b]), self.first_size[b]) / self.m for b in blocks]
        return (fmean(ratios), pstdev(ratios) / math.sqrt(len(ratios))) if ratios else (None, 0.0)


class State(NamedTuple):
    """From one change of what is broken to the next; ``share``: link -> what it loses of its packets."""

    start_s: float
    stop_s: float
    share: dict[int, float]

    def loss(self, links: tuple[int, ...]) -> float:
        return 1 - math.prod(1 - self.share.get(i, 0.0) for i in links)


def states(facts: Facts, planned: bool) -> list[State]:
    """All of a run, in order; where faults overlap on a link, each loses its share of what the other leaves."""
    spans = [
        (cut, *(cut.planned_s if planned else (cut.start_s, cut.stop_s))) for cut in facts.cuts
    ]
    edges = sorted(
        {
            0.0,
            facts.duration_s,
            *(min(max(0.0, at), facts.duration_s) for span in spans for at in span[1:]),
        }
    )
    found = []
    for start, stop in pairwise(edges):
        left: dict[int, float] = {}
        for cut, since, until in spans:
            if since <= start and until >= stop:
                left |= {link: left.get(link, 1.0) * (1 - cut.share) for link in cut.links}
        found.append(State(start, stop, {link: 1 - share for link, share in left.items()}))
    return found


def loss_of(facts: Facts, state: State) -> float:
    return sum((path[1] - path[0]) * state.loss(path[2]) for path in facts.paths) / LABELS


@cache
def worst_window(lost: tuple[tuple[int, int], ...], m: int, multiplier: int) -> int:
    """The longest run of the label order that ends with its M-th packet which is not lost: from after one such packet
    to the M-th after it, over the whole cycle."""
    gone = bytearray(LABELS)
    for start, stop in lost:
        gone[start:stop] = b"x" * (stop - start)
    kept = [i for i in range(LABELS) if not gone[i * multiplier % LABELS]]
    return max((kept[(k + m) % len(kept)] - kept[k]) % LABELS or LABELS for k in range(len(kept)))


@cache
def binomial_size(m: int, loss: float, der: float) -> int:
    """Gabrielyan 2007, eq. 24 and 25: the smallest N of which fewer than M come with a probability of at most DER."""
    n = m
    while sum(math.comb(n, k) * (1 - loss) ** k * loss ** (n - k) for k in range(m)) > der:
        n += 1
    return n
