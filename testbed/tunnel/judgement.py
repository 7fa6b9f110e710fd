"""What the runs of a trial measured, next to what was predicted: packets lost before and after the code, bytes on the
wire, and what programs made of it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fec.protocol.loss_report import MAX_REPORT_BYTES
from testbed.faults.fault import fault_not_in_force, fault_rows
from testbed.judgement.counts import first_impossible
from testbed.judgement.deliveries import Deliveries, packet_deliveries
from testbed.judgement.quiet_times import near_faults
from testbed.judgement.validity import MAX_UNPLANNED, dropped_reason, first_reason
from testbed.model.machine.load import TimingError, first_exceeded
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.facts.run_facts import MAX_LAG
from testbed.stream.impaired.burst_loss import share_error
from testbed.stream.impaired.delay_spread import longest_wait_s
from testbed.stream.impaired.tolerances import SIGMAS
from testbed.stream.prediction.active_faults import impaired_spans
from testbed.stream.prediction.path_delays import longest_path_delay_s
from testbed.tunnel.drawn_figures import PACKET_BYTES, DrawnFigures, Estimate
from testbed.tunnel.options import WORKLOADS
from testbed.tunnel.plan import FRAME_HEADERS_BYTES, EndLog
from testbed.tunnel.prediction import OVERHEAD_BYTES, RivalPrediction, predict_rival
from testbed.tunnel.trial import (
    ENDS_S,
    EVERY_S,
    KEY_FRAME_EVERY,
    RivalRun,
    TrialMeasurements,
    TrialPlan,
)
from testbed.tunnel.virtual_time import draw_direct_losses, draw_trial, is_impaired
from testbed.tunnel.voice_quality import PLAYOUT_S, SATISFIED_MOS, call_opinion, opinions_over_time
from topologies import Json, JsonObject
from topologies.impairments import Impairment, RateTrace

MAX_LAG_S = 0.1
# Beside propagation, a packet sent this near to a fault may be lost by it.
_GUARD_S = 0.1
_KEYS = {"mos": "mos", "identical": "frames", "ssim": "ssim"}
_HINT = "leave the machine to this run, or take fewer workloads or a lower --udp-rate"
_WAITED = "by a switch, a socket or a device that waited for a processor"
_STEP_S = 1.0
_DRAWN = "predicted by drawing the losses of the same packets in virtual time"
# Packets that the machine may lose or hold up beyond what is drawn.
_STRAY_PACKETS = 2
_MOS_GRAIN = 0.15
_REACTION = "how soon the sender tells a failure from random losses is not predicted"
# As a share of the way from a check's bound to its rival.
_NEAR_RIVAL = 0.1
# Figures of a tunnel through which no packet comes.
_NOTHING = {"mos": 1.0, "identical": 0, "ssim": 0.0}
_LOSS_TOLERANCE, _WIRE_TOLERANCE = 0.03, 0.12
"""Of a share of packets: load that is not even in time, a share of labels that is not even over so few packets; of the
bytes on the wire: late parity, and blocks that close a little sooner or later."""


def judge_trial(plan: TrialPlan, run: TrialMeasurements) -> Judgement:
    """Nothing is lost after the code where the plan says so; originals are lost, and bytes sent, as predicted; voice
    and echoes are better than over each rival that they are held against."""
    predictions = {one.rival: predict_rival(plan, one.rival) for one in run.runs}
    drawn = {one.rival: _drawn_figures(plan, one) for one in run.runs}
    rows: dict[str, JsonObject] = {}
    for one in run.runs:
        rows[one.rival] = _row(plan, one, predictions[one.rival], drawn[one.rival])
        if one.rival == "direct":
            loss = _direct_loss(plan, run)
            rows["direct"]["predicted_original_loss"] = None
            rows["direct"]["original_loss_spread"] = 0.0
            if loss is not None:
                rows["direct"]["predicted_original_loss"] = round(loss.mean, 5)
                rows["direct"]["original_loss_spread"] = loss.spread
    checks: list[Check] = []
    for one in run.runs:
        own = _checks(plan, one, predictions[one.rival], rows, drawn[one.rival])
        if one.rival == "adaptive" and plan.faults and drawn[one.rival] is not None:
            own = map(_allow_for_reaction, own)
        checks += own
    checks += [
        Check(
            name=f"{name} went over the tunnel", passed=False, unsure=True, key="missing", about=f"workload:{name}",
            detail=f"{program} is not installed: apt install {program}",
        )
        for name, program in run.missing.items()
    ]  # fmt: skip
    absent = [f"rival:{name}" for name in plan.rivals if name not in rows]
    reported: Collection[str] = plan.workloads
    for one in run.runs:
        if one.rival == "adaptive":
            reported = one.programs.keys() | run.missing
            break
    absent += [f"workload:{name}" for name in plan.workloads if name not in reported]
    checks += [
        replace(Check.unmeasured(f"{a} ran", "it did not"), key="missing", about=a) for a in absent
    ]
    invalid = first_reason(*(_overload(plan, one) for one in run.runs))
    lacking = "install " + " and ".join(sorted(set(run.missing.values()))) if run.missing else None
    verdict = Verdict(checks=tuple(checks), invalid=invalid, lacking=lacking)
    modes = [_mode(one, rows[one.rival]) for one in run.runs]
    document = _document(plan, run, modes, verdict)
    clips = {f"{one.rival}.webm": one.programs["video"]["clip"] for one in _looked_at(run)}
    stored = (_stored(run, document) | {"clips": list(clips)},)
    return Judgement(
        verdict=verdict, document=document, rows=tuple(rows.values()), stored=stored, files=clips
    )


def _looked_at(run: TrialMeasurements) -> Sequence[RivalRun]:
    """Whose picture is kept to be looked at: a rival's, without code where that ran, and then the adaptive one's."""
    found = {one.rival: one for one in run.runs if one.programs.get("video", {}).get("clip")}
    rivals = [name for name in ("none", "direct", "static") if name in found][:1]
    return [found[name] for name in (*rivals, "adaptive") if name in found]


def _overload(plan: TrialPlan, run: RivalRun) -> str | None:
    """Why a rival's run says nothing, or None: an end was late, packets lay in switches, or were dropped there (more
    than 1 in 10,000), in queues or in no planned fault. A program of the user's may fill the links on purpose."""
    waited_s, outside = _unplanned(plan, run)
    ends_s, switches_s = MAX_LAG_S, MAX_LAG * plan.tunnel.there.stream.playback_s
    if "video" in run.programs and run.source and plan.tunnel.order_s:
        # What comes later than the order waits damages a picture; late parity takes the other half of it.
        ends_s, switches_s = (min(one, plan.tunnel.order_s / 2) for one in (ends_s, switches_s))
    late = (
        TimingError("ends", "an end of the tunnel or the voice was {was} late", run.lag_s, ends_s),
        TimingError(
            "switches",
            "packets lay {was} in the switches, which hold none in theory",
            waited_s,
            switches_s,
        ),
    )
    reasons = [
        first_exceeded(late[:1], _HINT),
        dropped_reason(run.machine_drops, run.packets, _WAITED, _HINT),
        fault_not_in_force((one.fault for one in run.faults), run.faults, plan.duration_s),
        *(_miscounted(end) for end in (run.source, run.sink) if end is not None),
        *(_impossible(plan, name, found) for name, found in run.programs.items()),
    ]
    if not plan.command and not plan.only_tcp:
        if not _is_traced(plan):  # the queue of a trace is to be full at times
            reasons.append(dropped_reason(run.queue_drops, 0, "at a full queue of a link", _HINT))
        reasons += [
            first_exceeded(late, _HINT),
            dropped_reason(outside, 0, "in no planned fault", _HINT),
        ]
    return first_reason(*reasons)


def _miscounted(end: EndLog) -> str | None:
    """Why what an end counted cannot be of the packets that it logged, or None; not of a log that left some out. Each
    is sent once, and a packet of parity is no longer than the longest."""
    counts = end["counters"]
    if counts.get("rows_left_out"):
        return None
    sizes = end["offered"]["bytes"].astype(int)
    delivered = end["delivered"]
    total_bytes = int(sizes.sum())
    parity = counts.get("sent_parity", math.inf)
    reports = counts.get("reports", math.inf)
    least_bytes = total_bytes + len(sizes) * OVERHEAD_BYTES
    longest_bytes = int(sizes.max(initial=0)) + OVERHEAD_BYTES
    exact: dict[str, float] = {
        "offered": len(sizes),
        "sent_source": len(sizes),
        "offered_bytes": total_bytes,
        "delivered": len(delivered),
    }
    if "delivered" in counts:
        exact["recovered"] = int(delivered["recovered"].sum())
    exact["wire_packets"] = len(sizes) + parity
    limits: dict[str, tuple[float, float]] = {name: (count, count) for name, count in exact.items()}
    most_bytes = least_bytes + parity * longest_bytes if parity else least_bytes
    limits["wire_bytes"] = (least_bytes, most_bytes)
    limits["processor_share"] = (0, 2)
    limits["report_bytes"] = (0, 2 * reports * (MAX_REPORT_BYTES + FRAME_HEADERS_BYTES))
    wrong = first_impossible(counts, limits)
    if wrong is None:
        return None
    denied = "which the packets that it logged deny"
    return f"an end counted {wrong.name} {wrong.value:.12g}, {denied}"


def _impossible(plan: TrialPlan, workload: str, found: Json) -> str | None:
    """Why a program cannot have measured that in this time, or None."""
    lasts_s = plan.duration_s
    sent = 3 * plan.least_sent(workload) * lasts_s / (lasts_s - ENDS_S)
    most: dict[str, float | None] = {
        "sent": sent,
        "frames": sent,
        "worst_ms": 2e3 * lasts_s,
        "ssim": 1.0,
        "psnr_db": 100.0,
        "lost": found.get("sent"),
        "identical": found.get("frames"),
        "mean_ms": found.get("worst_ms"),
    }
    limits = {name: (-math.inf, limit) for name, limit in most.items() if limit is not None}
    wrong = first_impossible(found, limits)
    if wrong is None:
        return None
    return f"{workload}: {wrong.name} is {wrong.value:g}, more than there can be"


def _unplanned(plan: TrialPlan, run: RivalRun) -> tuple[float, int]:
    """How long an original was under way at most beyond the longest path's delay, and how many packets did not come of
    themselves though nothing was broken, at least. (An original that comes after its block was decoded is one that the
    code seems to have recovered.)"""
    if not (run.source and run.sink) or any(link.impairments for link in plan.network.links):
        return 0.0, 0
    offered = run.source["offered"]
    delivered = run.sink["delivered"]
    originals = _deliveries(offered, delivered[~delivered["recovered"]], "came_s")
    in_transit_s = np.abs(originals.transit_s[~originals.lost])
    # A packet that arrived before it was sent, or after it was passed on, has no valid time.
    early_s = delivered["came_s"] - delivered["at_s"]
    waited_s = float(max(in_transit_s.max(initial=0.0), early_s.max(initial=0.0)))
    propagation_s = longest_path_delay_s(plan.tunnel.there)
    before_s = _GUARD_S + propagation_s
    near = near_faults(offered["at_s"], run.faults, before_s=before_s, after_s=_GUARD_S)
    missing = int((originals.lost & ~near).sum())
    outside = missing - int(run.sink["counters"].get("unused_sources", 0))
    return waited_s - propagation_s, max(0, outside - int(MAX_UNPLANNED * len(offered)))


def _deliveries(
    offered: NDArray[np.void], delivered: NDArray[np.void], time_name: str
) -> Deliveries:
    """Return the fate of the offered packets; ``time_name``: the field with the time of arrival."""
    key = ["flow", "number", "bytes"]
    return packet_deliveries(offered[key], offered["at_s"], delivered[key], delivered[time_name])


def _directions(run: RivalRun) -> tuple[tuple[EndLog, EndLog], ...]:
    """Return the logs of the sending and of the receiving end, for each direction of a tunnel."""
    if not (run.source and run.sink):
        return ()
    return (run.source, run.sink), (run.sink, run.source)


def _drawn_figures(plan: TrialPlan, run: RivalRun) -> DrawnFigures | None:
    """Return estimates of a tunnel's figures over impaired links; None if no link is impaired.

    TCP fills every queue, so that nothing is drawn for it.
    """
    directions = _directions(run)
    if plan.only_tcp or not directions or not is_impaired(plan):
        return None
    offered = [sender["offered"] for sender, _ in directions]
    draws = draw_trial(plan, run.rival, offered)
    return DrawnFigures(draws, offered) if draws else None


def _row(
    plan: TrialPlan, run: RivalRun, prediction: RivalPrediction, drawn: DrawnFigures | None
) -> JsonObject:
    """Return the figures of one rival, those of a tunnel for both directions together."""
    row: JsonObject = {"rival": run.rival}
    directions = _directions(run)
    if directions:
        row |= _tunnel_figures(plan, run, directions, prediction, drawn)
    programs = {
        name: {k: one[k] for k in one if k not in ("clip", "moments")}
        for name, one in run.programs.items()
    }
    if voice := programs.pop("voip", None):
        delay_s = np.array(voice["delay_s"])
        programs["voip"] = {
            "sent": len(delay_s),
            "lost": int(np.isinf(delay_s).sum()),
            "late": int((np.isfinite(delay_s) & (delay_s > PLAYOUT_S)).sum()),
            "mos": round(call_opinion(~((delay_s >= 0) & (delay_s <= PLAYOUT_S))), 2),
        }
    return row | programs


def _direct_loss(plan: TrialPlan, run: TrialMeasurements) -> Estimate | None:
    """Return the share of voice packets that the direct path loses; None if it cannot be told.

    What the queue of a trace drops depends on all programs together, whose packets only the ends of a
    tunnel count.
    """
    if _loses_at_random_only(plan):
        mean = predict_rival(plan, "direct").original_loss
        return Estimate(round(mean, 5), _direct_spread(plan))
    directions = next(filter(None, map(_directions, run.runs)), None)
    if directions is None:
        return None
    offered = [sender["offered"] for sender, _ in directions]
    return Estimate.of(draw_direct_losses(plan, offered, PACKET_BYTES["voip"]))


def _direct_spread(plan: TrialPlan) -> float:
    """Return what chance makes of the share of voice packets that the direct path loses."""
    links = {index for path in plan.direct.paths for index in path.links}
    impairments: list[Impairment] = []
    for span in impaired_spans(plan.network, plan.faults):
        if span.link in links:
            impairments += span.impairments
    packets = int(plan.duration_s / EVERY_S)
    return SIGMAS * share_error(tuple(impairments), packets) if impairments else 0.0


def _tunnel_spread(plan: TrialPlan, packets: int) -> float:
    """Return what chance makes of the share of packets that the links of the tunnel lose.

    The few draws of a trial tell too little of it: the spread of five values may be far too small.
    """
    variance = 0.0
    for split in (plan.tunnel.there.forward, plan.tunnel.back.forward):
        for span in impaired_spans(plan.network, plan.faults):
            load = float(split.load(span.link))
            crossing = max(1, round(load * packets / 2))
            if load > 0:
                variance += (load / 2 * share_error(span.impairments, crossing)) ** 2
    return SIGMAS * math.sqrt(variance)


def _is_traced(plan: TrialPlan) -> bool:
    """Return whether a link has the changing rate of a trace."""
    return any(
        isinstance(impairment, RateTrace)
        for span in impaired_spans(plan.network, plan.faults)
        for impairment in span.impairments
    )


def _loses_at_random_only(plan: TrialPlan) -> bool:
    """Return whether no packet is lost in the queue of a trace, or arrives too late to be played."""
    waits_s = [
        longest_wait_s(span.impairments) for span in impaired_spans(plan.network, plan.faults)
    ]
    most_wait_s = plan.tunnel.there.stream.playback_s / 4
    return not _is_traced(plan) and max(waits_s, default=0.0) <= most_wait_s


def _tunnel_figures(
    plan: TrialPlan,
    run: RivalRun,
    directions: tuple[tuple[EndLog, EndLog], ...],
    prediction: RivalPrediction,
    drawn: DrawnFigures | None,
) -> JsonObject:
    other = predict_rival(plan, "static" if run.rival == "none" else "none")
    back_prediction = predict_rival(plan.reversed(), run.rival)
    packets = 0
    offered_bytes = 0
    lost = 0
    never_arrived = 0
    recovered = 0
    undecodable = 0
    wire_bytes = 0
    predicted_lost = 0.0
    predicted_wire_bytes = 0.0
    rival_wire_bytes = 0.0
    for (sender, receiver), predicted in zip(
        directions, (prediction, back_prediction), strict=True
    ):
        offered, counts = sender["offered"], receiver["counters"]
        missing = len(offered) - len(receiver["delivered"])
        packets += len(offered)
        offered_bytes += int(offered["bytes"].sum())
        lost += missing
        recovered += int(counts.get("recovered", 0))
        never_arrived += missing + int(counts.get("recovered", 0))
        never_arrived -= int(counts.get("unused_sources", 0))
        undecodable += int(counts.get("undecodable_blocks", 0))
        wire_bytes += int(sender["counters"]["wire_bytes"])
        predicted_lost += predicted.original_loss * len(offered)
        predicted_wire_bytes += predicted.wire_bytes(plan, offered)
        rival_wire_bytes += other.wire_bytes(plan, offered)
    original_loss = predicted_lost / packets if packets else prediction.original_loss
    most_lost = math.ceil(prediction.most_loss * packets)
    predicted_wire = predicted_wire_bytes / max(1, offered_bytes)
    ratios: JsonObject = {}
    if drawn is not None:
        if not _loses_at_random_only(plan):
            original_loss = drawn.original_loss().mean
        most_lost = math.ceil(drawn.lost().mean + drawn.lost().spread)
        if run.rival == "adaptive":
            low, high = drawn.wire_ratios()
            predicted_wire = (low + high) / 2
            ratios = {"predicted_wire_ratios": [round(low, 3), round(high, 3)]}
    return ratios | {
        "predicted_original_loss": round(original_loss, 5),
        "packets": packets,
        "lost": lost,
        "predicted_most_lost": most_lost,
        "original_loss": round(never_arrived / max(1, packets), 5),
        "recovered": recovered,
        "undecodable_blocks": undecodable,
        "wire_ratio": round(wire_bytes / max(1, offered_bytes), 3),
        "predicted_wire_ratio": round(predicted_wire, 3),
        "rival_wire_ratio": round(rival_wire_bytes / max(1, offered_bytes), 3),
        "report_bytes": directions[0][1]["counters"]["report_bytes"],
        "delay_s": _delays_s(*directions[0]),
        "processor_share": directions[0][0]["counters"]["processor_share"],
    }


def _mode(run: RivalRun, row: JsonObject) -> JsonObject:
    """Return what the document says of one mode.

    No tunnel counts the packets of the direct path: those of the programs are counted.
    """
    workloads = {name: row[name] for name in (*WORKLOADS, "command") if name in row}
    counted = [figures for figures in workloads.values() if figures.get("sent")]
    packets = row.get("packets", sum(figures["sent"] for figures in counted))
    lost = row.get("lost", sum(figures["lost"] for figures in counted))
    lost_fraction = row.get("original_loss", lost / packets if packets else None)
    spread = "predicted_wire_ratios" in row
    more = (
        "predicted_most_lost",
        "recovered",
        "undecodable_blocks",
        "report_bytes",
        "processor_share",
    )
    return {
        "mode": run.rival,
        "packets": packets,
        "lost": lost,
        "originals_lost_fraction": lost_fraction,
        "originals_lost_predicted": row["predicted_original_loss"],
        "delay_s": row.get("delay_s", {}),
        "workloads": workloads,
        "wire_ratio": row.get("wire_ratio"),
        "wire_ratio_predicted": row.get("predicted_wire_ratio"),
        **({"wire_ratios_predicted": row["predicted_wire_ratios"]} if spread else {}),
    } | {name: row[name] for name in more if name in row}


def _delays_s(source: EndLog, sink: EndLog) -> JsonObject:
    """From the program that sent a packet to the one that gets it, by percentile."""
    fates = _deliveries(source["offered"], sink["delivered"], "at_s")
    if fates.lost.all():
        return {}
    delays_s = np.percentile(fates.transit_s[~fates.lost], [50, 95, 99, 100])
    return dict(zip(("median", "p95", "p99", "worst"), np.round(delays_s, 5).tolist(), strict=True))


def _checks(
    plan: TrialPlan,
    run: RivalRun,
    prediction: RivalPrediction,
    rows: Mapping[str, JsonObject],
    drawn: DrawnFigures | None,
) -> Iterator[Check]:
    rival = run.rival
    row = rows[rival]
    about = f"rival:{rival}"
    impaired = is_impaired(plan)
    if plan.faults:
        in_force = {times.fault for times in run.faults if times.stop_s > times.start_s}
        came = Claim(f"faults that came, {rival}", "faults-came", about)
        yield came.equal(len(plan.faults), len(in_force.intersection(plan.faults))).against(
            0, "none came"
        )
    if run.source is None:
        if "voip" in row and (plan.faults or impaired):
            voice = row["voip"]
            share = voice["lost"] / max(1, voice["sent"])
            enough = voice["sent"] - plan.least_sent("voip")
            name = "voice packets lost, direct"
            yield _loss_check(name, row, share, row["original_loss_spread"], about).of(enough)
        return
    able = rival == "adaptive" and prediction.most_loss == 0
    if able:
        direct_tcp = rows.get("direct", {}).get("tcp", {})
        yield from _tcp_checks(row.get("tcp", {}), direct_tcp, prediction, about, impaired)
    if plan.only_tcp:
        return
    if impaired and drawn is None:
        yield replace(
            Check.unmeasured(
                f"packets lost after the code, {rival}",
                "so many packets over impaired links are not drawn; give a shorter --duration",
            ),
            key="lost",
            about=about,
        )
        return
    packets = row["packets"]
    enough = packets - max((plan.least_sent(name) for name in WORKLOADS if name in row), default=0)
    if plan.faults or impaired:
        name = f"packets that the network lost, {rival}"
        spread = _tunnel_spread(plan, max(1, packets))
        if drawn is not None and not _loses_at_random_only(plan):
            spread = max(spread, drawn.original_loss().spread)
        yield _loss_check(name, row, row["original_loss"], spread, about).of(enough)
    lost = _lost_check(prediction, row, rows.get("none"), drawn, about)
    if lost is not None:
        yield lost.of(enough)
    yield _wire_check(row, drawn, about).of(enough)
    if able:
        yield from _program_checks(plan, row, rows.get("none", {}), about, drawn)


def _allow_for_reaction(check: Check) -> Check:
    """Return the check as one that cannot tell, if it fails and is still better than its rival.

    How soon an adaptive sender finds out that a link has failed, while others lose packets at random,
    varies more from run to run than draws can show.
    """
    if check.outcome != "fails" or check.rival is None or check.measured is None:
        return check
    bound = check.predicted or 0.0
    towards_bound = (check.rival - check.measured) * (check.rival - bound)
    if towards_bound <= _NEAR_RIVAL * (check.rival - bound) ** 2:
        return check
    return replace(check, unsure=True, detail=f"{_REACTION}; {check.detail}")


def _lost_check(
    prediction: RivalPrediction,
    row: Json,
    uncoded: Json | None,
    drawn: DrawnFigures | None,
    about: str,
) -> Check | None:
    """Return the check of the packets lost after the code; None if nothing is claimed of them."""
    rival = row["rival"]
    packets = row["packets"]
    without = round(row["predicted_original_loss"] * packets)
    if uncoded is not None:
        without = uncoded["lost"]
    claim = Claim(f"packets lost after the code, {rival}", "lost", about)
    if drawn is not None:
        if rival == "none":
            return None
        check = claim.at_most(row["predicted_most_lost"] + _STRAY_PACKETS, row["lost"])
        return check.against(without, "no code").noting(_DRAWN)
    if prediction.most_loss == 0:
        check = claim.equal(0, row["lost"])
        most = 0.0
    elif rival == "static":
        most = row["predicted_most_lost"] + _LOSS_TOLERANCE * packets
        check = claim.at_most(most, row["lost"])
    else:
        return None
    if without > most:
        return check.against(without, "no code")
    return check.against(None, "none: no code would lose no more")


def _wire_check(row: Json, drawn: DrawnFigures | None, about: str) -> Check:
    """Return the check of the bytes on the wire.

    Over impaired links an adaptive sender may answer the same losses with few packets or with many,
    depending on which come first: then the least of the draws is claimed.
    """
    predicted = row["predicted_wire_ratio"]
    claim = Claim(f"bytes on the wire a byte of packets, {row['rival']}", "wire-bytes", about)
    check = claim.equal(predicted, row["wire_ratio"], _WIRE_TOLERANCE * predicted)
    if drawn is not None and row["rival"] == "adaptive":
        low, high = drawn.wire_ratios()
        detail = f"{_DRAWN}, {low:.2f} to {high:.2f}"
        if high - low > _WIRE_TOLERANCE * predicted:
            least = round((1 - _WIRE_TOLERANCE) * low, 3)
            check = claim.at_least(least, row["wire_ratio"])
        else:
            tolerance = high - low + _WIRE_TOLERANCE * predicted
            check = claim.equal(predicted, row["wire_ratio"], tolerance)
        check = check.noting(detail)
    code = "a code for any one cable" if row["rival"] == "none" else "no code"
    return check.against(row["rival_wire_ratio"], code)


def _loss_check(what: str, row: Json, measured: float, spread: float, about: str) -> Check:
    predicted = row["predicted_original_loss"]
    tolerance = max(_LOSS_TOLERANCE, spread)
    claim = Claim(f"share of {what}", "original-loss", about)
    if predicted is None:
        unpredicted = Check.unmeasured(
            claim.name,
            "packets of other programs share the queue of a trace, and none were counted",
        )
        return replace(unpredicted, measured=measured, key=claim.key, about=about)
    check = claim.equal(predicted, measured, tolerance)
    if predicted > min(tolerance, _LOSS_TOLERANCE):
        return check.against(0.0, "no loss")
    return check.against(None, "none: so few losses cannot be told from none")


def _tcp_checks(
    tcp: Json, direct: Json, prediction: RivalPrediction, about: str, impaired: bool
) -> Iterator[Check]:
    """TCP goes on in the longest failure, at half of the rate at least that N leaves it, and a file comes whole."""
    if "identical" in tcp.get("wget", {}):
        other = direct.get("wget", {}).get("identical")
        whole = Claim("files that wget fetched whole, adaptive", "wget", about).equal(
            1, int(tcp["wget"]["identical"])
        )
        against = (0, "one path") if other is False else (None, "none: one path brings it")
        yield whole.against(*against).of(tcp["wget"]["of_bytes"])
    if tcp.get("failures"):
        number, longest = max(enumerate(tcp["failures"]), key=lambda one: one[1]["lasts_s"])
        ran = [one for one in (tcp, direct) if "failures" in one]
        shares = [one["failures"][number]["bps"] / max(1, one["goodput_bps"]) for one in ran]
        least = prediction.block_size(0.0) / prediction.block_size(longest["start_s"]) / 2
        claim = Claim("rate of TCP in the longest failure over its mean, adaptive", "tcp", about)
        if impaired:
            why = "theory does not predict the rate of TCP over impaired links"
            unpredicted = Check.unmeasured(claim.name, why)
            yield replace(unpredicted, measured=round(shares[0], 3), key="tcp", about=about)
            return
        check = claim.at_least(round(least, 3), round(shares[0], 3))
        rival = (shares[1], "one path") if shares[1:] else (None, "none: it did not run")
        yield check.against(*rival).of(tcp["goodput_bps"])


def _program_checks(
    plan: TrialPlan,
    row: JsonObject,
    uncoded: JsonObject,
    about: str,
    drawn: DrawnFigures | None,
) -> Iterator[Check]:
    """Compare what programs make of the coded tunnel with the same without code."""
    for workload, figure, what in (
        ("voip", "mos", "mean opinion score of voice"),
        ("ping", "lost", "echoes lost"),
        ("udp", "lost", "datagrams of iperf3 lost"),
        ("video", "identical", "frames of the picture that came as they were sent"),
        ("video", "ssim", "structural similarity (SSIM) of the picture"),
    ):
        found = row.get(workload, {})
        if found.get(figure) is None:
            continue
        bound = _program_bound(workload, figure, found, drawn)
        claim = Claim(f"{what}, adaptive", _KEYS.get(figure, f"{workload}-{figure}"), about)
        if figure != "lost":
            check = claim.at_least(bound, found[figure])
        elif bound:
            check = claim.at_most(bound, found[figure])
        else:
            check = claim.equal(0, found[figure])
        rival = uncoded.get(workload, {}).get(figure)
        if rival is None or (figure == "lost" and not rival):
            check = check.against(None, "none: no loss without code, or it did not run")
        else:
            coded = check
            check = check.against(rival, "split, without code")
            if drawn is not None and coded.passed and check.unsure:
                # Theory itself says that the code changes too little here: then it must not do harm.
                nothing = found["sent"] if figure == "lost" else _NOTHING[figure]
                check = coded.against(nothing, "nothing arrives")
        if drawn is not None:
            check = check.noting(_DRAWN)
        yield check.of(
            found["frames" if workload == "video" else "sent"] - plan.least_sent(workload)
        )


def _program_bound(workload: str, figure: str, found: Json, drawn: DrawnFigures | None) -> float:
    """Return the least (of ``lost``: the most) that a program is to measure over the adaptive code."""
    frames = found.get("frames", 0)
    if drawn is None:
        return float({"mos": SATISFIED_MOS, "lost": 0, "identical": frames, "ssim": 1.0}[figure])
    if figure == "mos":
        opinion = drawn.voice_opinion()
        least = round(opinion.mean - opinion.spread - _MOS_GRAIN, 2)
        return float(max(_NOTHING["mos"], min(SATISFIED_MOS, least)))
    if figure == "lost":
        lost = drawn.lost_of(workload)
        return math.ceil(lost.mean + lost.spread) + _STRAY_PACKETS
    damaged = drawn.damaged_frames()
    # One packet more than in the draws may damage all frames up to the next key frame.
    intact = max(0, math.floor(frames - damaged.mean - damaged.spread - KEY_FRAME_EVERY))
    return float(intact if figure == "identical" else round(intact / max(1, frames), 3))


def _document(
    plan: TrialPlan, run: TrialMeasurements, modes: Sequence[JsonObject], verdict: Verdict
) -> JsonObject:
    """The object of ``testbed tunnel --json``."""
    commands = [
        mode["workloads"]["command"]["exit_code"]
        for mode in modes
        if "command" in mode["workloads"]
    ]
    return {
        "fabric": run.fabric,
        "between": [plan.source, plan.sink],
        "method": plan.tunnel.there.method,
        "mtu": plan.tunnel.mtu,
        "duration_s": plan.duration_s,
        "workloads": list(plan.workloads),
        "faults": fault_rows(plan.faults),
        "modes": list(modes),
        "summary": _summary(modes),
        "command_exit_codes": commands,
        "missing": dict(run.missing),
        "verdict": verdict.to_json(),
    }


def _summary(modes: Sequence[Json]) -> str | None:
    """Return one sentence that says what the code saved and what it cost; None without a code."""
    by_name = {mode["mode"]: mode for mode in modes}
    coded = by_name.get("adaptive") or by_name.get("static")
    if coded is None:
        return None
    rival = by_name.get("direct") or by_name.get("none")
    unit, lost, of = _losses(coded, rival)
    code = f"the {coded['mode']} code"
    low, high = coded.get("wire_ratios_predicted", [coded["wire_ratio_predicted"]] * 2)
    predicted = f"{low:.1f}"
    if f"{high:.1f}" != predicted:
        predicted += f" to {high:.1f}"
    cost = f"for {coded['wire_ratio']:.1f} times the bytes; predicted {predicted}."
    if rival is None:
        return f"With {code} {lost or 'none'} of {of} {unit} were lost, {cost}"
    name = "Direct" if rival["mode"] == "direct" else "The split without code"
    _, rival_lost, rival_of = _losses(rival, coded)
    return f"{name} lost {rival_lost} of {rival_of} {unit}, {code} {lost or 'none'}, {cost}"


def _losses(mode: Json, other: Json | None) -> tuple[str, int, int]:
    """Return what a mode lost of what its user sees: the unit, how many were lost, and of how many.

    Both modes have measured the unit.
    """
    workloads = mode["workloads"]
    common = set(workloads)
    if other is not None:
        common &= set(other["workloads"])
    if "video" in common:
        video = workloads["video"]
        return "frames", video["frames"] - video["identical"], video["frames"]
    if "voip" in common:
        voice = workloads["voip"]
        return "voice packets", voice["lost"] + voice["late"], voice["sent"]
    for name, unit in (("ping", "echoes"), ("udp", "datagrams")):
        if name in common and workloads[name].get("sent"):
            return unit, workloads[name]["lost"], workloads[name]["sent"]
    return "packets", mode["lost"], mode["packets"]


def _stored(run: TrialMeasurements, document: JsonObject) -> JsonObject:
    """What is kept: the document, and the opinion of voice and the picture's quality over time, for their figures."""
    curves: dict[str, JsonObject] = {"opinions": {}, "pictures": {}}
    for one in run.runs:
        if (voice := one.programs.get("voip", {})).get("sent_s"):
            curves["opinions"][one.rival] = opinions_over_time(
                voice["sent_s"], voice["delay_s"], _STEP_S
            )
        if picture := one.programs.get("video", {}).get("psnr_db_over_time"):
            curves["pictures"][one.rival] = picture
    curves["moments"] = {one.rival: one.programs["video"]["moments"] for one in _looked_at(run)}
    return {k: v for k, v in document.items() if k != "verdict"} | curves
