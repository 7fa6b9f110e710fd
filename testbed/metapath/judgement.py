"""The verdict on a plain stream under failures: what FT-DRB, one path, or a route computed again lets us expect."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from testbed.faults.fault import FaultTimes, fault_not_in_force, names_of_faults
from testbed.judgement.counts import negative_count
from testbed.judgement.documents import document_head
from testbed.judgement.validity import (
    NOTHING_SENT,
    arrived_early,
    dropped_reason,
    first_reason,
    lost_in_no_fault,
)
from testbed.metapath.analysis import (
    AFTER_S,
    UNDER_WAY_S,
    FaultOutcome,
    MetapathFacts,
    episode_of,
    fault_timeline,
)
from testbed.metapath.labelled_paths import cable_number
from testbed.metapath.plan import AFTER_END_S, SLACK_S, MetapathPlan, MetapathRun
from testbed.metapath.source import CALIBRATING
from testbed.model.json_values import json_ready, located
from testbed.model.machine.load import (
    LOWER_PACKET_RATE,
    TimingError,
    first_exceeded,
)
from testbed.model.verdict import IMPOSSIBLE, Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.mobility import splits_of
from topologies import JsonObject, LinkId, reverse_of
from topologies.routing_tables import static_routing

MAX_LOST_S = 0.05
"""Of packets, between a cut and the escape; one packet, where packets are further apart."""
MAX_LAG_S, MAX_AHEAD_S, MAX_AFTER_S = 0.1, 0.005, 1.0
LEAST_SENT, LEAST_REPORTS = 0.9, 0.6
"""Of the planned packets and reports, in a run that counts."""
MAX_OFF_LOAD = 0.25
"""Of the zero-load latency: a source that misses a report calibrates by other packets."""


@located("the stream's measurements cannot be those of its plan", kinds=IMPOSSIBLE)
def judge_metapaths(plan: MetapathPlan, run: MetapathRun) -> Judgement:
    """Every fault's checks; invalid, never passed, where the machine could not keep up or lost packets by itself. A row
    a fault, and of those that are stored its timeline too."""
    facts = MetapathFacts(plan, run)
    verdict = Verdict(
        checks=tuple(_checks(facts)),
        invalid=_invalid(facts),
        notes=run.health.notes,
    )
    rows, stored = [], []
    for outcome in facts.faults:
        end_s = min(outcome.stop_s + AFTER_S, plan.duration_s)
        timeline = fault_timeline(facts.deliveries, outcome.start_s, end_s)
        rows.append(json_ready(outcome))
        stored.append({"routing": plan.routing, **rows[-1], "timeline": timeline})
    document = _document(facts, verdict) | {"per_fault": rows}
    return Judgement(verdict=verdict, document=document, rows=tuple(rows), stored=tuple(stored))


def _checks(facts: MetapathFacts) -> Iterator[Check]:
    plan, run = facts.plan, facts.run
    arrived_outside = facts.sent_outside - facts.lost_outside
    names = names_of_faults(plan.faults, run.faults)
    for about, times, outcome in zip(names, run.faults, facts.faults, strict=True):
        if plan.routing == "ft-drb":
            own = ft_drb_checks(plan, outcome, times, episode_of(times, run.faults))
        else:
            link = times.fault.link
            all_lost = lost_share(plan, link) >= 1
            share = _share_check(plan, outcome, link)
            own = [
                share.of(arrived_outside, "nothing arrived outside faults either")
                if all_lost
                else share
            ]
            if plan.routing == "recomputed" and outcome.kind == "down":
                own.append(_no_more(outcome))
        yield from (replace(check, about=about).of(outcome.sent) for check in own)
    outside = Claim("packets lost outside faults", "lost-outside").equal(0, facts.lost_outside)
    yield outside.of(facts.sent_outside)
    if plan.routing == "ft-drb":
        yield _reported(facts).of(facts.sent_outside)


def _reported(facts: MetapathFacts) -> Check:
    """Return the check of the cables that escaped packets and the controller reported as failed."""
    plan, run = facts.plan, facts.run
    links = [cable_number(plan.network, link.id) for link in plan.network.links]
    cuts = [
        (links[plan.network.link_index[t.fault.link]], t)
        for t in run.faults
        if t.fault.kind == "down"
    ]
    # a label may name any number: None stands for no link
    reported = {
        links[k] if k < len(links) else None for k in np.unique(run.received.dead_link) if k >= 0
    }
    reported -= {cable for cable, _ in cuts}
    for event in run.events:
        own = [
            t
            for cable, t in cuts
            if cable == event.cable and t.start_s - UNDER_WAY_S <= event.at_s < t.stop_s + AFTER_S
        ]
        if event.kind in ("notified", "marked") and event.cause != "silence" and not own:
            reported.add(event.cable)
    return Claim("cables reported as failed that were not cut", "wrongly-reported").count(
        0, len(reported)
    )


def ft_drb_checks(
    plan: MetapathPlan, outcome: FaultOutcome, times: FaultTimes, episode: Sequence[FaultTimes] = ()
) -> list[Check]:
    """Lost until the escape or until silence is found, nothing lost after it, and the return to the minimal path.

    ``times``: of the fault whose outcome it is; ``episode``: the faults that it overlaps, if any; the last of them on
    the minimal path to end is the one to return after.
    """
    overlapped, on_path = len(episode) > 1, _on_minimal_path(plan, times.fault.link)
    if not on_path and not overlapped:
        name = f"packets lost, {outcome.link} {outcome.kind}, off the path"
        return [_at_most("lost", name, 0, outcome.lost, "packets")]
    if outcome.kind == "down":
        name, limit = (
            f"packets lost until the escape, {outcome.link} down",
            max(MAX_LOST_S, 1 / plan.rate_pps),
        )
        first = _at_most("lost", name, limit, outcome.lost_s, "s of the stream")
    else:
        name, found_s = f"silence found, {outcome.link} {outcome.kind}", plan.found_s(outcome.kind)
        words = f"s; {found_s:.3f} s by its parameters"
        first = _at_most("silence-found", name, found_s + SLACK_S, outcome.reconfigured_s, words)
    if not overlapped:
        first = first.of(outcome.lost + outcome.escaped, "no packet met the failure")
    checks = [first, _no_more(outcome)]
    if not overlapped and outcome.reconfigured_s is not None:
        if outcome.marked_by is None or not outcome.detected_s:
            checks[0] = replace(first, passed=False, detail="the cable was never marked")
        avoided_s = max(
            0.0, min(outcome.stop_s, plan.duration_s) - outcome.start_s - outcome.reconfigured_s
        )
        most = avoided_s * plan.rate_pps / plan.options.probe_every + 2  # one is under way
        name = f"packets sent over it after reconfiguring, {outcome.link} {outcome.kind}"
        checks.append(
            _at_most("kept-off", name, most, outcome.probes, "packets, of which each is a probe")
        )
    later = (other for other in episode if other.stop_s > times.stop_s)
    if (
        not on_path
        or times.fault.permanent
        or any(_on_minimal_path(plan, other.fault.link) for other in later)
    ):
        return checks
    name = f"return to the minimal path, {outcome.link} {outcome.kind}"
    words = f"s; a probe every {plan.options.probe_every / plan.rate_pps:g} s"
    return [*checks, _at_most("returned", name, plan.return_s + SLACK_S, outcome.returned_s, words)]


def _at_most(key: str, name: str, limit: float, measured: float | None, words: str) -> Check:
    return Check(
        name=name,
        key=key,
        measured=measured,
        tolerance=limit,
        passed=measured is not None and measured <= limit,
        detail=f"at most {limit:.4g} {words}",
    )


def _no_more(outcome: FaultOutcome) -> Check:
    name = f"packets lost after reconfiguring, {outcome.link} {outcome.kind}"
    check = Claim(name, "lost-later").equal(0, outcome.lost_after_reroute)
    return (
        check
        if outcome.reconfigured_s is not None
        else replace(check, passed=False, detail="it never did")
    )


def _share_check(plan: MetapathPlan, outcome: FaultOutcome, link: LinkId) -> Check:
    """Lost is the share of labels on the link, as long as nobody reroutes them."""
    share = lost_share(plan, link)
    lasts_s = min(outcome.stop_s, plan.duration_s) - outcome.start_s
    if plan.routing == "recomputed" and outcome.reconfigured_s is not None:
        lasts_s = outcome.reconfigured_s
    expected = share * lasts_s * plan.rate_pps
    slack = share * plan.rate_pps * UNDER_WAY_S / 2 + 3
    if plan.routing == "recomputed" and outcome.reconfigured_s is not None:
        slack += expected / 2  # the first switch may pass packets over before it says that it does
    name, detail = (
        f"packets lost, {outcome.link} {outcome.kind}",
        f"{100 * share:.1f} % of the labels cross the link",
    )
    slack, detail = round(slack, 1), f"{detail} for {lasts_s:.3f} s"
    return Claim(name, "lost").equal(round(expected, 1), outcome.lost, slack).noting(detail)


def lost_share(plan: MetapathPlan, link: LinkId) -> float:
    """Share of the stream that a cut of the link's cable takes while the first rules are in force."""
    back = reverse_of(link)
    if plan.routing == "recomputed":
        _, forward, _ = splits_of(plan.network, plan.source, plan.sink)
        numbers = [plan.network.link_index[i] for i in (link, back) if i in plan.network.link_index]
        paths = [p for p in forward.paths if set(p.links) & set(numbers)]
        return sum(p.stop - p.start for p in paths) / 65536
    from testbed.routing import route_by_name

    loads = route_by_name(plan.network, plan.source, plan.sink, "single").loads
    return max(
        float(loads[plan.network.link_index[i]])
        for i in (link, back)
        if i in plan.network.link_index
    )


def _on_minimal_path(plan: MetapathPlan, link: LinkId) -> bool:
    cables = {
        cable_number(plan.network, one)
        for one in static_routing(plan.network)(plan.source, plan.sink)
    }
    return cable_number(plan.network, link) in cables


def _invalid(facts: MetapathFacts) -> str | None:
    """Return why the run says nothing, or None."""
    plan, run = facts.plan, facts.run
    if not facts.messages:
        return NOTHING_SENT
    description = "the sender lagged {was} behind its schedule"
    lag = TimingError("sender", description, run.health.sender_lag_s, MAX_LAG_S)
    messages = facts.deliveries
    transit_s = messages.arrived_s - messages.sent_s
    # No load on a machine that was in time takes every packet.
    lost = 0 if facts.lost_outside == facts.sent_outside else facts.lost_outside
    return first_reason(
        first_exceeded((lag,), LOWER_PACKET_RATE),
        _too_few(facts),
        fault_not_in_force(plan.faults, run.faults, plan.duration_s),
        _strange(facts),
        arrived_early(transit_s[~messages.lost], 5, MAX_AHEAD_S),
        None if plan.background_bps else lost_in_no_fault(lost, facts.messages),
        dropped_reason(run.health.unplanned_drops, facts.messages, "at a full socket"),
    ) or _contradicted(facts)


def _too_few(facts: MetapathFacts) -> str | None:
    planned = int(facts.plan.duration_s * facts.plan.rate_pps)
    if facts.messages >= LEAST_SENT * planned:
        return None
    return f"{facts.messages} of {planned} packets were sent"


def _strange(facts: MetapathFacts) -> str | None:
    run = facts.run
    in_time = run.received.time_s <= facts.plan.duration_s + MAX_AFTER_S
    numbers = run.received.number[in_time]
    expected = np.intersect1d(numbers, np.arange(len(run.sent.path)))
    strange = len(run.received.number) - len(expected)
    if not strange:
        return None
    return f"{strange} packets arrived twice, were not sent, or arrived after the end"


def _contradicted(facts: MetapathFacts) -> str | None:
    """The first figure that cannot be so beside what else was measured, or None. A source is notified of a cable, may
    mark it and clears it, is configured when it marks one or clears one that was marked, and sends over the paths that
    are in use then, but for probes of the minimal one."""
    plan, run = facts.plan, facts.run
    events, got, sent_reports = run.events, run.received, run.counters.get("reports")
    figures = {"zero_load_s": run.zero_load_s, **vars(run.health), **run.counters}
    negative = negative_count(figures)
    if negative is not None:
        return negative
    planned = (plan.duration_s + AFTER_END_S) / plan.report_s
    if sent_reports and not LEAST_REPORTS * planned <= sent_reports <= planned + 2:
        return f"{sent_reports} of {planned:.0f} reports were sent"
    minimal = (got.dead_link < 0) & (run.sent.path[got.number] == 0)
    usual_s = (
        np.median((got.time_s - run.sent.time_s[got.number])[minimal][:CALIBRATING])
        if minimal.any()
        else 0.0
    )
    if run.zero_load_s and abs(usual_s / run.zero_load_s - 1) > MAX_OFF_LOAD:
        return f"the zero-load latency is {run.zero_load_s:.2g} s, and the first packets took {usual_s:.2g} s"

    def at_s(*kinds: str) -> set[float]:
        return {event.at_s for event in events if event.kind in kinds}

    moments_s = [0.0, *(event.at_s for event in events), plan.duration_s + MAX_AFTER_S]
    states = [
        "".join(e.kind[0] for e in events if e.cable == cable)
        for cable in {e.cable for e in events} - {None}
    ]
    configured = at_s("marked") <= at_s("configured") <= at_s("marked", "cleared")
    if (
        moments_s != sorted(moments_s)
        or not configured
        or not all(re.fullmatch("(nm?c)*(nm?)?", one) for one in states)
    ):
        return "what the source says that it learned and did cannot be so in this order"
    if any(
        not one.notified_s <= one.routed_s <= one.done_s <= moments_s[-1] for one in run.rerouted
    ):
        return "what was rerouted cannot be so in this order"
    uses = [(0.0, ()), *((event.at_s, event.paths) for event in events if event.paths)]
    places = np.searchsorted([since_s for since_s, _ in uses], run.sent.time_s, side="right") - 1
    for place, path in sorted(set(zip(places.tolist(), run.sent.path.tolist(), strict=True))):
        if path not in (0, *uses[place][1]) and (place or not plan.options.always):
            return f"packets were sent over path {path} which was not in use since {uses[place][0]:.3f} s"
    return None


def _document(facts: MetapathFacts, verdict: Verdict) -> JsonObject:
    """Return the document of one run, but for its faults."""
    plan, run = facts.plan, facts.run
    figures = {
        "packets_sent": facts.messages,
        "packets_lost_outside_faults": facts.lost_outside,
        "datagrams_received": len(run.received.number),
        "zero_load_latency_s": run.zero_load_s,
        "sender_lag_s": run.health.sender_lag_s,
        "unplanned_drops": run.health.unplanned_drops,
        "cpu_fraction": run.health.cpu_fraction,
        **run.counters,
    }
    return {
        **document_head("emulation", plan, routing=plan.routing),
        "figures": figures,
        "events": [
            json_ready(e) | {"at_s": round(e.at_s, 6), "cable": _cable(plan, e.cable)}
            for e in run.events
        ],
        "verdict": verdict.to_json(),
    }


def _cable(plan: MetapathPlan, number: int | None) -> str | None:
    return None if number is None else plan.network.links[number].label
