"""What impaired links did to a stream's packets, predicted and measured: loss, bursts, blocks, copies, waiting,
overtaking, a trace's rate.

Each check names its rival: what would be measured if the link did nothing, or lost as much, but independently.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from testbed.model.verdict import Check, Claim
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.burst_loss import (
    binomial_losses,
    follows_a_loss,
    losses_in_block,
    mean_of,
    overtaken_packets,
    predicted_delay_spread,
    share_error,
    survival_covariance,
)
from testbed.stream.impaired.traversals import LinkTraversal, link_traversals
from testbed.stream.measurements import RELAYED, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import HEADERS_BYTES
from testbed.stream.prediction.active_faults import ImpairedSpan
from topologies import label_of
from topologies.impairments import (
    OPPORTUNITY_BYTES,
    Duplication,
    ExtraDelay,
    GilbertElliott,
    Impairments,
    RateTrace,
    Reordering,
    to_text,
)

SIGMAS = 4.0
"""Tolerances are so many standard deviations of what chance alone makes of the packets that crossed."""
GRAIN_S = 0.004
"""What real switches and a program that holds packets up may add to a mean wait (the simulated fabric adds nothing)."""
MIN_PACKETS, MOST_PACKETS = 200, 1e7
INDEPENDENT = "as many losses, but independent ones"


def impairment_checks(facts: RunFacts) -> list[Check]:
    """All checks of all impaired links that the stream crossed; a link of which nothing can be predicted has one that
    cannot tell."""
    plan = facts.plan
    found = link_traversals(facts)
    checks: list[Check] = []
    for crossing in found:
        own = list(_link_checks(facts, crossing)) or [_unpredicted(plan, crossing.span)]
        checks += [_identified(plan, crossing.span, check) for check in own]
    return checks + _block_checks(facts, found)


def unrest_s(facts: RunFacts) -> float:
    """By how much packets that met no impairment differ in how long they are under way, 99 of 100: what the machine
    does to all of them. 0 where nothing is claimed of times: losses and copies do not depend on them."""
    timed = (ExtraDelay, Reordering, RateTrace)
    delayed = [
        one
        for one in link_traversals(facts)
        if any(isinstance(w, timed) for w in one.span.impairments)
    ]
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
    why = "too few packets crossed it alone, or the words together have no prediction"
    return replace(
        Check.unmeasured(f"unpredicted, {span_label(plan, span)}", why), key="unpredicted"
    )


def _link_checks(facts: RunFacts, crossing: LinkTraversal) -> Iterator[Check]:
    plan, run = facts.plan, facts.run
    span, ending = crossing.span, span_label(plan, crossing.span)
    if len(crossing.own) < MIN_PACKETS:
        return
    if any(isinstance(one, RateTrace) for one in span.impairments):
        yield from trace_checks(facts, crossing, ending)
        return
    if mean_of(span.impairments) > 0:
        yield _loss_check(run, crossing, ending)
    if sum(isinstance(one, GilbertElliott) for one in span.impairments) == 1:
        yield _burst_check(run, crossing, ending)
    if sum(isinstance(one, Duplication) for one in span.impairments) == 1:
        yield _copies_check(run, crossing, ending)
    yield from _waiting_checks(run, crossing, ending)


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
        if loss_tolerance(impairments, int(needed)) < mean and burst_tolerance(words, losses) < abs(
            follows
        ):
            return needed
        needed *= 1.25
    return math.inf


def _lossy(impairments: Impairments) -> Impairments:
    return tuple(one for one in impairments if not isinstance(one, Duplication))


def loss_tolerance(impairments: Impairments, packets: int) -> float:
    """Of the share that is lost: what chance makes of so many packets, and what copies make good at most."""
    words, copies = (
        _lossy(impairments),
        [one.fraction for one in impairments if isinstance(one, Duplication)],
    )
    made_good = mean_of(impairments) * math.prod(copies) if copies else 0.0
    return SIGMAS * share_error(words, packets) + 1 / packets + made_good


def burst_tolerance(words: Impairments, losses: int) -> float:
    """Of the share of so many losses that follow a loss; 0 where no chain of states makes any."""
    chain = next((one for one in words if isinstance(one, GilbertElliott)), None)
    if chain is None:
        return 0.0
    expected, memory = follows_a_loss(words), max(0.0, chain.memory)
    simple = chain.bad_loss == 1 and chain.good_loss == 0 and len(words) == 1
    spread = (
        expected
        * (1 - expected)
        * (1.0 if simple else (1 + memory) / (1 - memory))
        / max(1, losses)
    )
    return SIGMAS * math.sqrt(spread) + 1 / max(1, losses)


def _loss_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    words, own = crossing.span.impairments, crossing.own
    lost, tolerance = (
        float((run.deliveries.copies[own] == 0).mean()),
        loss_tolerance(words, len(own)),
    )
    check = Claim(f"share of packets lost, {ending}", "loss").equal(
        mean_of(_lossy(words)), lost, tolerance
    )
    return check.against(0.0, "nothing is lost").noting(f"{len(own)} packets crossed")


def _burst_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    """How often the packet after a lost one is lost too: between neighbours on the link that were both alone."""
    words, alone = _lossy(crossing.span.impairments), crossing.alone
    lost = run.deliveries.copies[crossing.packets] == 0
    first = lost[:-1] & alone[:-1] & alone[1:]
    losses, both = int(first.sum()), int((first & lost[1:]).sum())
    expected = follows_a_loss(words)
    claim = Claim(f"share of losses that follow a loss, {ending}", "losses-in-a-row")
    check = claim.equal(expected, both / max(1, losses), burst_tolerance(words, losses))
    detail = (
        f"{losses} losses; bursts of {1 / max(1e-9, 1 - expected):.1f} packets predicted on average"
    )
    return check.against(mean_of(words), INDEPENDENT).noting(detail)


def _copies_check(run: StreamMeasurements, crossing: LinkTraversal, ending: str) -> Check:
    words = crossing.span.impairments
    place = next(k for k, one in enumerate(words) if isinstance(one, Duplication))
    twice, before, after = words[place], words[:place], words[place + 1 :]
    assert isinstance(twice, Duplication)
    both = (1 - mean_of(after)) ** 2 + survival_covariance(after, 1)
    expected = (1 - mean_of(before)) * twice.fraction * both
    packets, copied = len(crossing.own), float((run.deliveries.copies[crossing.own] > 1).mean())
    variance = expected * (1 - expected) / packets
    # Losses in bursts take copies with them; behind the copier either copy may be lost.
    if mean_of(before) > 0:
        variance += (twice.fraction * share_error(before, packets)) ** 2
    if mean_of(after) > 0:
        variance += (2 * twice.fraction * share_error(after, packets)) ** 2
    tolerance = SIGMAS * math.sqrt(variance) + 1 / packets
    check = Claim(f"share of packets that came twice, {ending}", "duplicates").equal(
        expected, copied, tolerance
    )
    detail = f"{packets} packets crossed; a packet that comes twice is decoded once"
    return check.against(0.0, "no packet comes twice").noting(detail)


def _waiting_checks(
    run: StreamMeasurements, crossing: LinkTraversal, ending: str
) -> Iterator[Check]:
    """The mean wait, and how many packets were overtaken, next to what the sending times and independent draws give."""
    deliveries = run.deliveries
    chosen = crossing.alone & (deliveries.copies[crossing.packets] > 0)
    own = crossing.packets[chosen]
    predicted = predicted_delay_spread(crossing.span.impairments, run.sent.time_s[own])
    if predicted is None or len(own) < MIN_PACKETS:
        return
    grain = GRAIN_S if run.fabric == "emulation" else 1e-6
    waits = deliveries.transit_s[own] - crossing.base_s[chosen]
    wait = Claim(f"mean wait, s, {ending}", "mean-wait").equal(
        predicted.mean_s, float(waits.mean()), SIGMAS * predicted.mean_error_s + grain
    )
    detail = f"{len(own)} packets arrived; {grain * 1000:g} ms are left to the fabric"
    yield wait.against(0.0, "no packet waits").noting(detail)
    if predicted.overtaken > 0:
        measured = float(overtaken_packets(run.sent.time_s[own] + deliveries.transit_s[own]).mean())
        tolerance = SIGMAS * predicted.overtaken_error + predicted.overtaken_slack(grain)
        claim = Claim(f"share of packets overtaken, {ending}", "overtaken")
        overtaken = claim.equal(predicted.overtaken, measured, tolerance)
        yield overtaken.against(0.0, "no packet overtakes another").noting(
            "packets that came after one sent later (RFC 4737); predicted by drawing waits for the times of sending"
        )


def _block_checks(facts: RunFacts, found: Sequence[LinkTraversal]) -> list[Check]:
    """Blocks of whose first N packets fewer than M came: predicted by the recursion over the chain, against independent
    loss.

    None where theory itself says that so many blocks cannot tell the two apart: that is known before anything is
    measured.
    """
    lossy = [
        one
        for one in found
        if len(one.span.impairments) == 1 and isinstance(one.span.impairments[0], GilbertElliott)
    ]
    if not lossy or len(lossy) < sum(mean_of(one.span.impairments) > 0 for one in found):
        return []
    blocks = _Blocks(facts, lossy)
    if len(blocks.predicted) < 50:
        return []
    total, rival = float(np.sum(blocks.predicted)), float(np.sum(blocks.independent))
    count = len(blocks.predicted)
    spread = float(np.sum(blocks.predicted * (1 - blocks.predicted))) * blocks.inflation
    tolerance = (SIGMAS * math.sqrt(spread) + 1) / count
    if abs(total - rival) / count <= tolerance:
        return []
    name = "share of blocks that their first N packets do not decode, bursts on impaired links"
    check = Claim(name, "undecodable-in-bursts").equal(
        total / count, float(blocks.short.mean()), tolerance
    )
    detail = f"{count} blocks; before late parity, by the recursion of Elliott 1963"
    return [check.against(rival / count, INDEPENDENT).noting(detail)]


class _Blocks:
    """Shape (blocks,) of ``predicted`` and ``independent`` probabilities and of what happened, ``short``."""

    def __init__(self, facts: RunFacts, found: Sequence[LinkTraversal]) -> None:
        run, m = facts.run, facts.plan.stream.source_packets
        sent = run.sent
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
        planned = (run.deliveries.copies > 0) & (sent.symbol < sent.block_size)
        numbers = run.blocks.block.tolist()
        sizes = dict(zip(numbers, run.size_begun.tolist(), strict=True))
        arrived = dict(
            zip(numbers, np.bincount(run.place_of_block, weights=planned).tolist(), strict=True)
        )
        chosen = [number for number in sorted(met) if number not in barred]
        self.predicted = np.array([_short(met[k], sizes[k] - m, burst=True) for k in chosen])
        self.independent = np.array([_short(met[k], sizes[k] - m, burst=False) for k in chosen])
        self.short = np.array([arrived[k] < m for k in chosen])
        memory = max(
            [
                0.0,
                *(
                    c.span.impairments[0].memory
                    for c in found
                    if isinstance(c.span.impairments[0], GilbertElliott)
                ),
            ]
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


WINDOWS_S = (0.1, 0.3, 1.0)
_GRAIN_S = 0.005
"""Arrivals are noted so much late or early on real switches; a window is taken as much wider, by the most that the
relay was late and by the most that a packet which met no impairment was."""


def trace_checks(facts: RunFacts, crossing: LinkTraversal, ending: str) -> list[Check]:
    """Those that can tell the trace from a link without one; where none can, one that says so."""
    plan, run = facts.plan, facts.run
    trace = next(one for one in crossing.span.impairments if isinstance(one, RateTrace))
    arrived = _arrivals(run, crossing)
    sent = run.sent.time_s[crossing.packets]
    packet = plan.stream.symbol_bytes + HEADERS_BYTES - 14
    grain_s = (
        _GRAIN_S
        + latest_s(run, plan.network.links[crossing.span.link].label)
        + crossing.unrest_s[1]
    )
    checks = [
        _capacity_check(trace, arrived, sent, (packet, grain_s, window), ending)
        for window in WINDOWS_S
    ]
    capacity = next((check for check in checks if not check.unsure), checks[-1])
    silence = _silence_check(trace, arrived, sent, ending)
    return [check for check in (capacity, silence) if not check.unsure] or [capacity]


def _capacity_check(
    trace: RateTrace,
    arrived: FloatArray,
    sent: FloatArray,
    measure: tuple[int, float, float],
    ending: str,
) -> Check:
    """``measure``: bytes of a packet, how far its arrival may be off and the window, in seconds."""
    packet, grain_s, window_s = measure
    most = most_opportunities(trace, window_s + grain_s) * OPPORTUNITY_BYTES + packet
    came, went = (most_in_window(times, window_s) * packet for times in (arrived, sent))
    check = Claim(f"most bytes in {window_s:g} s, {ending}", "most-bytes").at_most(most, came)
    carries = f"IP bytes; the trace carries {trace.mean_rate_bps / 1e6:.3g} Mbit/s on average"
    detail = f"{carries}; {grain_s * 1000:.1f} ms for lateness"
    return check.against(float(went), "as many as were sent").noting(detail).of(len(arrived))


def _silence_check(trace: RateTrace, arrived: FloatArray, sent: FloatArray, ending: str) -> Check:
    gap_s, claim = longest_gap_s(trace), Claim(f"longest silence, s, {ending}", "longest-silence")
    silent_s, unsent_s = (float(np.diff(times).max(initial=0.0)) for times in (arrived, sent))
    check = claim.at_least(gap_s - _GRAIN_S, silent_s).against(
        unsent_s, "as long as nothing was sent"
    )
    return check.noting(f"the trace has no opportunity for {gap_s:g} s").of(len(arrived))


def latest_s(run: StreamMeasurements, label: str) -> float:
    """How late the relay sent a packet of the link on at most; 0 where there was none."""
    reports = run.counters.get(RELAYED, {})
    return max(
        (float(one["latest_s"]) for name, one in reports.items() if name.startswith(f"{label} ")),
        default=0.0,
    )


def _arrivals(run: StreamMeasurements, crossing: LinkTraversal) -> FloatArray:
    """When the packets came that crossed the link, in order."""
    return np.sort(run.received.time_s[np.isin(run.received.key, run.sent.key[crossing.packets])])


def most_in_window(times: FloatArray, window_s: float) -> int:
    """The most of the times (sorted, s) that lie within one window."""
    return int(
        (np.searchsorted(times, times + window_s, side="right") - np.arange(len(times))).max(
            initial=0
        )
    )


def most_opportunities(trace: RateTrace, window_s: float) -> int:
    """The most opportunities of the trace, which comes again and again, within any window of so many seconds."""
    rounds = int(window_s / trace.period_s) + 2
    once = np.array(trace.times_ms) / 1000
    return most_in_window((np.arange(rounds)[:, None] * trace.period_s + once).ravel(), window_s)


def longest_gap_s(trace: RateTrace) -> float:
    """The longest time without an opportunity, over the end of the trace too."""
    times = np.array([*trace.times_ms, trace.times_ms[-1] + trace.times_ms[0]])
    return float(np.diff(times).max(initial=trace.times_ms[0])) / 1000
