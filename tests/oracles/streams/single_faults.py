"""One fault at a time: its loss, its answer, and the redundancy of what was sent (Gabrielyan 2007, eq. 23)."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean, median
from typing import Any

from tests.oracles.streams.facts import (
    GUARD_S,
    LABELS,
    MARGIN_S,
    QUEUED_S,
    START_UP_S,
    Cut,
    Facts,
    binomial_size,
    loss_of,
    states,
    worst_window,
)


def predicted_size(facts: Facts, cut: Cut) -> int | None:
    """FEC_r(l), never below N at rest; None where nothing gets by, or a code of the largest N does not help."""
    share = facts.share(cut.links) * cut.share
    if share >= 1:
        return None
    exact = facts.diagnosing and cut.share == 1
    if (exact or facts.deterministic) and facts.stratified:
        lost = tuple(facts.carried(cut.links))
        size = worst_window(lost, facts.m, facts.multiplier) if lost else facts.m
    else:
        size = binomial_size(facts.m, share, facts.der)
    size = max(size, facts.base)
    return size if size <= facts.largest else None


def size_range(facts: Facts, cut: Cut) -> tuple[int, int]:
    """Every N that may answer losses which a receiver cannot tell from this one."""
    predicted, share = predicted_size(facts, cut), facts.share(cut.links) * cut.share
    if facts.fixed is not None:
        return facts.fixed, facts.fixed
    if facts.diagnosing and cut.share == 1 and predicted is not None:
        return predicted, predicted
    spread = 0.02 if facts.deterministic else 0.015 + 0.1 * share
    return facts.answer(max(0.0, share - spread)), facts.answer(min(0.99, share + spread))


def fault_figures(facts: Facts, cut: Cut) -> dict[str, Any]:
    """The figures of one fault, by the names that ``testbed stream --json`` gives them."""
    share, (low, high) = facts.share(cut.links) * cut.share, size_range(facts, cut)
    before_s, allowed_s = facts.reach_s(cut.links), facts.allowed_s
    inside = [p for p in facts.sent if cut.start_s <= p.at_s < cut.stop_s]
    needs_more = facts.fixed is None and share < 1 and low > facts.base
    raised = [p.at_s - cut.start_s for p in inside if p.size >= low]
    reaction = min(raised) if needs_more and raised else None
    if needs_more and reaction is None:
        answered = min(cut.start_s + allowed_s, cut.stop_s)
    else:
        answered = cut.start_s + max(reaction or 0.0, min(_certain_s(facts, cut) or 0.0, allowed_s))
    first, last = _near(facts, cut)
    begun = {b: s for b, s in facts.begun.items() if first <= b <= last}
    late_s = 0.0
    if facts.emulated:
        lay = [facts.transit_s(p) for b in begun for p in facts.blocks[b]
               if not facts.lost(p) and p.at_s >= cut.stop_s - QUEUED_S]  # fmt: skip
        late_s = max(0.0, max(lay, default=0.0) - max(p[3] for p in facts.paths) - facts.through_s)
    ends = cut.stop_s - before_s - facts.apart_s - late_s
    steady = [
        b for b, s in begun.items() if answered + facts.apart_s <= s < ends - 2 * facts.block_s
    ]
    packets = [p for b in steady for p in facts.blocks[b] if p.at_s < ends]
    sizes = [p[0].size for p in map(facts.blocks.get, steady) if p and p[0].at_s < ends]
    after = [b for b, s in begun.items() if answered < s < ends - 2 * facts.block_s]
    true = [b for b in after if b not in facts.spurious]
    lead = [
        b for b, s in begun.items() if cut.start_s - 2 * facts.block_s - before_s <= s < answered
    ]
    since = [b for b, s in begun.items() if answered <= s < cut.stop_s]
    ratio, error = facts.sent_per_source(true)
    extra = {b: max(0, len(facts.blocks[b]) - facts.first_size[b]) for b in begun}
    return {
        "predicted_loss": share,
        "measured_loss": fmean(map(facts.lost, packets)) if packets else None,
        "packets": len(packets),
        "predicted_block_size": predicted_size(facts, cut) if cut.kind != "impaired" else None,
        "measured_block_size": median(sizes) if sizes else None,
        "mean_block_size": fmean(sizes) if sizes else None,
        "size_range": (low, high),
        "reacted": (not needs_more or reaction is not None)
        and not (facts.diagnosing and cut.share == 1 and any(cut.start_s <= s < cut.stop_s for s in mistaken(facts))),
        "reaction_s": reaction,
        "transient_blocks": len(lead),
        "transient_blocks_lost": sum(map(facts.undecodable, lead)),
        "steady_blocks": len(since),
        "undecodable_blocks": sum(map(facts.undecodable, since)),
        "late_packets": sum(map(facts.late_sources, since)),
        "transient_late_packets": sum(map(facts.late_sources, lead)),
        "sent_per_source": ratio,
        "sent_per_source_error": error,
        "transient_packets": sum(cut.start_s <= p.at_s < answered for b in begun for p in facts.blocks[b]),
        "transient_late_parity": sum(extra[b] for b in lead),
        "settled_late_parity": sum(extra[b] for b in true),
        "misled_blocks": len(after) - len(true),
        "sent_per_source_misled": facts.sent_per_source(after)[0],
        "undecided_packets": sum(
            facts.apart_s > 0 and any(abs(p.at_s - edge) <= facts.apart_s for edge in (cut.start_s, cut.stop_s))
            for b in begun for p in facts.blocks[b]
        ),
    }  # fmt: skip


def _near(facts: Facts, cut: Cut) -> tuple[float, float]:
    """From two blocks before those with packets to send in the fault, or on the way to it, to the last of them."""
    own = [
        p.block for p in facts.sent if cut.start_s - facts.reach_s(cut.links) <= p.at_s < cut.stop_s
    ]
    return (min(own) - 2, max(own)) if own else (-math.inf, math.inf)


def _certain_s(facts: Facts, cut: Cut) -> float | None:
    for belief in facts.beliefs:
        if cut.start_s <= belief["at_s"] < cut.stop_s and belief["names"] and belief["certain"]:
            return round(belief["at_s"] - cut.start_s, 6)
    return None


def diagnosis(facts: Facts, cut: Cut) -> tuple[bool, bool, int | None] | None:
    """(right, certain, packets until it was certain): the first certain belief of the fault's time, else the last."""
    held = [b for b in facts.beliefs if cut.start_s <= b["at_s"] < cut.stop_s and b["names"]]
    if not held or not facts.diagnosing:
        return None
    said = next((b for b in held if b["certain"]), held[-1])
    named = any(name == cut.cable or name.startswith(cut.cable + " (") for name in said["names"])
    share = facts.share(cut.links) * cut.share
    right = named and (not said["certain"] or abs(said["lost_fraction"] - share) < 1 / LABELS)
    until = sum(cut.start_s <= p.at_s < said["at_s"] for p in facts.sent)
    return right, bool(said["certain"]), until if said["certain"] else None


def mistaken(facts: Facts) -> list[float]:
    """When the sender began to be certain of a loss that was not so: all that it named does not lose
    that share, or a packet of those labels arrived so long before it changed its mind that a report had told of it, while
    the loss was not only interrupted."""
    found = []
    for held, after in zip(
        facts.beliefs, [*facts.beliefs[1:], {"at_s": facts.duration_s}], strict=False
    ):
        if not (facts.diagnosing and held["names"] and held["certain"]):
            continue
        named = [_links_of(facts, name) for name in held["names"]]
        every = frozenset().union(*named)
        fitting = all(named) and round(facts.share(every) * LABELS) == round(
            held["lost_fraction"] * LABELS
        )
        if fitting:
            last_s = after["at_s"] - facts.allowed_s
            lost = facts.carried(every)
            against = any(held["at_s"] <= p.at_s < last_s and not facts.lost(p)
                          and any(a <= p.label < b for a, b in lost)
                          and not interrupted(facts, p.at_s, held["lost_fraction"]) for p in facts.sent)  # fmt: skip
            if not against or _unheard(facts, held["at_s"], after["at_s"]):
                continue
        found.append(held["at_s"])
    return found


def interrupted(facts: Facts, at_s: float, share: float) -> bool:
    """Whether the network lost this share until shortly before the time, and shortly after it again: for no longer
    than an answer may take."""
    right = [s for s in states(facts, False) if abs(loss_of(facts, s) - share) < 1 / LABELS]
    before = max((s.stop_s for s in right if s.stop_s <= at_s), default=-math.inf)
    after = min((s.start_s for s in right if s.start_s > at_s), default=math.inf)
    inside = any(s.start_s <= at_s < s.stop_s for s in right)
    return not inside and after - before <= facts.allowed_s


def _links_of(facts: Facts, name: str) -> frozenset[int]:
    """Of a cable, one direction of it, or a node, that the stream crosses; none of anything else."""
    used = {i for path in facts.paths for i in path[2]}
    cable, _, way = name.removesuffix(")").partition(" (")
    if cable.startswith("node "):
        return frozenset(i for i in used if cable.removeprefix("node ") in facts.ends[i])
    ends = {i: "-".join(sorted(facts.ends[i])) for i in used}
    return frozenset(i for i in used if ends[i] == cable and way in ("", "->".join(facts.ends[i])))


def _unheard(facts: Facts, since_s: float, until_s: float) -> bool:
    """Whether at some time then every way back was cut."""
    moments = [since_s, *(cut.start_s for cut in facts.cuts if since_s <= cut.start_s < until_s)]
    whole = [cut for cut in facts.cuts if cut.share == 1]
    return any(
        all(any(c.start_s <= at < c.stop_s and c.links & way for c in whole) for way in facts.back)
        for at in moments
    )


Moment = Callable[[float], bool]


def times_at_rest(facts: Facts) -> tuple[Moment, Moment]:
    """Whether a time is outside every fault, and whether the sender recovers from one then."""
    guard = GUARD_S + 2 * facts.block_s
    before = [(cut, max(facts.reach_s(cut.links), facts.spread_s)) for cut in facts.cuts]
    recovery = (
        facts.hold_s + 2 * facts.report_s + 4 * facts.block_s
        if facts.fixed is None
        else 2 * facts.report_s
    )

    def outside(at_s: float) -> bool:
        return all(
            at_s < cut.start_s - guard - before_s or at_s > cut.stop_s + guard
            for cut, before_s in before
        )

    def recovering(at_s: float) -> bool:
        return any(
            cut.stop_s <= at_s < cut.stop_s + recovery + facts.round_s + MARGIN_S
            for cut in facts.cuts
        )

    return outside, recovering


def blocks_at_rest(facts: Facts) -> list[int]:
    outside, recovering = times_at_rest(facts)
    settled_s = START_UP_S + facts.round_s
    return [
        b for b, s in facts.begun.items() if outside(s) and not recovering(s) and s >= settled_s
    ]


def whole_run(facts: Facts, found: list[dict[str, Any]]) -> dict[str, Any]:
    """What happened outside faults, and (``found``: figures of each) ROR over those that a block size answers."""
    outside, recovering = times_at_rest(facts)
    calm = [b for b, s in facts.begun.items() if outside(s)]
    resting = [
        own[0].size
        for own in facts.blocks.values()
        if outside(own[0].at_s) and not recovering(facts.begun[own[0].block])
    ]
    base = median(resting) if resting else facts.base
    ratio, rest_error = facts.sent_per_source(
        [b for b in blocks_at_rest(facts) if b not in facts.spurious]
    )
    ratio = ratio if ratio is not None else base / facts.m
    judged = [
        (
            one["predicted_block_size"],
            one["sent_per_source"],
            one["sent_per_source_error"],
            one["size_range"],
        )
        for one in found
        if one["predicted_block_size"] is not None and one["sent_per_source"] is not None
    ]
    predicted = sum(n / facts.base - 1 for n, _, _, _ in judged)
    slack = sum(max(high - n, n - low, 0) / facts.base for n, _, _, (low, high) in judged)
    least, part = (0.05 if slack else 2 / 3 / facts.base, 0.02) if facts.stratified else (0.1, 0.05)
    shares = [r / ratio for _, r, _, _ in judged]
    return {
        "base_block_size": base,
        "blocks": len(facts.blocks),
        "undecodable_outside": sum(map(facts.undecodable, calm)),
        "blocks_outside": len(calm),
        "lost_outside": sum(outside(p.at_s) and facts.lost(p) for p in facts.sent),
        "sent_outside": sum(outside(p.at_s) for p in facts.sent),
        "sent": len(facts.sent),
        "ror_predicted": predicted,
        "ror_measured": sum(shares) - len(shares),
        "ror_tolerance": max(least, part * predicted) + slack,
        "ror_error": math.hypot(
            *(e / ratio for _, _, e, _ in judged), sum(shares) * rest_error / ratio
        ),
    }
