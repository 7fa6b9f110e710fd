"""One fault at a time: its loss, its answer, and the redundancy of what was sent (Gabrielyan 2007, eq. 23)."""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import Any

from tests.oracles.streams.facts import LABELS, Cut, Facts, Sent, loss_of, states
from tests.oracles.streams.fates import (
    Epochs,
    bounds,
    epochs_of,
    longest_transit_s,
    spans_between_states,
)


def fault_figures(facts: Facts, cut: Cut) -> dict[str, Any]:
    """The figures of one fault that overlaps no other, by the names that ``testbed stream --json`` gives them."""
    epochs = epochs_of(facts)
    k = epochs.of(cut.start_s)
    required, share = epochs.required[k], facts.share(cut.links) * cut.share
    answered, block_s = min(epochs.answered[k], cut.stop_s), facts.block_s
    inside = [p for p in facts.sent if cut.start_s <= p.at_s < cut.stop_s]
    needs_more = facts.fixed is None and share < 1 and required.low > facts.base
    raised = [p.at_s - cut.start_s for p in inside if p.size >= required.low]
    reaction = min(raised) if needs_more and raised else None
    begun, since_s = facts.begun, cut.start_s - 2 * block_s - facts.reach_s(cut.links)
    lead = [b for b, s in begun.items() if since_s <= s < answered]
    between = spans_between_states(facts)
    steady = [
        b
        for b, s in begun.items()
        if answered <= s < cut.stop_s
        and not any(s < stop and s + 2 * block_s > start for start, stop in between)
    ]
    over = [b for b in steady if begun[b] + 2 * block_s < cut.stop_s]
    compared = [b for b in over if begun[b] >= epochs.compared[k] and not epochs.unpredicted(b)]
    true = [b for b in compared if b not in facts.spurious]
    sizes = [facts.first_size[b] for b in compared]
    packets = packets_that_met(facts, cut)
    ratio, error = facts.sent_per_source(true)
    extra = {b: max(0, len(facts.blocks[b]) - facts.first_size[b]) for b in begun}
    wrong = required.exact and any(cut.start_s <= s < cut.stop_s for s in mistaken(facts))
    size = None if math.isinf(required.size) or cut.kind == "impaired" else int(required.size)
    return {
        "predicted_loss": share,
        "measured_loss": fmean(map(facts.lost, packets)) if packets else None,
        "packets": len(packets),
        "predicted_block_size": size,
        "measured_block_size": median(sizes) if sizes else None,
        "mean_block_size": fmean(sizes) if sizes else None,
        "block_size_range": (required.low, required.high),
        "sender_reacted": (not needs_more or reaction is not None) and not wrong,
        "reaction_s": reaction,
        "transient_blocks": len(lead),
        "transient_blocks_lost": sum(map(facts.undecodable, lead)),
        "steady_blocks": len(steady),
        "undecodable_blocks": sum(map(facts.undecodable, steady)),
        "late_packets": sum(map(facts.late_sources, steady)),
        "transient_late_packets": sum(map(facts.late_sources, lead)),
        "sent_per_source": ratio,
        "sent_per_source_error": error,
        "transient_packets": sum(cut.start_s <= p.at_s < answered for p in facts.sent),
        "transient_late_parity": sum(extra[b] for b in lead),
        "settled_late_parity": sum(extra[b] for b in true),
        "spurious_loss_blocks": len(compared) - len(true),
        "sent_per_source_spurious": facts.sent_per_source(compared)[0],
        "undecided_packets": sum(
            facts.apart_s > 0 and any(abs(p.at_s - edge) <= facts.apart_s for edge in (cut.start_s, cut.stop_s))
            for p in facts.sent
        ),
    }  # fmt: skip


def packets_that_met(facts: Facts, cut: Cut) -> list[Sent]:
    """First transmissions of blocks that were sent as a whole in the fault, and were there before its end."""
    transit_s = longest_transit_s(facts)
    begin_s = max(cut.start_s, min(cut.planned_s[0], cut.stop_s)) + facts.apart_s
    end_s = min(cut.stop_s, cut.planned_s[1]) - facts.apart_s - 0.01
    found: list[Sent] = []
    for block, own in facts.blocks.items():
        first = [p for p in own if p.symbol < facts.first_size[block]]
        if all(begin_s <= p.at_s and p.at_s + transit_s(p.at_s) < end_s for p in first):
            found += first
    return found


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
            last_s = min(after["at_s"] - facts.allowed_s, _judged_until_s(facts))
            lost = facts.carried(every)
            against = any(held["at_s"] <= p.at_s < last_s and not facts.lost(p) and low == high
                          and any(a <= p.label < b for a, b in lost)
                          and not interrupted(facts, p.at_s, held["lost_fraction"]) for p, (low, high) in zip(facts.sent, bounds(facts), strict=True))  # fmt: skip
            if not against or _unheard(facts, held["at_s"], after["at_s"]):
                continue
        found.append(held["at_s"])
    return found


def _judged_until_s(facts: Facts) -> float:
    """The sender never judges what it sent after this time, since hardly anything came behind it."""
    arrived = [p.at_s for p in facts.sent if not facts.lost(p)]
    return max(arrived, default=0.0) - facts.tail_s


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


def blocks_at_rest(facts: Facts, epochs: Epochs, blocks: list[int]) -> list[int]:
    return [b for b in blocks if not epochs.losses[epochs.of(facts.begun[b])]]


def whole_run(facts: Facts, found: list[dict[str, Any]], *, misled: bool = False) -> dict[str, Any]:
    """ROR over the faults that a block size answers (``found``: figures of each); ``misled``: with the blocks of a
    misinformed sender."""
    epochs = epochs_of(facts)
    settled = epochs.settled()
    sizes = [facts.first_size[b] for b in blocks_at_rest(facts, epochs, settled)]
    base = median(sizes) if sizes else facts.base
    chosen = settled if misled else epochs.counted()
    ratio, rest_error = facts.sent_per_source(blocks_at_rest(facts, epochs, chosen))
    ratio = ratio if ratio is not None else base / facts.m
    judged = []
    for one in found:
        sent = one["sent_per_source_spurious"] if misled else one["sent_per_source"]
        if one["predicted_block_size"] is not None and sent is not None:
            error = 0.0 if misled else one["sent_per_source_error"]
            judged.append((one["predicted_block_size"], sent, error, one["block_size_range"]))
    predicted = sum(n / facts.base - 1 for n, _, _, _ in judged)
    slack = sum(max(high - n, n - low, 0) / facts.base for n, _, _, (low, high) in judged)
    least, part = (0.05 if slack else 2 / 3 / facts.base, 0.02) if facts.stratified else (0.1, 0.05)
    shares = [r / ratio for _, r, _, _ in judged]
    return {
        "base_block_size": base,
        "predicted": predicted,
        "measured": sum(shares) - len(shares),
        "tolerance": max(least, part * predicted) + slack,
        "error": math.hypot(
            *(e / ratio for _, _, e, _ in judged), sum(shares) * rest_error / ratio
        ),
        "counted": len(judged),
    }
