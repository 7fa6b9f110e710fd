"""Totals of a stream's packets over the run: sent, lost, recovered, delay and residual loss."""

import math

import numpy as np

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.burst_loss import mean_of, share_error
from testbed.stream.impaired.checks import span_label
from testbed.stream.impaired.delay_spread import longest_wait_s
from testbed.stream.impaired.tolerances import SIGMAS
from testbed.stream.impaired.traversals import link_traversals
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import (
    mean_share_lost,
    planned_epochs,
)
from topologies import Json, JsonObject
from topologies.impairments import RateTrace

# Share of packets by which each fault may change the loss, because it begins and ends a little
# before or after its time.
_FAULT_TOLERANCE = 0.01


def packet_totals(facts: RunFacts) -> JsonObject:
    """Return the figures of ``packets`` in the document of a stream."""
    plan = facts.plan
    run = facts.run
    sent = run.sent
    source = sent.symbol < plan.stream.source_packets
    sources = int(source.sum())
    decoded_s = np.nan_to_num(run.blocks.complete_s, nan=np.inf)[run.block_index]
    in_time = decoded_s <= sent.time_s + plan.stream.playback_s
    lost = int(run.lost.sum())
    residual = int(run.blocks.late_source_packets.sum())
    sizes = run.initial_block_size
    return {
        "sent": len(sent.time_s),
        "source": sources,
        "lost": lost,
        "lost_share": _share(lost, len(sent.time_s)),
        "lost_by_link": _losses_by_link(facts),
        "recovered": int((source & run.lost & in_time).sum()),
        "residual": residual,
        "residual_share": _share(residual, sources),
        "block_size": {
            "mean": round(float(sizes.mean()), 2) if len(sizes) else None,
            "least": int(sizes.min()) if len(sizes) else None,
            "most": int(sizes.max()) if len(sizes) else None,
        },
        "source_packets_of_block": plan.stream.source_packets,
        "delay_s": _delays_s(facts),
    }


def residual_check(facts: RunFacts) -> Check | None:
    """Return the check that a stream without parity loses what the network loses.

    The result is None for a coded stream.
    """
    plan = facts.plan
    if plan.stream.block_size != plan.stream.source_packets or plan.changes:
        return None
    claim = Claim("share of source packets lost, without a code", "residual-loss")
    totals = packet_totals(facts)
    traced = False
    waits_s = []
    for span in facts.theory.impaired_spans:
        traced |= any(isinstance(step, RateTrace) for step in span.impairments)
        waits_s.append(longest_wait_s(span.impairments))
    if traced or sum(waits_s) > plan.stream.playback_s / 2 or not totals["source"]:
        why = "packets lost in the queue of a trace, or too late to be played, are not predicted"
        unpredicted = Check.unmeasured(claim.name, why)
        return Check(**{**vars(unpredicted), "key": claim.key})
    predicted = _predicted_loss(plan)
    tolerance = _FAULT_TOLERANCE * len(plan.faults) + 1 / totals["source"]
    variance = 0.0
    for span in facts.theory.impaired_spans:
        load = float(plan.forward.load(span.link))
        if load and mean_of(span.impairments):
            packets = max(1, int(load * totals["source"]))
            variance += (load * share_error(span.impairments, packets)) ** 2
    if not facts.theory.deterministic:
        # Labels, or the losses of faults, are drawn at random.
        variance += predicted * (1 - predicted) / totals["source"]
    tolerance += SIGMAS * math.sqrt(variance)
    check = claim.equal(predicted, totals["residual_share"], tolerance)
    if predicted == 0:
        return check.against(None, "none: the network loses nothing")
    return check.against(0.0, "a code that repairs every loss")


def _predicted_loss(plan: StreamPlan) -> float:
    """Return the mean share of source packets that faults and impairments lose."""
    ends_s = plan.duration_s - plan.stream.playback_s
    lost_s = 0.0
    for epoch in planned_epochs(plan):
        within_s = max(0.0, min(epoch.stop_s, ends_s) - epoch.start_s)
        lost_s += mean_share_lost(plan.splits[epoch.split], epoch.broken) * within_s
    return lost_s / ends_s


def _losses_by_link(facts: RunFacts) -> list[Json]:
    """Return the losses of each impaired link, of packets that met no other impairment or fault."""
    links: list[Json] = []
    for traversal in link_traversals(facts):
        crossed = len(traversal.own)
        lost = int(facts.run.lost[traversal.own].sum())
        links.append(
            {
                "link": span_label(facts.plan, traversal.span),
                "crossed": crossed,
                "lost": lost,
                "lost_share": _share(lost, crossed),
            }
        )
    return links


def _delays_s(facts: RunFacts) -> JsonObject:
    """Return delays of source packets, from sending to arrival or decoding, in seconds."""
    plan = facts.plan
    run = facts.run
    sent = run.sent
    source = sent.symbol < plan.stream.source_packets
    arrived_s = np.nan_to_num(run.deliveries.arrived_s, nan=np.inf)
    decoded_s = np.nan_to_num(run.blocks.complete_s, nan=np.inf)[run.block_index]
    delays_s = (np.minimum(arrived_s, decoded_s) - sent.time_s)[source]
    delays_s = delays_s[delays_s <= plan.stream.playback_s]
    if not len(delays_s):
        return {"median": None, "p95": None, "worst": None}
    median, p95, worst = np.percentile(delays_s, [50, 95, 100])
    return {
        "median": round(float(median), 5),
        "p95": round(float(p95), 5),
        "worst": round(float(worst), 5),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
