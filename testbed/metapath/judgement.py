"""Judges an uncoded stream under failures, with FT-DRB, one path or a recomputed route."""

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
from testbed.metapath.labelled_paths import cable_number, cables_of
from testbed.metapath.plan import AFTER_END_S, SLACK_S, MetapathPlan, MetapathRun
from testbed.metapath.source import CALIBRATING
from testbed.model.json_values import json_ready, prefix_errors
from testbed.model.label_split import LABELS
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

# Maximum loss between a link failure and the escape, as a time of the stream. If packets are
# further apart, one packet may be lost.
MAX_LOST_S = 0.05
# Maximum delay of the sender behind its schedule.
MAX_LAG_S = 0.1
# Maximum difference of the clocks by which a packet may arrive before it was sent.
MAX_AHEAD_S = 0.005
# Latest arrival of a packet after the end of the stream.
MAX_AFTER_S = 1.0
# Minimum shares of the planned packets and reports in a valid run.
MIN_SENT = 0.9
MIN_REPORTS = 0.6
# Tolerance of the zero-load latency. A source that misses a report calibrates with other packets.
MAX_OFF_LOAD = 0.25
# The source of a valid run is notified of a cable (n), may mark it (m), and clears it (c), in this
# order.
_CABLE_EVENTS = re.compile("(nm?c)*(nm?)?")


@prefix_errors("the stream's measurements cannot be those of its plan", kinds=IMPOSSIBLE)
def judge_metapaths(plan: MetapathPlan, run: MetapathRun) -> Judgement:
    """Judge a run by the checks of every fault.

    The run is invalid if the machine was too slow or lost packets itself. There is one row per
    fault; stored rows also have its timeline.
    """
    facts = MetapathFacts(plan, run)
    verdict = Verdict(
        checks=tuple(_checks(facts)),
        invalid=_invalid(facts),
        notes=run.health.notes,
    )
    rows = []
    stored = []
    for outcome in facts.faults:
        end_s = min(outcome.stop_s + AFTER_S, plan.duration_s)
        timeline = fault_timeline(facts.deliveries, outcome.start_s, end_s)
        rows.append(json_ready(outcome))
        stored.append({"routing": plan.routing, **rows[-1], "timeline": timeline})
    document = _document(facts, verdict) | {"per_fault": rows}
    return Judgement(verdict=verdict, document=document, rows=tuple(rows), stored=tuple(stored))


def _checks(facts: MetapathFacts) -> Iterator[Check]:
    """Yield the checks of every fault, and those of the complete run."""
    plan = facts.plan
    run = facts.run
    names = names_of_faults(plan.faults, run.faults)
    for about, times, outcome in zip(names, run.faults, facts.faults, strict=True):
        if plan.routing == "ft-drb":
            checks = ft_drb_checks(plan, outcome, times, episode_of(times, run.faults))
        else:
            checks = _checks_of_fixed_split(facts, outcome, times.fault.link)
        for check in checks:
            yield replace(check, about=about).of(outcome.sent)
    outside = Claim("packets lost outside faults", "lost-outside").equal(0, facts.lost_outside)
    yield outside.of(facts.sent_outside)
    if plan.routing == "ft-drb":
        yield _reported(facts).of(facts.sent_outside)


def _checks_of_fixed_split(
    facts: MetapathFacts,
    outcome: FaultOutcome,
    link: LinkId,
) -> list[Check]:
    """Return the checks of a fault if the source does not react: one path, or recomputed routes."""
    plan = facts.plan
    share_check = _share_check(plan, outcome, link)
    if lost_share(plan, link) >= 1:
        arrived_outside = facts.sent_outside - facts.lost_outside
        share_check = share_check.of(arrived_outside, "nothing arrived outside faults either")
    if plan.routing == "recomputed" and outcome.kind == "down":
        return [share_check, _no_more(outcome)]
    return [share_check]


def _reported(facts: MetapathFacts) -> Check:
    """Return the check of the cables that were reported as failed, but had not failed.

    Escaped packets and the controller report cables.
    """
    network = facts.plan.network
    run = facts.run
    cables = [cable_number(network, link.id) for link in network.links]
    failures = []
    for times in run.faults:
        if times.fault.kind == "down":
            failures.append((cables[network.link_index[times.fault.link]], times))
    wrong: set[int | None] = set()
    for index in np.unique(run.received.dead_link):
        if index >= len(cables):
            # A label may contain any number; None stands for a link that does not exist.
            wrong.add(None)
        elif index >= 0:
            wrong.add(cables[index])
    wrong -= {cable for cable, _ in failures}
    for event in run.events:
        if event.kind not in ("notified", "marked") or event.cause == "silence":
            continue
        failed = False
        for cable, times in failures:
            begun = times.start_s - UNDER_WAY_S <= event.at_s
            if cable == event.cable and begun and event.at_s < times.stop_s + AFTER_S:
                failed = True
        if not failed:
            wrong.add(event.cable)
    claim = Claim("cables reported as failed that were not cut", "wrongly-reported")
    return claim.count(0, len(wrong))


def ft_drb_checks(
    plan: MetapathPlan,
    outcome: FaultOutcome,
    times: FaultTimes,
    episode: Sequence[FaultTimes] = (),
) -> list[Check]:
    """Return the checks of a fault under FT-DRB.

    Packets may be lost only until the escape, or until the source detects the silence. Afterwards
    none is lost, and packets return to the minimal path after the repair.

    Args:
        plan: The stream.
        outcome: The effect of the fault.
        times: When the fault was active.
        episode: The faults that it overlaps with, itself included; may be empty if there are none.
            The return is checked for the fault on the minimal path that ends last.
    """
    overlapped = len(episode) > 1
    on_path = _on_minimal_path(plan, times.fault.link)
    fault = f"{outcome.link} {outcome.kind}"
    if not on_path and not overlapped:
        name = f"packets lost, {fault}, off the path"
        return [_at_most("lost", name, 0, outcome.lost, "packets")]
    if outcome.kind == "down":
        name = f"packets lost until the escape, {outcome.link} down"
        limit_s = max(MAX_LOST_S, 1 / plan.rate_pps)
        first = _at_most("lost", name, limit_s, outcome.lost_s, "s of the stream")
    else:
        name = f"silence found, {fault}"
        detection_s = plan.found_s(outcome.kind)
        detail = f"s; {detection_s:.3f} s by its parameters"
        limit_s = detection_s + SLACK_S
        first = _at_most("silence-found", name, limit_s, outcome.reconfigured_s, detail)
    if not overlapped:
        first = first.of(outcome.lost + outcome.escaped, "no packet met the failure")
    checks = [first, _no_more(outcome)]
    if not overlapped and outcome.reconfigured_s is not None:
        if outcome.marked_by is None or not outcome.detected_s:
            checks[0] = replace(first, passed=False, detail="the cable was never marked")
        checks.append(_probes_check(plan, outcome, outcome.reconfigured_s))
    if on_path and not times.fault.permanent and not _path_fails_later(plan, times, episode):
        name = f"return to the minimal path, {fault}"
        detail = f"s; a probe every {plan.options.probe_every / plan.rate_pps:g} s"
        limit_s = plan.return_s + SLACK_S
        checks.append(_at_most("returned", name, limit_s, outcome.returned_s, detail))
    return checks


def _probes_check(plan: MetapathPlan, outcome: FaultOutcome, reconfigured_s: float) -> Check:
    """Return the check that only probes are sent over the failed cable after the reaction."""
    duration_s = min(outcome.stop_s, plan.duration_s) - outcome.start_s
    avoided_s = max(0.0, duration_s - reconfigured_s)
    # One probe may be in transit, and one more is due to rounding.
    limit = avoided_s * plan.rate_pps / plan.options.probe_every + 2
    name = f"packets sent over it after reconfiguring, {outcome.link} {outcome.kind}"
    return _at_most("kept-off", name, limit, outcome.probes, "packets, of which each is a probe")


def _path_fails_later(
    plan: MetapathPlan,
    times: FaultTimes,
    episode: Sequence[FaultTimes],
) -> bool:
    """Return whether another fault of the episode keeps the minimal path down for longer."""
    for other in episode:
        if other.stop_s > times.stop_s and _on_minimal_path(plan, other.fault.link):
            return True
    return False


def _at_most(key: str, name: str, limit: float, measured: float | None, detail: str) -> Check:
    """Return a check that passes if the measured value exists and is within the limit."""
    return Check(
        name=name,
        key=key,
        measured=measured,
        tolerance=limit,
        passed=measured is not None and measured <= limit,
        detail=f"at most {limit:.4g} {detail}",
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
    """Return the check that a fault loses the share of labels on its link, until the reaction."""
    share = lost_share(plan, link)
    duration_s = min(outcome.stop_s, plan.duration_s) - outcome.start_s
    rerouted = plan.routing == "recomputed" and outcome.reconfigured_s is not None
    if rerouted and outcome.reconfigured_s is not None:
        duration_s = outcome.reconfigured_s
    expected = share * duration_s * plan.rate_pps
    tolerance = share * plan.rate_pps * UNDER_WAY_S / 2 + 3
    if rerouted:
        # The first switch may use its new rules before it confirms them.
        tolerance += expected / 2
    detail = f"{100 * share:.1f} % of the labels cross the link for {duration_s:.3f} s"
    claim = Claim(f"packets lost, {outcome.link} {outcome.kind}", "lost")
    check = claim.equal(round(expected, 1), outcome.lost, round(tolerance, 1))
    return check.noting(detail)


def lost_share(plan: MetapathPlan, link: LinkId) -> float:
    """Return the share of the stream that a failed cable loses until the routing reacts."""
    network = plan.network
    indices = {network.link_index[link]}
    if reverse_of(link) in network.link_index:
        indices.add(network.link_index[reverse_of(link)])
    if plan.routing == "recomputed":
        _, forward, _ = splits_of(network, plan.source, plan.sink)
        lost_labels = 0
        for path in forward.paths:
            if indices & set(path.links):
                lost_labels += path.stop - path.start
        return lost_labels / LABELS
    from testbed.routing import route_by_name

    loads = route_by_name(network, plan.source, plan.sink, "single").loads
    return max(float(loads[index]) for index in indices)


def _on_minimal_path(plan: MetapathPlan, link: LinkId) -> bool:
    """Return whether the link's cable is on the minimal path."""
    minimal = static_routing(plan.network)(plan.source, plan.sink)
    return cable_number(plan.network, link) in cables_of(plan.network, minimal)


def _invalid(facts: MetapathFacts) -> str | None:
    """Return why the run is invalid, or None."""
    plan = facts.plan
    run = facts.run
    if not facts.messages:
        return NOTHING_SENT
    description = "the sender lagged {was} behind its schedule"
    lag = TimingError("sender", description, run.health.sender_lag_s, MAX_LAG_S)
    messages = facts.deliveries
    transit_s = messages.arrived_s - messages.sent_s
    # A slow machine does not lose every packet: a check fails if all packets are lost.
    lost = facts.lost_outside
    if lost == facts.sent_outside:
        lost = 0
    loss_reason = None
    if not plan.background_bps:
        # Background TCP may fill queues, so that packets are lost outside faults.
        loss_reason = lost_in_no_fault(lost, facts.messages)
    reason = first_reason(
        first_exceeded((lag,), LOWER_PACKET_RATE),
        _too_few(facts),
        fault_not_in_force(plan.faults, run.faults, plan.duration_s),
        _unexpected_packets(facts),
        arrived_early(transit_s[~messages.lost], 5, MAX_AHEAD_S),
        loss_reason,
        dropped_reason(run.health.unplanned_drops, facts.messages, "at a full socket"),
    )
    return reason or _contradicted(facts)


def _too_few(facts: MetapathFacts) -> str | None:
    planned = int(facts.plan.duration_s * facts.plan.rate_pps)
    if facts.messages >= MIN_SENT * planned:
        return None
    return f"{facts.messages} of {planned} packets were sent"


def _unexpected_packets(facts: MetapathFacts) -> str | None:
    run = facts.run
    in_time = run.received.time_s <= facts.plan.duration_s + MAX_AFTER_S
    numbers = run.received.number[in_time]
    expected = np.intersect1d(numbers, np.arange(len(run.sent.path)))
    unexpected = len(run.received.number) - len(expected)
    if not unexpected:
        return None
    return f"{unexpected} packets arrived twice, were not sent, or arrived after the end"


def _contradicted(facts: MetapathFacts) -> str | None:
    """Return the first contradiction between the measurements, or None."""
    plan = facts.plan
    run = facts.run
    sent_reports = run.counters.get("reports")
    figures = {"zero_load_s": run.zero_load_s, **vars(run.health), **run.counters}
    negative = negative_count(figures)
    if negative is not None:
        return negative
    planned = (plan.duration_s + AFTER_END_S) / plan.report_s
    if sent_reports and not MIN_REPORTS * planned <= sent_reports <= planned + 2:
        return f"{sent_reports} of {planned:.0f} reports were sent"
    zero_load_reason = _wrong_zero_load(run)
    if zero_load_reason is not None:
        return zero_load_reason
    end_s = plan.duration_s + MAX_AFTER_S
    if not _events_in_order(run, end_s):
        return "what the source says that it learned and did cannot be so in this order"
    for change in run.rerouted:
        if not change.notified_s <= change.routed_s <= change.done_s <= end_s:
            return "what was rerouted cannot be so in this order"
    return _path_not_in_use(plan, run)


def _wrong_zero_load(run: MetapathRun) -> str | None:
    """Return a reason if the source's zero-load latency is not that of the first packets."""
    received = run.received
    on_minimal_path = (received.dead_link < 0) & (run.sent.path[received.number] == 0)
    median_s = 0.0
    if on_minimal_path.any():
        latency_s = received.time_s - run.sent.time_s[received.number]
        median_s = float(np.median(latency_s[on_minimal_path][:CALIBRATING]))
    if run.zero_load_s and abs(median_s / run.zero_load_s - 1) > MAX_OFF_LOAD:
        return (
            f"the zero-load latency is {run.zero_load_s:.2g} s, and the first packets took "
            f"{median_s:.2g} s"
        )
    return None


def _events_in_order(run: MetapathRun, end_s: float) -> bool:
    """Return whether the source can have learned and done this in this order.

    It is configured when it marks a cable, or clears one that was marked.
    """
    times_s = [0.0, *(event.at_s for event in run.events), end_s]
    if times_s != sorted(times_s):
        return False
    times_by_kind: dict[str, set[float]] = {"marked": set(), "configured": set(), "cleared": set()}
    kinds_by_cable: dict[int, str] = {}
    for event in run.events:
        times_by_kind.setdefault(event.kind, set()).add(event.at_s)
        if event.cable is not None:
            kinds = kinds_by_cable.get(event.cable, "")
            kinds_by_cable[event.cable] = kinds + event.kind[0]
    marked = times_by_kind["marked"]
    configured = times_by_kind["configured"]
    if not marked <= configured or not configured <= marked | times_by_kind["cleared"]:
        return False
    return all(_CABLE_EVENTS.fullmatch(kinds) for kinds in kinds_by_cable.values())


def _path_not_in_use(plan: MetapathPlan, run: MetapathRun) -> str | None:
    """Return a reason if packets were sent over a path that was not in use.

    Probes of the minimal path are sent at any time.
    """
    since_s = [0.0]
    paths_in_use: list[tuple[int, ...]] = [()]
    for event in run.events:
        if event.paths:
            since_s.append(event.at_s)
            paths_in_use.append(event.paths)
    periods = np.searchsorted(since_s, run.sent.time_s, side="right") - 1
    used = set(zip(periods.tolist(), run.sent.path.tolist(), strict=True))
    for period, path in sorted(used):
        if period == 0 and plan.options.always:
            # The first metapath is not an event.
            continue
        if path not in (0, *paths_in_use[period]):
            return (
                f"packets were sent over path {path} which was not in use since "
                f"{since_s[period]:.3f} s"
            )
    return None


def _document(facts: MetapathFacts, verdict: Verdict) -> JsonObject:
    """Return the document of one run, without its faults."""
    plan = facts.plan
    run = facts.run
    events = []
    for event in run.events:
        times = {"at_s": round(event.at_s, 6), "cable": _cable_label(plan, event.cable)}
        events.append(json_ready(event) | times)
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
        "events": events,
        "verdict": verdict.to_json(),
    }


def _cable_label(plan: MetapathPlan, number: int | None) -> str | None:
    if number is None:
        return None
    return plan.network.links[number].label
