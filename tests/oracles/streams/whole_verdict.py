"""What a verdict of single faults says in full: each check's figures, how late the machine was, whether the run counts,
and the run in tenths of a second."""

from __future__ import annotations

import copy
import math
from statistics import fmean
from typing import Any

from tests.oracles.streams import fates
from tests.oracles.streams.facts import LABELS, Facts, binomial_size
from tests.oracles.streams.single_faults import blocks_at_rest, whole_run

Said = tuple[float | None, float | None, float | None, float | None]
"""Predicted, measured, tolerance, rival."""
Told = dict[tuple[str, str], Said]


def said_of_faults(
    facts: Facts, seed: int, figures: list[dict[str, Any]], run: dict[str, Any]
) -> Told:
    """By (key, about), but for the losses: they are ``said_of_loss``."""
    found: Told = {}
    for cut, one in zip(facts.cuts, figures, strict=True):
        needed, (low, high) = one["predicted_block_size"], one["size_range"]
        if needed is None:
            continue
        if facts.fixed is None:
            rival = float(facts.base) if facts.base < low else None
            found["block-size", cut.name] = (
                needed,
                one["measured_block_size"],
                (high - low) / 2 + 0.5,
                rival,
            )
        if facts.fixed is None or facts.fixed >= needed:
            most = (
                0 if facts.deterministic else fates.most_by_chance(one["steady_blocks"] * facts.der)
            )
            found["undecodable-blocks", cut.name] = 0, one["undecodable_blocks"], most, None
    found["undecodable-blocks", ""] = 0, run["undecodable_outside"], 0, None
    tolerance = run["ror_tolerance"]
    rival = 0.0 if run["ror_predicted"] > tolerance else None
    found["ror", ""] = run["ror_predicted"], run["ror_measured"], tolerance, rival
    late, packets = late_once_answered(facts, figures)
    chance = 0 if facts.deterministic else fates.most_by_chance(packets // facts.base * facts.der)
    allowed = max(2.0, packets / 1000) + chance * facts.largest
    found["late-parity-once-answered", ""] = 0, late, allowed, None
    found["path-losses", ""] = 0, fates.wrong_paths(facts)[0], 0, None
    found["labels", ""] = 0, fates.mislabelled(facts, seed), 0, None
    found["corrupted-packets", ""] = 0, facts.corrupted, 0, None
    return found


def said_of_loss(kind: str, one: dict[str, Any], interval: tuple[float, float]) -> Said:
    low, high = interval
    rival = 1.0 if kind in ("down", "blackhole") and high < 1 else None
    return one["predicted_loss"], one["measured_loss"], (high - low) / 2, rival


def late_once_answered(facts: Facts, figures: list[dict[str, Any]]) -> tuple[int, int]:
    """Late parity of blocks begun after the answer to a fault that the sender can know, and of how many packets."""
    known = [
        one for cut, one in zip(facts.cuts, figures, strict=True)
        if facts.diagnosing and cut.share == 1 and one["predicted_block_size"]
    ]  # fmt: skip
    return sum(one["settled_late_parity"] for one in known), sum(one["packets"] for one in known)


def spurious_ror(facts: Facts, figures: list[dict[str, Any]], run: dict[str, Any]) -> float:
    """What blocks that a misinformed sender began would add to ROR; infinite where without them there is none to add
    it to."""
    if not facts.spurious:
        return 0.0
    trusting = copy.copy(facts)
    trusting.spurious = set()
    all_told = [one | {"sent_per_source": one["sent_per_source_misled"]} for one in figures]
    none_left = any(
        one["sent_per_source"] is None is not one["sent_per_source_misled"] for one in figures
    )
    rest = blocks_at_rest(facts)
    if none_left or (rest and facts.spurious.issuperset(rest)):
        return math.inf
    return whole_run(trusting, all_told)["ror_measured"] - run["ror_measured"]


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
        if run["ror_tolerance"] > 0 and facts.cuts:
            found["misled"] = (abs(spurious), run["ror_tolerance"])
    return found


def counts(
    facts: Facts, figures: list[dict[str, Any]], run: dict[str, Any], late: dict[str, Any]
) -> bool:
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
    return not facts.received or run["lost_outside"] <= 1e-4 * run["sent"]


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
