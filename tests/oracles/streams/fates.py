"""Every packet against all states of the network that it may have met, and what follows for paths and blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles.streams.facts import (
    LABELS,
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
    """(least, greatest) probability of loss of each packet sent."""
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


def fate_figures(facts: Facts) -> dict[str, int]:
    """Packets of certain fate, and those that fared otherwise."""
    sure = [
        (low, facts.lost(p))
        for p, (low, high) in zip(facts.sent, bounds(facts), strict=True)
        if low == high
    ]
    return {
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


def size_of(facts: Facts, state: State) -> float:
    """N that the state calls for: infinite where no N helps, or no report gets back to ask for one."""
    hit = tuple(facts.carried(frozenset(link for link, share in state.share.items() if share > 0)))
    whole = sum(b - a for a, b in hit) == LABELS
    loss = loss_of(facts, state)
    if whole or not hit:
        needed = math.inf if whole else facts.m
    elif facts.stratified:
        needed = worst_window(hit, facts.m, facts.multiplier)
    else:
        needed = binomial_size(facts.m, round(min(loss, 0.9), 4), facts.der)
    cut_off = all(any(state.share.get(i, 0) >= 1 for i in way) for way in facts.back)
    if needed > facts.largest or (cut_off and needed > facts.base):
        return math.inf
    if not loss:
        return facts.base
    return min(
        facts.largest, max(facts.base, needed if facts.deterministic else facts.answer(loss))
    )


def answers_due_s(facts: Facts, known: list[State], sizes: list[float]) -> list[float]:
    """When an answer to each state is due, as docs/workloads/stream.md says."""
    recovery_s = (
        facts.hold_s + 2 * facts.report_s + 4 * facts.block_s
        if facts.fixed is None
        else 2 * facts.report_s
    )
    due = []
    for number, state in enumerate(known):
        loss = loss_of(facts, state)
        losses_s = 3 / (facts.rate_pps * loss) if loss else 0.0
        answer_s = max(2 * facts.report_s + 5 * facts.block_s + losses_s, facts.allowed_s)
        due_s = state.start_s + answer_s
        asked_more = [k for k in range(number) if sizes[k] > sizes[number] or math.isinf(sizes[k])]
        if asked_more:
            recovered_s = known[asked_more[-1]].stop_s + recovery_s + facts.round_s
            due_s = max(due_s, recovered_s)
        due.append(min(due_s, state.stop_s))
    return due


def certain_s(facts: Facts, state: State, due_s: float) -> float:
    """When the sender's last doubt or wrong belief before the answer was due was over."""
    sure = state.start_s
    for belief, after in zip(facts.beliefs, [*facts.beliefs[1:], {"at_s": math.inf}], strict=False):
        share_known = abs(belief["lost_fraction"] - loss_of(facts, state)) < 1 / LABELS
        right = belief["certain"] and share_known
        if not right and belief["at_s"] < due_s and after["at_s"] > state.start_s:
            sure = max(sure, min(due_s, after["at_s"]))
    return sure


def settled_blocks(facts: Facts) -> tuple[list[tuple[int, float]], float]:
    """(block, N of its state) of blocks that began after the answer to their state and were over, parity and transit
    included, before it was; and what all others within reach had beyond their states' N."""
    known = states(facts, False)
    sizes = [size_of(facts, state) for state in known]
    transit_s = longest_transit_s(facts)
    settled, other = [], 0.0
    for number, due_s in enumerate(answers_due_s(facts, known, sizes)):
        state, size, last = known[number], sizes[number], number == len(known) - 1
        before, sure = sizes[max(0, number - 1)], certain_s(facts, state, due_s)
        own = [
            b for b, s in facts.begun.items() if state.start_s <= s and (s < state.stop_s or last)
        ]
        right = [
            facts.begun[b] for b in own if facts.first_size[b] == size and facts.begun[b] >= sure
        ]
        answer = min([due_s, *(right if not math.isinf(before) else [])])
        for block in own if not math.isinf(size) else ():
            begun_s = facts.begun[block]
            there_s = begun_s + 2 * facts.block_s + transit_s(begun_s)
            if begun_s >= answer and there_s < state.stop_s:
                settled.append((block, size))
            else:
                other += len(facts.blocks[block]) - size
    return settled, other


def redundancy(facts: Facts) -> dict[str, float]:
    """N / FEC_t - 1 over settled blocks: what their states ask for, and what was sent of them at first."""
    settled, other = settled_blocks(facts)
    first = [min(len(facts.blocks[b]), facts.first_size[b]) for b, _ in settled]
    packets = sum(len(facts.blocks[b]) for b, _ in settled)
    return {
        "redundancy_predicted": sum(n for _, n in settled) / len(settled) / facts.base - 1
        if settled
        else 0.0,
        "redundancy_measured": sum(first) / len(settled) / facts.base - 1 if settled else 0.0,
        "settled_packets": packets,
        "settled_late_parity": packets - sum(first),
        "transient_packets": other,
    }


def beyond_rest(facts: Facts) -> dict[str, float]:
    """Packets beyond N at rest, and what they were sent for (Gabrielyan 2007, eq. 21 and 22), where cuts take all that
    crosses them and labels are in order."""
    known = states(facts, False)
    sizes = [size_of(facts, state) for state in known]
    asked = [0.0 if math.isinf(size) else size - facts.base for size in sizes]
    down = [
        sum(cut.start_s <= s.start_s and cut.stop_s >= s.stop_s for cut in facts.cuts)
        for s in known
    ]
    lasts = [s.stop_s - s.start_s for s in known]
    settled = {block for block, _ in settled_blocks(facts)[0]}
    begun = {
        b: max(k for k, s in enumerate(known) if s.start_s <= at_s)
        for b, at_s in facts.begun.items()
    }
    excess = {b: len(own) - facts.base for b, own in facts.blocks.items()}
    reached = [b for b, k in begun.items() if not math.isinf(sizes[k])]
    moving = [b for b in reached if b not in settled]
    alone = {}
    for cut in facts.cuts:
        size = size_of(facts, State(cut.start_s, cut.stop_s, dict.fromkeys(cut.links, 1.0)))
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


def beyond_reach(facts: Facts) -> tuple[int, int, int, int]:
    """Blocks that were open while no N up to the largest helped, or no report got back to ask for one; how many of them
    must lack M packets, and may; and how many blocks beside them were not decoded."""
    groups: list[list[float]] = []
    for state in states(facts, False):
        if math.isinf(size_of(facts, state)):
            if groups and state.start_s - groups[-1][1] <= facts.playback_s:
                groups[-1][1] = state.stop_s
            else:
                groups.append([state.start_s, state.stop_s])
    spans = [(start, stop) for start, stop in groups]
    open_then = [
        b
        for b, s in facts.begun.items()
        if any(s < stop and s + facts.playback_s > start for start, stop in spans)
    ]
    fate: dict[int, list[tuple[float, float]]] = {}
    for p, pair in zip(facts.sent, bounds(facts), strict=True):
        fate.setdefault(p.block, []).append(pair)
    must = sum(sum(low < 1 for low, _ in fate[b]) < facts.m for b in open_then)
    may = sum(sum(high == 0 for _, high in fate[b]) < facts.m for b in open_then)
    beside = sum(facts.undecodable(b) for b in facts.blocks if b not in set(open_then))
    return len(open_then), must, may, beside


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


def outcomes(
    facts: Facts, seed: int, figures: list[dict[str, Any]], run: dict[str, Any]
) -> dict[tuple[str, str], str]:
    """(key, about) -> outcome of the checks of single faults, but for the interval of a loss."""
    found: dict[tuple[str, str], str] = {}

    def put(key: str, about: str, holds: bool, events: float = 1) -> None:
        found[key, about] = "cannot-tell" if not events else "holds" if holds else "fails"

    answered = []
    for cut, one in zip(facts.cuts, figures, strict=True):
        needed, (low, high) = one["predicted_block_size"], one["size_range"]
        if needed is not None and facts.fixed is None:
            right = (
                one["measured_block_size"] is not None
                and low - 0.5 <= one["measured_block_size"] <= high + 0.5
            )
            put("block-size", cut.name, one["reacted"] and right, one["packets"])
        if needed is not None and (facts.fixed is None or facts.fixed >= needed):
            answered.append(one)
            steady = one["steady_blocks"]
            most = 0 if facts.deterministic else most_by_chance(steady * facts.der)
            put("undecodable-blocks", cut.name, one["undecodable_blocks"] <= most, steady)
    if run["blocks_outside"] or not run["blocks"]:
        put("undecodable-blocks", "", run["undecodable_outside"] == 0, run["blocks_outside"])
    if facts.fixed is None and answered:
        off = abs(run["ror_predicted"] - run["ror_measured"])
        put(
            "ror",
            "",
            off <= run["ror_tolerance"],
            sum(o["sent_per_source"] is not None for o in figures),
        )
        known = [o for cut, o in zip(facts.cuts, figures, strict=True)
                 if facts.diagnosing and cut.share == 1 and o["predicted_block_size"]]  # fmt: skip
        packets = sum(o["packets"] for o in known)
        if packets:
            late = sum(o["settled_late_parity"] for o in known)
            chance = 0 if facts.deterministic else most_by_chance(packets // facts.base * facts.der)
            allowed = max(2.0, packets / 1000) + chance * facts.largest
            put("late-parity-once-answered", "", late <= allowed)
    off_paths, of_paths = wrong_paths(facts)
    put("path-losses", "", off_paths == 0, of_paths)
    put("labels", "", mislabelled(facts, seed) == 0)
    put("corrupted-packets", "", facts.corrupted == 0, facts.corrupted + len(facts.received))
    return found


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
