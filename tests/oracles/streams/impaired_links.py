"""What an impaired link did to the packets that crossed it, counted one by one, and what chance alone makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple

from tests.oracles.streams.facts import Facts, Sent

GUARD_S, SIGMAS, PACKET_HEADERS, OPPORTUNITY = 0.05, 4.0, 20 + 8 + 24, 1500
Word = tuple[Any, ...]
"""("loss", share), ("ge", to bad, to good, loss in bad, loss in good), ("delay", mean s, jitter s), ("reorder", share
that goes first, delay s), ("duplicate", share) or ("trace", times of opportunities in ms)."""


class Span(NamedTuple):
    link: int
    words: tuple[Word, ...]
    start_s: float
    stop_s: float


class Crossing(NamedTuple):
    """Packets that came to the link in its time, whether each met nothing else, and how much longer each was under way
    than one that met nothing (infinite where it never came)."""

    packets: list[Sent]
    alone: list[bool]
    wait_s: list[float]
    unrest_s: tuple[float, float]

    def only(self) -> list[tuple[Sent, float]]:
        return [
            (p, w) for p, one, w in zip(self.packets, self.alone, self.wait_s, strict=True) if one
        ]


def crossing(facts: Facts, spans: Sequence[Span], chosen: Span) -> Crossing:
    last = facts.duration_s - facts.playback_s
    spans = [s._replace(stop_s=min(s.stop_s, last)) for s in spans]
    chosen = chosen._replace(stop_s=min(chosen.stop_s, last))
    breaks = [cut for cut in facts.cuts if cut.kind != "impaired"]

    def met(p: Sent) -> int:
        over = facts.paths[facts.path(p)][2]
        own = sum(
            s.link in over and s.start_s - GUARD_S <= p.at_s < s.stop_s + GUARD_S for s in spans
        )
        hit = [
            len(cut.links & set(over))
            for cut in breaks
            if cut.start_s - GUARD_S <= p.at_s < cut.stop_s + GUARD_S
        ]
        return own + 2 * sum(hit)

    calm = [
        facts.transit_s(p) - facts.paths[facts.path(p)][3]
        for p in facts.sent
        if not met(p) and not facts.lost(p)
    ]
    calm = sorted(calm) or [0.0]
    usual = median(calm)
    packets = [
        p for p in facts.sent
        if chosen.link in facts.paths[facts.path(p)][2]
        and chosen.start_s + GUARD_S <= p.at_s < chosen.stop_s - GUARD_S
    ]  # fmt: skip
    waits = [
        math.inf if facts.lost(p) else facts.transit_s(p) - facts.paths[facts.path(p)][3] - usual
        for p in packets
    ]
    at = 0.99 * (len(calm) - 1)
    high = calm[int(at)] + (at % 1) * (calm[min(int(at) + 1, len(calm) - 1)] - calm[int(at)])
    return Crossing(
        packets, [met(p) == 1 for p in packets], waits, (high - usual, calm[-1] - usual)
    )


def mean_loss(word: Word) -> float:
    if word[0] == "ge":
        bad = word[1] / (word[1] + word[2])
        return float(bad * word[3] + (1 - bad) * word[4])
    return float(word[1]) if word[0] == "loss" else 0.0


def covariance(words: Sequence[Word], lag: int) -> float:
    """Of the survival of two packets ``lag`` apart: the chain of each word run step by step."""
    together = apart = 1.0
    for word in words:
        survival = 1 - mean_loss(word)
        apart *= survival**2
        if word[0] != "ge":
            together *= survival**2
            continue
        _, p, r, bad_loss, good_loss = word
        good, bad = (1 - good_loss) * r / (p + r), (1 - bad_loss) * p / (p + r)
        for _ in range(lag):
            good, bad = good * (1 - p) + bad * r, good * p + bad * (1 - r)
        together *= good * (1 - good_loss) + bad * (1 - bad_loss)
    return together - apart


def link_figures(
    facts: Facts, found: Crossing, words: tuple[Word, ...]
) -> dict[str, dict[str, float]]:
    """By the keys of checks: predicted, measured, tolerance and what would be measured if nothing impaired the link."""
    own, figures = found.only(), {}
    lossy = tuple(w for w in words if w[0] != "duplicate")
    lost = 1 - math.prod(1 - mean_loss(w) for w in words)
    came = [w for _, w in own if w < math.inf]
    if lost:
        variance = lost * (1 - lost)
        variance += sum(
            2 * covariance(lossy, k) * (1 - k / len(own)) for k in range(1, min(len(own), 200))
        )
        second = (
            lost * math.prod(w[1] for w in words if w[0] == "duplicate") if lossy != words else 0.0
        )
        spread = SIGMAS * math.sqrt(max(0.0, variance) / len(own)) + 1 / len(own) + second
        figures["loss"] = _figure(lost, 1 - len(came) / len(own), spread, 0.0)
    if sum(w[0] == "ge" for w in words) == 1:
        gone = [w == math.inf for w in found.wait_s]
        pairs = [(a, b) for a, b, one, two in zip(gone, gone[1:], found.alone, found.alone[1:], strict=False)
                 if one and two and a]  # fmt: skip
        follows = (covariance(lossy, 1) + lost**2) / lost
        _, p, r, bad_loss, good_loss = next(w for w in words if w[0] == "ge")
        memory = max(0.0, 1 - p - r)
        simple = (bad_loss, good_loss) == (1, 0) and len(lossy) == 1
        factor = 1.0 if simple else (1 + memory) / (1 - memory)
        count = max(1, len(pairs))
        spread = SIGMAS * math.sqrt(follows * (1 - follows) * factor / count) + 1 / count
        figures["losses-in-a-row"] = _figure(
            follows, sum(b for _, b in pairs) / count, spread, lost
        )
    if sum(w[0] == "duplicate" for w in words) == 1:
        place = next(k for k, w in enumerate(words) if w[0] == "duplicate")
        before, after = (
            1 - math.prod(1 - mean_loss(w) for w in part)
            for part in (words[:place], words[place + 1 :])
        )
        twice = (
            (1 - before) * words[place][1] * ((1 - after) ** 2 + covariance(words[place + 1 :], 1))
        )
        double = sum(len(facts.arrivals.get((p.block, p.symbol), ())) > 1 for p, _ in own)
        share = words[place][1]
        variance = twice * (1 - twice) / len(own)
        variance += (share * _share_error(words[:place], len(own))) ** 2
        variance += (2 * share * _share_error(words[place + 1 :], len(own))) ** 2
        spread = SIGMAS * math.sqrt(variance) + 1 / len(own)
        figures["duplicates"] = _figure(twice, double / len(own), spread, 0.0)
    return figures


def _share_error(words: tuple[Word, ...], count: int) -> float:
    """Return the standard error of the share of packets that these words lose, of so many."""
    lost = 1 - math.prod(1 - mean_loss(word) for word in words)
    if not lost:
        return 0.0
    variance = lost * (1 - lost)
    for lag in range(1, min(count, 200)):
        variance += 2 * covariance(words, lag) * (1 - lag / count)
    return math.sqrt(max(0.0, variance) / count)


def burst_figures(facts: Facts, found: Crossing, word: Word) -> dict[str, float]:
    """The share of blocks of whose first N packets fewer than M came, by the chain run packet by packet over the link,
    and as if losses were independent; blocks at either end, and those that met something else, are left out."""
    _, p, r, bad_loss, good_loss = word
    barred = {q.block for q, one in zip(found.packets, found.alone, strict=True) if not one}
    barred |= {found.packets[0].block, found.packets[-1].block}
    places: dict[int, list[int]] = {}
    for k, q in enumerate(found.packets):
        if q.symbol < q.size:
            places.setdefault(q.block, []).append(k)
    chances, alike, short = [], [], 0
    for block in sorted(set(places) - barred):
        spare = facts.first_size[block] - facts.m
        chances.append(_more_lost(places[block], spare, p, r, bad_loss, good_loss))
        count, loss = len(places[block]), mean_loss(word)
        alike.append(
            sum(
                math.comb(count, k) * loss**k * (1 - loss) ** (count - k)
                for k in range(spare + 1, count + 1)
            )
        )
        short += sum(q.symbol < q.size and not facts.lost(q) for q in facts.blocks[block]) < facts.m
    memory, length = max(0.0, 1 - p - r), sum(map(len, places.values())) / len(places)
    inflation = 1 + 2 * memory / max(1e-9, 1 - memory**length)
    spread, count = inflation * sum(c * (1 - c) for c in chances), len(chances)
    tolerance = (SIGMAS * math.sqrt(spread) + 1) / count
    return _figure(sum(chances) / count, short / count, tolerance, sum(alike) / count)


def _more_lost(
    places: list[int], spare: int, p: float, r: float, bad_loss: float, good_loss: float
) -> float:
    """Probability that more than ``spare`` of the packets at these places in the link's order are lost."""
    state = {(0, False): r / (p + r), (0, True): p / (p + r)}
    for k in range(places[0], places[-1] + 1):
        after: dict[tuple[int, bool], float] = {}
        for (lost, bad), chance in state.items():
            share = (bad_loss if bad else good_loss) if k in places else 0.0
            for more, part in ((0, 1 - share), (1, share)):
                for turned, move in ((True, r if bad else p), (False, 1 - (r if bad else p))):
                    key = (lost + more, bad != turned)
                    after[key] = after.get(key, 0.0) + chance * part * move
        state = after
    return sum(chance for (lost, _), chance in state.items() if lost > spare)


def _figure(predicted: float, measured: float, tolerance: float, rival: float) -> dict[str, float]:
    return {"predicted": predicted, "measured": measured, "tolerance": tolerance, "rival": rival}


def outcome(figure: dict[str, float]) -> str:
    off, rival_off = (abs(figure[name] - figure["predicted"]) for name in ("measured", "rival"))
    if off > figure["tolerance"]:
        return "fails"
    return "cannot-tell" if rival_off <= figure["tolerance"] else "holds"


def waits(facts: Facts, found: Crossing) -> tuple[float, float]:
    """The mean wait of packets that came alone, and the share of them that came after one sent later."""
    came = [(facts.arrivals[p.block, p.symbol][0], w) for p, w in found.only() if w < math.inf]
    earliest, overtaken = math.inf, 0
    for at_s, _ in reversed(came):
        overtaken += at_s > earliest
        earliest = min(earliest, at_s)
    return fmean(w for _, w in came), overtaken / len(came)


def mean_wait(words: Sequence[Word]) -> float:
    """Of a packet that is not copied."""
    return sum(w[1] for w in words if w[0] == "delay") + sum(
        (1 - w[1]) * w[2] for w in words if w[0] == "reorder"
    )


def trace_figures(
    facts: Facts, found: Crossing, times_ms: Sequence[int], window_s: float, grain_s: float
) -> Any:
    """(most bytes that the trace can carry in a window, most that came, most that were sent), and (longest time without
    an opportunity, longest silence of arrivals, longest of sending)."""
    packet_bytes = facts.symbol_bytes + PACKET_HEADERS
    came = sorted(at for p in found.packets for at in facts.arrivals.get((p.block, p.symbol), ()))
    sent = [p.at_s for p in found.packets]
    period = times_ms[-1] / 1000
    chances = [k * period + t / 1000 for k in range(int(window_s / period) + 3) for t in times_ms]
    carried = _most(chances, window_s + grain_s) * OPPORTUNITY + packet_bytes
    silent = max(b - a for a, b in pairwise(chances))
    gaps = [max((b - a for a, b in pairwise(times)), default=0.0) for times in (came, sent)]
    return (carried, _most(came, window_s) * packet_bytes, _most(sent, window_s) * packet_bytes), (
        silent,
        *gaps,
    )


def _most(times: Sequence[float], window_s: float) -> int:
    return max(
        (sum(t <= other <= t + window_s for other in times[k:]) for k, t in enumerate(times)),
        default=0,
    )
