"""What a verdict of single faults says in full: each check's figures, how late the machine was, whether the run counts,
and the run in tenths of a second."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from tests.oracles.streams import fates
from tests.oracles.streams.facts import LABELS, Facts, binomial_size
from tests.oracles.streams.single_faults import blocks_at_rest, mistaken, whole_run

Said = tuple[float | None, float | None, float | None, float | None]
"""Predicted, measured, tolerance, rival."""
Told = dict[tuple[str, str], tuple[Said, str]]
"""By (key, about): the figures, and the outcome."""


def said_of_all(facts: Facts, seed: int, figures: list[dict[str, Any]]) -> Told:
    """All checks but the losses of faults: they are ``said_of_loss``. ``figures``: of each fault, where they are
    alone."""
    found: Told = {}

    def put(
        key: str, said: Said, events: float, *, about: str = "", holds: bool | None = None
    ) -> None:
        predicted, measured, tolerance, _ = said
        if holds is None:
            holds = abs((measured or 0) - (predicted or 0)) <= (tolerance or 0)
        found[key, about] = said, "cannot-tell" if not events else "holds" if holds else "fails"

    def chance(blocks: int) -> int:
        return 0 if facts.deterministic else fates.most_by_chance(blocks * facts.der)

    answered = []
    for cut, one in zip(facts.cuts, figures, strict=bool(figures)):
        needed, (low, high), measured = (
            one["predicted_block_size"], one["block_size_range"], one["measured_block_size"],
        )  # fmt: skip
        if needed is not None and facts.fixed is None:
            right = measured is not None and low - 0.5 <= measured <= high + 0.5
            said = (
                needed,
                measured,
                (high - low) / 2 + 0.5,
                float(facts.base) if facts.base < low else None,
            )
            put(
                "block-size",
                said,
                measured is not None,
                about=cut.name,
                holds=one["sender_reacted"] and right,
            )
        if needed is not None and (facts.fixed is None or facts.fixed >= needed):
            answered.append(one)
            steady = one["steady_blocks"]
            said = 0, one["undecodable_blocks"], chance(steady), None
            put("undecodable-blocks", said, steady, about=cut.name)
    if facts.fixed is None and answered:
        ror = whole_run(facts, figures)
        rival = 0.0 if ror["predicted"] > ror["tolerance"] else None
        put("ror", (ror["predicted"], ror["measured"], ror["tolerance"], rival), ror["counted"])
    fate = fates.fate_figures(facts)
    wrong = fate["wrongly_lost"] + fate["wrongly_arrived"]
    put("packet-fates", (0, wrong, max(2.0, fate["certain"] / 1000), None), fate["certain"])
    expected, lost, spread = fate["random_losses"]
    if expected:
        put("random-losses", (expected, lost, spread + 1, None), 1)
    safe = fates.safe_blocks(facts)
    if safe or not facts.blocks:
        put("undecodable-blocks", (0, sum(map(facts.undecodable, safe)), 0, None), len(safe))
    open_then, must, may, failed, beside = fates.beyond_reach(facts)
    within = len(facts.blocks) - open_then
    outages = bool(fates.spans_beyond_reach(facts))
    if within or not outages:
        put("undecodable-within-reach", (0, beside, chance(within), None), within)
    if outages:
        put(
            "undecodable-beyond-reach",
            ((must + may) / 2, failed, (may - must) / 2, None),
            open_then,
        )
    if facts.fixed is None:
        _put_redundancy(facts, put, chance)
    off_paths, of_paths = fates.wrong_paths(facts)
    put("path-losses", (0, off_paths, 0, None), of_paths)
    put("labels", (0, fates.mislabelled(facts, seed), 0, None), len(facts.sent))
    put("corrupted-packets", (0, facts.corrupted, 0, None), facts.corrupted + len(facts.received))
    return found


def _put_redundancy(facts: Facts, put: Any, chance: Any) -> None:
    epochs, sums = fates.epochs_of(facts), fates.redundancy(facts)
    counted = epochs.counted()
    answerable = any(
        loss > 0 and size < math.inf for loss, size in zip(epochs.losses, epochs.sizes, strict=True)
    )
    if not (answerable or counted):
        return
    predicted, measured = sums["redundancy_predicted"], sums["redundancy_measured"]
    tolerance = sums["redundancy_tolerance"] + max(0.002, 0.02 * predicted)
    right = not mistaken(facts) or not all(one.exact for one in epochs.required)
    holds = right and abs(predicted - measured) <= tolerance
    rival = 0.0 if predicted > tolerance else None
    put("redundancy", (predicted, measured, tolerance, rival), len(counted), holds=holds)
    packets = sums["settled_packets"]
    if packets:
        allowed = max(2.0, packets / 1000) + chance(len(epochs.informed())) * (
            facts.largest - facts.base
        )
        put("late-parity-once-answered", (0, sums["settled_late_parity"], allowed, None), packets)


def said_of_loss(kind: str, one: dict[str, Any], interval: tuple[float, float]) -> Said:
    low, high = interval
    rival = 1.0 if kind in ("down", "blackhole") and high < 1 else None
    return one["predicted_loss"], one["measured_loss"], (high - low) / 2, rival


def spurious_ror(facts: Facts, figures: list[dict[str, Any]]) -> float:
    """What blocks that a misinformed sender began would add to ROR; infinite where without them there is none to add
    it to."""
    if not facts.spurious:
        return 0.0
    none_left = any(
        one["sent_per_source"] is None and one["sent_per_source_spurious"] is not None
        for one in figures
    )
    epochs = fates.epochs_of(facts)
    rest = blocks_at_rest(facts, epochs, epochs.settled())
    if none_left or (rest and facts.spurious.issuperset(rest)):
        return math.inf
    with_them = whole_run(facts, figures, misled=True)
    return with_them["measured"] - whole_run(facts, figures)["measured"]


def lateness(
    facts: Facts, run: dict[str, Any], spurious: float, told_lag_s: tuple[float, float]
) -> dict[str, Any]:
    """Name -> (what it was, what the checks bear); ``told_lag_s``: of sender and receiver, by their own accounts."""
    quarter_s, longest_s = facts.playback_s / 4, max(path[3] for path in facts.paths)
    found = {"sender": (told_lag_s[0], quarter_s), "receiver": (told_lag_s[1], quarter_s)}
    if not facts.emulated or facts.impaired:
        return found
    lay_s = max((facts.transit_s(p) for p in facts.sent if not facts.lost(p)), default=0.0)
    found["switches"] = (max(0.0, lay_s - longest_s - facts.through_s), quarter_s)
    if facts.fixed is None:
        ages = [a for a in facts.news_ages_s if math.isfinite(a)]
        bears = max(0.45 - facts.report_s - 0.03 - facts.block_s, quarter_s)
        found["news"] = (max([0.0, *ages]) - 2 * longest_s, bears)
        if run["tolerance"] > 0 and facts.cuts:
            found["misled"] = (abs(spurious), run["tolerance"])
    return found


def counts(facts: Facts, figures: list[dict[str, Any]], late: dict[str, Any]) -> bool:
    """Whether the run says anything: the machine kept up, its clocks agree, and nothing was lost in no fault. (Drops
    that the kernel told of, and faults that were cut short, are not drawn here.)"""
    if any(was > bears for was, bears in late.values()) or facts.apart_s > 0.02:
        return False
    reactions = [one["reaction_s"] for one in figures if one["reaction_s"] is not None]
    if min(reactions, default=math.inf) < facts.apart_s or facts.through_s > facts.playback_s / 4:
        return False
    if not facts.sent:
        return False
    came = {(block, symbol) for _, block, symbol in facts.received}
    strange = len(facts.received) - sum(
        (packet.block, packet.symbol) in came for packet in facts.sent
    )
    if abs(strange) > 1e-4 * len(facts.sent) and not facts.impaired:  # twice, or never sent
        return False
    limit = 1e-4 if figures else 1e-3
    lost = fates.fate_figures(facts)["wrongly_lost"]
    return not facts.received or lost <= limit * len(facts.sent)


def tenths(facts: Facts) -> list[dict[str, Any]]:
    """The run in tenths of a second; what is later belongs to the last."""
    count = max(1, math.ceil(facts.duration_s / 0.1))
    bins: list[list[Any]] = [[] for _ in range(count)]
    for packet in facts.sent:
        bins[min(count - 1, int(packet.at_s / 0.1))].append(packet)
    return [
        {
            "sent_pps": len(own) / 0.1,
            "loss": fmean(map(facts.lost, own)) if own else None,
            "block_size": fmean(p.size for p in own) if own else None,
            "redundancy": fmean(p.size for p in own) / facts.m - 1 if own else None,
        }
        for own in bins
    ]


def whole_route(facts: Facts) -> tuple[float, set[int]]:
    """ROR by equations 23 and 25 over the links that some code helps; the others."""
    load = {
        i: sum(b - a for a, b, over, _ in facts.paths if i in over) / LABELS
        for p in facts.paths
        for i in p[2]
    }
    base = binomial_size(facts.m, facts.tolerance, facts.der)
    sizes = [
        binomial_size(facts.m, share, facts.der)
        for share in load.values()
        if facts.tolerance <= share < 1
    ]
    return sum(size / base - 1 for size in sizes), {i for i, share in load.items() if share >= 1}
