"""Every packet against all states of the network that it may have met, and what follows for paths and blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tests.oracles.streams.facts import (
    LABELS,
    START_UP_S,
    Cut,
    Facts,
    State,
    binomial_size,
    loss_of,
    states,
    worst_window,
)

_EARLY_S, _BIN_S, _BINS = 0.01, 0.25, 4


def longest_transit_s(facts: Facts) -> Callable[[float], float]:
    """Return a function from a time to the longest transit of the packets sent within a second of it."""
    longest: dict[int, float] = {}
    for p in facts.sent:
        # A second copy says nothing of how long the first one took.
        for arrived_s in facts.arrivals.get((p.block, p.symbol), ())[:1]:
            number = int(p.at_s / _BIN_S)
            longest[number] = max(longest.get(number, 0.0), arrived_s - p.at_s)

    def at(at_s: float) -> float:
        number = int(at_s / _BIN_S)
        return max(longest.get(k, 0.0) for k in range(number - _BINS, number + _BINS + 1))

    return at


def bounds(facts: Facts) -> list[tuple[float, float]]:
    """(least, greatest) probability of loss of each packet sent; computed once."""
    if "bounds" not in vars(facts):
        vars(facts)["bounds"] = _bounds(facts)
    return vars(facts)["bounds"]


def epochs_of(facts: Facts) -> Epochs:
    """All states of the run; computed once."""
    if "epochs" not in vars(facts):
        vars(facts)["epochs"] = Epochs(facts)
    return vars(facts)["epochs"]


def _bounds(facts: Facts) -> list[tuple[float, float]]:
    transit_s = longest_transit_s(facts)
    noted, due = states(facts, False), states(facts, True)
    found = []
    for p in facts.sent:
        links = facts.paths[facts.path(p)][2]
        pairs = [
            _bounds_in(facts, course, p.at_s, transit_s(p.at_s), links) for course in (noted, due)
        ]
        found.append((min(low for low, _ in pairs), max(high for _, high in pairs)))
    return found


def _bounds_in(
    facts: Facts, course: list[State], at_s: float, transit_s: float, links: tuple[int, ...]
) -> tuple[float, float]:
    """Of a packet over these links: what each link takes at least, and at most, while the packet may be on its way."""
    met = [
        state
        for state in course
        if state.start_s - facts.apart_s <= at_s + transit_s
        and at_s < state.stop_s + _EARLY_S + facts.apart_s
    ]
    met = met or course[-1:]
    least_left = most_left = 1.0
    for link in links:
        shares = [state.share.get(link, 0.0) for state in met]
        most_left *= 1 - min(shares)
        least_left *= 1 - max(shares)
    return 1 - most_left, 1 - least_left


def fate_figures(facts: Facts) -> dict[str, Any]:
    """Packets of certain fate, and those that fared otherwise."""
    sure = [
        (low, facts.lost(p))
        for p, (low, high) in zip(facts.sent, bounds(facts), strict=True)
        if low == high
    ]
    chance = [(low, lost) for low, lost in sure if 0 < low < 1]
    spread = 4 * math.sqrt(sum(low * (1 - low) for low, _ in chance))
    random = (sum(low for low, _ in chance), float(sum(lost for _, lost in chance)), spread)
    return {
        "random_losses": random,
        "certain": len(sure),
        "wrongly_lost": sum(low == 0 and lost for low, lost in sure),
        "wrongly_arrived": sum(low == 1 and not lost for low, lost in sure),
    }


def wrong_paths(facts: Facts) -> tuple[int, int]:
    """Paths whose loss is further off than four standard deviations, a packet and one in a thousand; and of how
    many."""
    own: list[list[tuple[float, bool]]] = [[] for _ in facts.paths]
    for p, (low, high) in zip(facts.sent, bounds(facts), strict=True):
        if low == high:
            own[facts.path(p)].append((low, facts.lost(p)))
    off = 0
    for sure in own:
        allowed = 4 * math.sqrt(sum(c * (1 - c) for c, _ in sure)) + 1 + len(sure) / 1000
        off += bool(sure) and abs(sum(c - lost for c, lost in sure)) > allowed + 1e-9
    return off, sum(map(bool, own))


class Requirement(NamedTuple):
    """N of a state (infinite: none helps), the range of a sender that estimates, whether it can know what is lost."""

    size: float
    low: int
    high: int
    exact: bool


def requirement(facts: Facts, state: State, *, reports_arrive: bool = False) -> Requirement:
    """As docs/explanation/stream_verdict.md says which N is right."""
    loss, share = loss_of(facts, state), state.share.values()
    exact = facts.diagnosing and not any(0 < one < 1 for one in share)
    size = float(facts.base)
    hit = tuple(facts.carried(frozenset(link for link, one in state.share.items() if one > 0)))
    every = sum(b - a for a, b in hit) == LABELS
    if loss > 0 and (exact or facts.deterministic):
        size = math.inf if every else max(facts.base, exact_size(facts, hit))
    elif loss > 0:
        size = (
            math.inf if loss >= 1 else binomial_size(facts.m, round(min(loss, 0.9), 4), facts.der)
        )
        size = max(facts.base, size)
        if size > facts.largest and facts.stratified:
            fits = not every and exact_size(facts, hit) <= facts.largest
            size = facts.largest if fits else math.inf
    cut_off = all(any(state.share.get(i, 0) >= 1 for i in way) for way in facts.back)
    cut_off = cut_off and not reports_arrive
    if size > facts.largest or (cut_off and size > facts.base):
        size = math.inf
    if facts.fixed is not None:
        return Requirement(size, facts.fixed, facts.fixed, exact)
    if size < math.inf and (exact or not loss):
        return Requirement(size, int(size), int(size), exact)
    packets = max(1.0, (state.stop_s - state.start_s) * facts.rate_pps)
    deviations = 2 * math.sqrt(loss * (1 - loss) / packets) + 1 / packets
    spread = 0.02 + 2 / packets if facts.deterministic else 0.015 + max(0.1 * loss, deviations)
    low, high = facts.answer(max(0.0, loss - spread)), facts.answer(min(0.99, loss + spread))
    return Requirement(size, low, high, exact)


def exact_size(facts: Facts, lost: tuple[tuple[int, int], ...]) -> int:
    if facts.stratified:
        return worst_window(lost, facts.m, facts.multiplier) if lost else facts.m
    return binomial_size(facts.m, sum(b - a for a, b in lost) / LABELS, facts.der)


class Epochs:
    """All states of a run, and what the sender did in each."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._settled: list[int] | None = None
        self.known = states(facts, False)
        self.losses = [loss_of(facts, state) for state in self.known]
        self.required = [requirement(facts, state) for state in self.known]
        self.sizes = [one.size for one in self.required]
        self.estimated = [
            not facts.deterministic and not one.exact and loss > 0
            for one, loss in zip(self.required, self.losses, strict=True)
        ]
        self.due = [self._due_s(k) for k in range(len(self.known))]
        self.answered = [self._answered_s(k) for k in range(len(self.known))]
        self.compared = [
            self.answered[k] if one.exact or facts.fixed is not None else self.due[k]
            for k, one in enumerate(self.required)
        ]

    def of(self, at_s: float) -> int:
        return max([k for k, s in enumerate(self.known) if s.start_s <= at_s], default=0)

    def _due_s(self, k: int) -> float:
        facts, state, loss = self.facts, self.known[k], self.losses[k]
        losses_s = 3 / (facts.rate_pps * loss) if loss else 0.0
        rise_s = max(2 * facts.report_s + 5 * facts.block_s + losses_s, facts.allowed_s)
        if self.estimated[k]:
            rise_s = max(rise_s, 250 / facts.rate_pps + facts.round_s)
        before = self.losses[max(0, k - 1)]
        if not self.required[k].exact and 0 < before < 1 and 0 < loss < 1 and before != loss:
            apart = loss * math.log(loss / before)
            apart += (1 - loss) * math.log((1 - loss) / (1 - before))
            rise_s = max(rise_s, 12 / apart / facts.rate_pps)
        due_s = state.start_s + rise_s
        recovery_s = 2 * facts.report_s
        recovery_s += facts.hold_s + 4 * facts.block_s if facts.fixed is None else 0.0
        for j in range(k):
            peak = facts.largest if self.estimated[j] else self.required[j].high
            if math.isinf(self.sizes[j]) or peak > self.required[k].high:
                due_s = max(due_s, self.known[j].stop_s + recovery_s + facts.round_s)
        if k == 0:
            start_up_s = START_UP_S + facts.round_s
            due_s = max(due_s, start_up_s) if loss else start_up_s
        return min(due_s, state.stop_s)

    def informed_s(self, k: int) -> float:
        """When the sender's last doubt or wrong belief before the answer was due was over."""
        return self._certain_s(k, by_share=True)

    def _certain_s(self, k: int, *, by_share: bool = False) -> float:
        sure = self.known[k].start_s
        beliefs = self.facts.beliefs
        if not beliefs or not self.required[k].exact:
            return sure
        none = {"at_s": -math.inf, "block_size": 0, "speaker": "estimate", "certain": False}
        everything = [none, *beliefs, {"at_s": math.inf}]
        for belief, after in pairwise(everything):
            right = belief["block_size"] == self.sizes[k] and belief["speaker"] == "diagnosis"
            if by_share:
                same = abs(belief.get("lost_fraction", 2) - self.losses[k]) < 1 / LABELS
                right = belief["certain"] and same
            if not right and belief["at_s"] < self.due[k] and after["at_s"] > self.known[k].start_s:
                sure = max(sure, min(self.due[k], after["at_s"]))
        return sure

    def _answered_s(self, k: int) -> float:
        facts, sure = self.facts, self._certain_s(k)
        if math.isinf(self.sizes[max(0, k - 1)]):
            return self.due[k]
        low, high = self.required[k].low, self.required[k].high
        right = [
            s
            for b, s in facts.begun.items()
            if self.of(s) == k and s >= sure and low <= facts.first_size[b] <= high
        ]
        return min([self.due[k], *right])

    def unpredicted(self, block: int) -> bool:
        """Whether the diagnosis decided N of the block although packets were lost at random."""
        begun_s = self.facts.begun[block]
        if not (self.facts.diagnosing and self.facts.beliefs and self.estimated[self.of(begun_s)]):
            return False
        before = [belief for belief in self.facts.beliefs if belief["at_s"] <= begun_s]
        return not before or before[-1]["speaker"] != "estimate"

    def settled(self) -> list[int]:
        """Blocks that began after the answer and were over, with transit, before their state was."""
        if self._settled is None:
            self._settled = self._find_settled()
        return self._settled

    def _find_settled(self) -> list[int]:
        facts, transit_s, found = self.facts, longest_transit_s(self.facts), []
        for block, begun_s in facts.begun.items():
            k = self.of(begun_s)
            over = begun_s + 2 * facts.block_s + transit_s(begun_s) < self.known[k].stop_s
            early = begun_s < START_UP_S + facts.round_s and not self.losses[k]
            if begun_s >= self.compared[k] and over and not early and self.sizes[k] < math.inf:
                found.append(block)
        return found

    def counted(self) -> list[int]:
        facts = self.facts
        return [b for b in self.settled() if b not in facts.spurious and not self.unpredicted(b)]

    def informed(self) -> list[int]:
        """Counted blocks that began when the sender knew what was lost."""
        found = []
        for block in self.counted():
            k = self.of(self.facts.begun[block])
            if self.required[k].exact and self.facts.begun[block] >= self.informed_s(k):
                found.append(block)
        return found


def redundancy(facts: Facts) -> dict[str, float]:
    """N / FEC_t - 1 over the counted blocks: what their states ask for, and what was sent of them at first."""
    epochs = epochs_of(facts)
    counted, settled = epochs.counted(), set(epochs.settled())
    state = {b: epochs.of(s) for b, s in facts.begun.items()}
    first = {b: min(len(facts.blocks[b]), facts.first_size[b]) for b in facts.blocks}
    exact = epochs.informed()
    slack = 0.0
    for b in counted:
        one = epochs.required[state[b]]
        slack += max(one.high - one.size, one.size - one.low, 0)
    count = len(counted)
    return {
        "redundancy_predicted": sum(epochs.sizes[state[b]] for b in counted) / count / facts.base
        - 1
        if count
        else 0.0,
        "redundancy_measured": sum(first[b] for b in counted) / count / facts.base - 1
        if count
        else 0.0,
        "redundancy_tolerance": slack / count / facts.base if count else 0.0,
        "redundancy_over_s": round(count * facts.block_s, 4),
        "settled_packets": sum(len(facts.blocks[b]) for b in exact),
        "settled_late_parity": sum(len(facts.blocks[b]) - first[b] for b in exact),
        "transient_packets": sum(
            len(facts.blocks[b]) - epochs.sizes[k]
            for b, k in state.items()
            if b not in settled and epochs.sizes[k] < math.inf
        ),
    }


def beyond_rest(facts: Facts) -> dict[str, float]:
    """Packets beyond N at rest, and what they were sent for (Gabrielyan 2007, eq. 21 and 22), where cuts take all that
    crosses them and labels are in order."""
    epochs = epochs_of(facts)
    known, sizes = epochs.known, epochs.sizes
    asked = [0.0 if math.isinf(size) else size - facts.base for size in sizes]
    down = [
        sum(cut.start_s <= s.start_s and cut.stop_s >= s.stop_s for cut in facts.cuts)
        for s in known
    ]
    lasts = [s.stop_s - s.start_s for s in known]
    settled = set(epochs.settled())
    begun = {
        b: max(k for k, s in enumerate(known) if s.start_s <= at_s)
        for b, at_s in facts.begun.items()
    }
    excess = {b: len(own) - facts.base for b, own in facts.blocks.items()}
    reached = [b for b, k in begun.items() if not math.isinf(sizes[k])]
    moving = [b for b in reached if b not in settled]
    alone = {}
    for cut in facts.cuts:
        alone_s = State(cut.start_s, cut.stop_s, dict.fromkeys(cut.links, 1.0))
        size = requirement(facts, alone_s).size
        alone[cut] = 0.0 if math.isinf(size) else size - facts.base
    return {
        "total": sum(excess[b] for b in reached),
        "formula": sum((cut.stop_s - cut.start_s) * extra for cut, extra in alone.items())
        / facts.block_s,
        "states": sum(map(math.prod, zip(lasts, asked, strict=True))) / facts.block_s,
        "settled": sum(excess[b] for b in settled),
        "settled_predicted": sum(asked[begun[b]] for b in settled),
        "before": sum(excess[b] - asked[begun[b]] for b in moving if down[begun[b]]),
        "after": sum(excess[b] for b in moving if not down[begun[b]]),
        "block_packets": facts.base,
        "blocks": len(facts.blocks),
        "failures": len(facts.cuts),
        "failing_s": sum(s for s, n in zip(lasts, down, strict=True) if n > 0),
        "overlapping_s": sum(s for s, n in zip(lasts, down, strict=True) if n > 1),
        "beyond_s": sum(s for s, n in zip(lasts, sizes, strict=True) if math.isinf(n)),
        "undecodable_settled": sum(map(facts.undecodable, settled)),
        "undecodable": sum(map(facts.undecodable, facts.blocks)),
    }


def spans_beyond_reach(facts: Facts) -> list[tuple[float, float]]:
    """Return (start, stop) of each time in which no N up to the largest helped, or no report got back to ask for one.

    A packet that is sent near the end of a state may meet a later state too, within the longest path's delay.
    """
    alone = [
        (state.start_s, state.stop_s)
        for state in states(facts, False)
        if math.isinf(requirement(facts, state).size)
    ]
    return sorted(alone + spans_between_states(facts))


def spans_between_states(facts: Facts) -> list[tuple[float, float]]:
    """Return (start, stop) of each time in which packets met two or more states that no N answers together."""
    course = states(facts, False)
    spans = []
    longest_s = max(path[3] for path in facts.paths)
    for k, state in enumerate(course):
        share = dict(state.share)
        for later in course[k + 1 :]:
            for link, loss in later.share.items():
                share[link] = max(loss, share.get(link, 0.0))
            both = State(max(state.start_s, later.start_s - longest_s), state.stop_s, share)
            size = requirement(facts, both, reports_arrive=True).size
            if both.start_s < both.stop_s and math.isinf(size):
                spans.append((both.start_s, both.stop_s))
    return spans


def beyond_reach(facts: Facts) -> tuple[int, int, int, int, int]:
    """Blocks that were open while no N up to the largest helped, or no report got back to ask for one; how many of them
    must lack M packets, and may; and how many blocks beside them were not decoded."""
    groups: list[list[float]] = []
    for start_s, stop_s in spans_beyond_reach(facts):
        if groups and start_s - groups[-1][1] <= facts.playback_s:
            groups[-1][1] = max(groups[-1][1], stop_s)
        else:
            groups.append([start_s, stop_s])
    spans = [(start, stop) for start, stop in groups]
    open_then = [
        b
        for b, s in facts.begun.items()
        if any(s < stop and s + facts.playback_s > start for start, stop in spans)
    ]
    transit_s = longest_transit_s(facts)
    shortest_s = min(path[3] for path in facts.paths)
    perhaps = dict.fromkeys(facts.begun, 0)
    surely = dict.fromkeys(facts.begun, 0)
    for p, (low, high) in zip(facts.sent, bounds(facts), strict=True):
        deadline_s = facts.begun[p.block] + facts.playback_s
        if low < 1 and p.at_s + shortest_s <= deadline_s:
            perhaps[p.block] += 1
        if high == 0 and p.at_s + transit_s(p.at_s) <= deadline_s:
            surely[p.block] += 1
    must = sum(perhaps[b] < facts.m for b in open_then)
    may = sum(surely[b] < facts.m for b in open_then)
    fates = zip(facts.sent, bounds(facts), strict=True)
    newest_s = max((p.at_s for p, (low, _) in fates if low < 1), default=math.inf)
    heard_s = newest_s - facts.tail_s
    unheard = {b for b, sent in facts.blocks.items() if max(p.at_s for p in sent) >= heard_s}
    excused = unheard.union(open_then)
    beside = sum(facts.undecodable(b) for b in facts.blocks if b not in excused)
    measured = sum(map(facts.undecodable, open_then))
    return len(open_then), must, may, measured, beside


def mislabelled(facts: Facts, seed: int) -> int:
    """Packets under another label than the order gives them: block after block takes N labels."""
    wrong, base = 0, 0
    for block in sorted(facts.blocks):
        for p in facts.blocks[block]:
            index = base + p.symbol
            right = (
                index * facts.multiplier % LABELS
                if facts.stratified
                else _random_label(seed, index)
            )
            wrong += right != p.label
        base += facts.first_size[block]
    return wrong


def _random_label(seed: int, index: int) -> int:
    """The top 16 bits of SplitMix64 (Steele, Lea and Flood 2014) over a counter that begins at the mixed seed."""

    def mixed(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        return x ^ (x >> 31)

    return mixed((mixed(seed) + index * 0x9E3779B97F4A7C15) % 2**64) >> 48


def most_by_chance(mean: float) -> int:
    """Failures that are exceeded with a probability of one in a thousand at most (Poisson)."""
    most = 0
    while 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(most + 1)) > 1e-3:
        most += 1
    return most


def window_error(facts: Facts, cut: Cut, packets: int) -> float:
    """How far the share lost of so many packets in a row may be off: over every place in the order of labels."""
    label = np.arange(LABELS + packets) * facts.multiplier % LABELS
    inside = np.zeros(len(label), dtype=np.int64)
    for start, stop in facts.carried(cut.links):
        inside += (label >= start) & (label < stop)
    running = np.concatenate([[0], np.cumsum(inside)])
    in_window = running[packets:][:LABELS] - running[:LABELS]
    return float(np.abs(in_window - facts.share(cut.links) * packets).max()) / packets


def tail(lost: int, sent: int, chance: float) -> float:
    """Probability that at most ``lost`` of ``sent`` are lost."""
    if chance in (0.0, 1.0):
        return float(chance == 0 or lost == sent)
    logs = (
        math.lgamma(sent + 1) - math.lgamma(k + 1) - math.lgamma(sent - k + 1)
        + k * math.log(chance) + (sent - k) * math.log1p(-chance)
        for k in range(lost + 1)
    )  # fmt: skip
    return math.fsum(map(math.exp, logs))


def safe_blocks(facts: Facts) -> list[int]:
    """Blocks of which no packet may have been lost."""
    endangered = {
        p.block for p, (_, high) in zip(facts.sent, bounds(facts), strict=True) if high > 0
    }
    return [b for b in facts.blocks if b not in endangered]
