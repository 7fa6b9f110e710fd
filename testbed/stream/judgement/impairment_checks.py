"""What impaired links did to a stream's packets, predicted and measured: loss, bursts, blocks, copies, waiting,
overtaking, a trace's rate.

Each check names its rival: what would be measured if the link did nothing, or lost as much, but independently.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from testbed.model.verdict import Check
from testbed.stream.judgement.link_traversals import LinkTraversal, link_traversals
from testbed.stream.judgement.trace_checks import trace_checks
from testbed.stream.measurements import IntArray, PacketDeliveries, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import ImpairedSpan
from testbed.stream.prediction.burst_loss import (
    binomial_losses,
    follows_a_loss,
    losses_in_block,
    mean_of,
    share_error,
    survival_covariance,
)
from testbed.stream.prediction.delay_spread import overtaken_packets, predicted_delay_spread
from topologies.impairments import Duplication, ExtraDelay, GilbertElliott, Impairments, RateTrace, Reordering, to_text
from topologies.network import label_of

SIGMAS = 4.0
"""Tolerances are so many standard deviations of what chance alone makes of the packets that crossed."""
GRAIN_S = 0.004
"""What real switches and a program that holds packets up may add to a mean wait (the simulated fabric adds nothing)."""
MIN_PACKETS, MOST_PACKETS = 200, 1e7


def impairment_checks(plan: StreamPlan, run: StreamMeasurements) -> list[Check]:
    """All checks of all impaired links that the stream crossed; a link of which nothing can be predicted has one that
    cannot tell."""
    deliveries, found = run.deliveries, link_traversals(plan, run)
    checks: list[Check] = []
    for crossing in found:
        own = list(_link_checks(plan, run, crossing, deliveries)) or [_unpredicted(plan, crossing.span)]
        checks += [_identified(plan, crossing.span, check) for check in own]
    return checks + _block_checks(plan, run, found, deliveries)


def unrest_s(plan: StreamPlan, run: StreamMeasurements) -> float:
    """By how much packets that met no impairment differ in how long they are under way, 99 of 100: what the machine
    does to all of them. 0 where nothing is claimed of times: losses and copies do not depend on them."""
    timed = (ExtraDelay, Reordering, RateTrace)
    delayed = [one for one in link_traversals(plan, run) if any(isinstance(w, timed) for w in one.span.impairments)]
    return max((crossing.unrest_s[0] for crossing in delayed), default=0.0)


def span_label(plan: StreamPlan, span: ImpairedSpan) -> str:
    """How checks name the link: as the fault does, where it is one."""
    link = plan.network.links[span.link].id if span.fault is None else plan.faults[span.fault].link
    return f"{label_of(link)} {to_text(span.impairments)}"


def _identified(plan: StreamPlan, span: ImpairedSpan, check: Check) -> Check:
    """The check about the span's fault, or about its link where the network impairs it; a fault's other direction has a
    key of its own."""
    link = plan.network.links[span.link].id
    if span.fault is None:
        return replace(check, about=f"link:{label_of(link)}")
    back = "" if link == plan.faults[span.fault].link else "-back"
    return replace(check, key=f"{check.key}{back}", about=f"fault:{span.fault}")


def _unpredicted(plan: StreamPlan, span: ImpairedSpan) -> Check:
    return Check(
        name=f"unpredicted, {span_label(plan, span)}",
        key="unpredicted",
        passed=False,
        unsure=True,
        detail="too few packets crossed it alone, or the words together have no prediction",
    )


def _link_checks(
    plan: StreamPlan, run: StreamMeasurements, crossing: LinkTraversal, deliveries: PacketDeliveries
) -> Iterator[Check]:
    span, ending = crossing.span, span_label(plan, crossing.span)
    own = crossing.packets[crossing.alone]
    if len(own) < MIN_PACKETS:
        return
    if any(isinstance(one, RateTrace) for one in span.impairments):
        yield from trace_checks(plan, run, crossing, ending)
        return
    if mean_of(span.impairments) > 0:
        yield _loss_check(crossing, deliveries, ending)
    if sum(isinstance(one, GilbertElliott) for one in span.impairments) == 1:
        yield _burst_check(crossing, deliveries, ending)
    if sum(isinstance(one, Duplication) for one in span.impairments) == 1:
        yield _copies_check(crossing, deliveries, ending)
    yield from _waiting_checks(run, crossing, deliveries, ending)


def packets_needed(impairments: Impairments) -> float:
    """How many packets have to cross such a link alone for its checks to tell it from one that loses nothing, or as
    much by itself (to a quarter); infinite where no number does."""
    words, needed, mean = _lossy(impairments), float(MIN_PACKETS), mean_of(impairments)
    chains = sum(isinstance(one, GilbertElliott) for one in words)
    if not mean or any(isinstance(one, RateTrace) for one in impairments):
        return needed
    follows = follows_a_loss(words) - mean_of(words) if chains == 1 else math.inf
    while needed < MOST_PACKETS:
        losses = int(needed * mean)
        if loss_tolerance(impairments, int(needed)) < mean and burst_tolerance(words, losses) < abs(follows):
            return needed
        needed *= 1.25
    return math.inf


def _lossy(impairments: Impairments) -> Impairments:
    return tuple(one for one in impairments if not isinstance(one, Duplication))


def loss_tolerance(impairments: Impairments, packets: int) -> float:
    """Of the share that is lost: what chance makes of so many packets, and what copies make good at most."""
    words, copies = _lossy(impairments), [one.fraction for one in impairments if isinstance(one, Duplication)]
    made_good = mean_of(impairments) * math.prod(copies) if copies else 0.0
    return SIGMAS * share_error(words, packets) + 1 / packets + made_good


def burst_tolerance(words: Impairments, losses: int) -> float:
    """Of the share of so many losses that follow a loss; 0 where no chain of states makes any."""
    chain = next((one for one in words if isinstance(one, GilbertElliott)), None)
    if chain is None:
        return 0.0
    expected, memory = follows_a_loss(words), max(0.0, chain.memory)
    simple = chain.bad_loss == 1 and chain.good_loss == 0 and len(words) == 1
    spread = expected * (1 - expected) * (1.0 if simple else (1 + memory) / (1 - memory)) / max(1, losses)
    return SIGMAS * math.sqrt(spread) + 1 / max(1, losses)


def _loss_check(crossing: LinkTraversal, deliveries: PacketDeliveries, ending: str) -> Check:
    own = crossing.packets[crossing.alone]
    return Check.equal(
        f"share of packets lost, {ending}",
        mean_of(_lossy(crossing.span.impairments)),
        float((deliveries.copies[own] == 0).mean()),
        tolerance=loss_tolerance(crossing.span.impairments, len(own)),
        rival=0.0,
        rival_is="nothing is lost",
        key="loss",
        detail=f"{len(own)} packets crossed",
    )


def _burst_check(crossing: LinkTraversal, deliveries: PacketDeliveries, ending: str) -> Check:
    """How often the packet after a lost one is lost too: between neighbours on the link that were both alone."""
    words, alone = _lossy(crossing.span.impairments), crossing.alone
    lost = deliveries.copies[crossing.packets] == 0
    first = lost[:-1] & alone[:-1] & alone[1:]
    losses, both = int(first.sum()), int((first & lost[1:]).sum())
    expected = follows_a_loss(words)
    return Check.equal(
        f"share of losses that follow a loss, {ending}",
        expected,
        both / max(1, losses),
        tolerance=burst_tolerance(words, losses),
        rival=mean_of(words),
        rival_is="as many losses, but independent ones",
        key="losses-in-a-row",
        detail=f"{losses} losses; bursts of {1 / max(1e-9, 1 - expected):.1f} packets predicted on average",
    )


def _copies_check(crossing: LinkTraversal, deliveries: PacketDeliveries, ending: str) -> Check:
    words = crossing.span.impairments
    place = next(k for k, one in enumerate(words) if isinstance(one, Duplication))
    twice, before, after = words[place], words[:place], words[place + 1 :]
    assert isinstance(twice, Duplication)
    both = (1 - mean_of(after)) ** 2 + survival_covariance(after, 1)
    expected = (1 - mean_of(before)) * twice.fraction * both
    own = crossing.packets[crossing.alone]
    return Check.equal(
        f"share of packets that came twice, {ending}",
        expected,
        float((deliveries.copies[own] > 1).mean()),
        tolerance=SIGMAS * math.sqrt(expected * (1 - expected) / len(own)) + 1 / len(own),
        rival=0.0,
        rival_is="no packet comes twice",
        key="duplicates",
        detail=f"{len(own)} packets crossed; a packet that comes twice is decoded once",
    )


def _waiting_checks(
    run: StreamMeasurements, crossing: LinkTraversal, deliveries: PacketDeliveries, ending: str
) -> Iterator[Check]:
    """The mean wait, and how many packets were overtaken, next to what the sending times and independent draws give."""
    chosen = crossing.alone & (deliveries.copies[crossing.packets] > 0)
    own = crossing.packets[chosen]
    predicted = predicted_delay_spread(crossing.span.impairments, run.sent.time_s[own])
    if predicted is None or len(own) < MIN_PACKETS:
        return
    grain = GRAIN_S if run.fabric == "emulation" else 1e-6
    waits = deliveries.transit_s[own] - crossing.base_s[chosen]
    yield Check.equal(
        f"mean wait, s, {ending}",
        predicted.mean_s,
        float(waits.mean()),
        tolerance=SIGMAS * predicted.mean_error_s + grain,
        rival=0.0,
        rival_is="no packet waits",
        key="mean-wait",
        detail=f"{len(own)} packets arrived; {grain * 1000:g} ms are left to the fabric",
    )
    overtaken = float(overtaken_packets(run.sent.time_s[own] + deliveries.transit_s[own]).mean())
    if predicted.overtaken > 0:
        yield Check.equal(
            f"share of packets overtaken, {ending}",
            predicted.overtaken,
            overtaken,
            tolerance=SIGMAS * predicted.overtaken_error + predicted.overtaken_slack(grain),
            rival=0.0,
            rival_is="no packet overtakes another",
            key="overtaken",
            detail="packets that came after one sent later (RFC 4737); "
            "predicted by drawing waits for the times of sending",
        )


def _block_checks(
    plan: StreamPlan, run: StreamMeasurements, found: Sequence[LinkTraversal], deliveries: PacketDeliveries
) -> list[Check]:
    """Blocks of whose first N packets fewer than M came: predicted by the recursion over the chain, against independent
    loss.

    None where theory itself says that so many blocks cannot tell the two apart: that is known before anything is
    measured.
    """
    lossy = [
        one for one in found if len(one.span.impairments) == 1 and isinstance(one.span.impairments[0], GilbertElliott)
    ]
    if not lossy or len(lossy) < sum(mean_of(one.span.impairments) > 0 for one in found):
        return []
    blocks = _Blocks(plan, run, lossy, deliveries)
    if len(blocks.predicted) < 50:
        return []
    total, rival = float(np.sum(blocks.predicted)), float(np.sum(blocks.independent))
    count = len(blocks.predicted)
    spread = float(np.sum(blocks.predicted * (1 - blocks.predicted))) * blocks.inflation
    tolerance = (SIGMAS * math.sqrt(spread) + 1) / count
    if abs(total - rival) / count <= tolerance:
        return []
    return [
        Check.equal(
            "share of blocks that their first N packets do not decode, bursts on impaired links",
            total / count,
            float(blocks.short.mean()),
            tolerance=tolerance,
            rival=rival / count,
            rival_is="as many losses, but independent ones",
            key="undecodable-in-bursts",
            detail=f"{count} blocks; before late parity, by the recursion of Elliott 1963",
        )
    ]


class _Blocks:
    """Shape (blocks,) of ``predicted`` and ``independent`` probabilities and of what happened, ``short``."""

    def __init__(
        self, plan: StreamPlan, run: StreamMeasurements, found: Sequence[LinkTraversal], deliveries: PacketDeliveries
    ) -> None:
        sent, m = run.sent, plan.stream.source_packets
        met: dict[int, list[tuple[GilbertElliott, IntArray]]] = {}
        barred: set[int] = set()
        counts = []
        for crossing in found:
            chain = crossing.span.impairments[0]
            assert isinstance(chain, GilbertElliott)
            block = sent.block[crossing.packets]
            barred |= set(block[~crossing.alone].tolist())
            barred |= set(block[:1].tolist()) | set(block[-1:].tolist())
            planned = sent.symbol[crossing.packets] < sent.block_size[crossing.packets]
            for number in np.unique(block).tolist():
                places = np.flatnonzero((block == number) & planned)
                met.setdefault(number, []).append((chain, places))
                counts.append(len(places))
        planned = (deliveries.copies > 0) & (sent.symbol < sent.block_size)
        numbers = run.blocks.block.tolist()
        sizes = dict(zip(numbers, run.size_begun.tolist(), strict=True))
        arrived = dict(zip(numbers, np.bincount(run.place_of_block, weights=planned).tolist(), strict=True))
        chosen = [number for number in sorted(met) if number not in barred]
        self.predicted = np.array([_short(met[k], sizes[k] - m, burst=True) for k in chosen])
        self.independent = np.array([_short(met[k], sizes[k] - m, burst=False) for k in chosen])
        self.short = np.array([arrived[k] < m for k in chosen])
        memory = max(
            [0.0, *(c.span.impairments[0].memory for c in found if isinstance(c.span.impairments[0], GilbertElliott))]
        )
        length = max(1.0, float(np.mean(counts))) if counts else 1.0
        self.inflation = 1 + 2 * memory / max(1e-9, 1 - memory**length)


def _short(met: Sequence[tuple[GilbertElliott, IntArray]], spare: int, *, burst: bool) -> float:
    """Probability that more than ``spare`` packets of a block are lost on the links that it meets."""
    total = np.ones(1)
    for chain, places in met:
        if not len(places):
            continue
        if burst:
            total = np.convolve(total, losses_in_block(chain, tuple(np.diff(places).tolist())))
        else:
            total = np.convolve(total, binomial_losses(chain.mean_loss, len(places)))
    return float(total[spare + 1 :].sum())
