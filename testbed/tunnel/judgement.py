"""Compares the measurements of a trial with its predictions.

The figures are the packets lost before and after the code, the bytes on the wire, and the results
of the programs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fec.protocol.loss_report import MAX_REPORT_BYTES
from testbed.faults.fault import fault_not_in_force, fault_rows
from testbed.judgement.counts import first_impossible
from testbed.judgement.validity import dropped_reason, first_reason
from testbed.model.machine.load import TimingError, first_exceeded
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.facts.run_facts import MAX_LAG
from testbed.tunnel.drawn_figures import DrawnFigures
from testbed.tunnel.facts import (
    RivalFacts,
    TrialFacts,
    is_traced,
    loses_at_random_only,
    tunnel_spread,
)
from testbed.tunnel.options import WORKLOADS
from testbed.tunnel.plan import FRAME_HEADERS_BYTES, EndLog
from testbed.tunnel.prediction import OVERHEAD_BYTES, RivalPrediction
from testbed.tunnel.trial import (
    ENDS_S,
    KEY_FRAME_EVERY,
    RivalRun,
    TrialMeasurements,
    TrialPlan,
)
from testbed.tunnel.virtual_time import is_impaired
from testbed.tunnel.voice_quality import SATISFIED_MOS, opinions_over_time
from topologies import Json, JsonObject

MAX_LAG_S = 0.1
# Keys of the checks of programs, by figure; the key of a loss also names the workload.
_KEYS = {"mos": "mos", "identical": "frames", "ssim": "ssim"}
_HINT = "leave the machine to this run, or take fewer workloads or a lower --udp-rate"
_WAITED = "by a switch, a socket or a device that waited for a processor"
# Interval of the curves of voice quality.
_STEP_S = 1.0
_DRAWN = "predicted by drawing the losses of the same packets in virtual time"
# Number of packets that the machine may lose or delay in addition to the drawn losses.
_STRAY_PACKETS = 2
# Granularity of the opinion score of a short call: a few more or fewer lost packets.
_MOS_GRAIN = 0.15
_REACTION = "how soon the sender tells a failure from random losses is not predicted"
# A figure is near that of the rival within this share of the difference between bound and rival.
_NEAR_RIVAL = 0.1
# Figures of a tunnel that delivers no packet.
_NOTHING = {"mos": 1.0, "identical": 0, "ssim": 0.0}
# Tolerance of a share of lost packets: the load is uneven over time, and so are labels over few
# packets.
_LOSS_TOLERANCE = 0.03
# Relative tolerance of the bytes on the wire: late parity, and blocks that are closed earlier or
# later.
_WIRE_TOLERANCE = 0.12


def judge_trial(plan: TrialPlan, run: TrialMeasurements) -> Judgement:
    """Compare the measurements of a trial with its predictions.

    The checks claim for each rival that the network lost, and the ends sent, as much as predicted.
    For the adaptive code they also claim that nothing is lost after the code if the plan predicts
    it, and that programs get better results than over the rival they are compared with.
    """
    facts = TrialFacts(plan, run)
    verdict = _verdict(facts)
    document = _document(facts, verdict)
    clips = {}
    for rival_run in _runs_with_stored_clip(run):
        clips[f"{rival_run.rival}.webm"] = rival_run.programs["video"]["clip"]
    stored = (_stored(run, document) | {"clips": list(clips)},)
    rows = tuple(facts.rows.values())
    return Judgement(verdict=verdict, document=document, rows=rows, stored=stored, files=clips)


def _verdict(facts: TrialFacts) -> Verdict:
    checks: list[Check] = []
    for rival in facts.rivals:
        checks_of_rival = _checks(rival, facts.rows)
        adaptive = rival.run.rival == "adaptive"
        if adaptive and facts.plan.faults and rival.drawn is not None:
            checks += map(_allow_for_reaction, checks_of_rival)
        else:
            checks += checks_of_rival
    checks += _checks_of_missing_results(facts)
    lacking = None
    if facts.run.missing:
        lacking = "install " + " and ".join(sorted(set(facts.run.missing.values())))
    return Verdict(
        checks=tuple(checks),
        invalid=first_reason(*map(_overload, facts.rivals)),
        lacking=lacking,
    )


def _checks_of_missing_results(facts: TrialFacts) -> Iterator[Check]:
    """Yield an undecided check for each program that is not installed, and each absent result."""
    for name, program in facts.run.missing.items():
        yield Check(
            name=f"{name} went over the tunnel",
            passed=False,
            unsure=True,
            key="missing",
            about=f"workload:{name}",
            detail=f"{program} is not installed: apt install {program}",
        )
    for about in facts.absent:
        yield replace(Check.unmeasured(f"{about} ran", "it did not"), key="missing", about=about)


def _runs_with_stored_clip(run: TrialMeasurements) -> Sequence[RivalRun]:
    """Return the runs whose received picture is stored: one rival's, and the adaptive one's.

    The rival is the split without code if it received a picture.
    """
    runs_with_clip = {}
    for rival_run in run.runs:
        if rival_run.programs.get("video", {}).get("clip"):
            runs_with_clip[rival_run.rival] = rival_run
    stored = []
    for rival in ("none", "direct", "static"):
        if rival in runs_with_clip:
            stored.append(runs_with_clip[rival])
            break
    if "adaptive" in runs_with_clip:
        stored.append(runs_with_clip["adaptive"])
    return stored


def _overload(facts: RivalFacts) -> str | None:
    """Return why a rival's run is invalid, or None.

    A run is invalid if an end was late, if packets waited in switches, or if they were dropped at
    switches (more than 1 in 10,000), in queues or outside all faults. A program of the user may
    fill the links on purpose, so the queues are not checked then.
    """
    plan = facts.plan
    run = facts.run
    max_ends_s = MAX_LAG_S
    max_switches_s = MAX_LAG * plan.tunnel.there.stream.playback_s
    if "video" in run.programs and run.source and plan.tunnel.order_s:
        # A packet that arrives when the order no longer waits for it damages the picture. The
        # machine may use half of that time; late parity needs the other half.
        max_ends_s = min(max_ends_s, plan.tunnel.order_s / 2)
        max_switches_s = min(max_switches_s, plan.tunnel.order_s / 2)
    late_ends = TimingError(
        "ends", "an end of the tunnel or the voice was {was} late", run.lag_s, max_ends_s
    )
    late_switches = TimingError(
        "switches",
        "packets lay {was} in the switches, which hold none in theory",
        facts.waited_s,
        max_switches_s,
    )
    reasons = [
        first_exceeded((late_ends,), _HINT),
        dropped_reason(run.machine_drops, run.packets, _WAITED, _HINT),
        fault_not_in_force((times.fault for times in run.faults), run.faults, plan.duration_s),
    ]
    for end in (run.source, run.sink):
        if end is not None:
            reasons.append(_miscounted(end))
    for name, figures in run.programs.items():
        reasons.append(_impossible(plan, name, figures))
    if not plan.command and not plan.only_tcp:
        # The queue of a rate trace is full at times by design.
        if not is_traced(plan):
            reasons.append(dropped_reason(run.queue_drops, 0, "at a full queue of a link", _HINT))
        reasons.append(first_exceeded((late_ends, late_switches), _HINT))
        reasons.append(dropped_reason(facts.lost_outside, 0, "in no planned fault", _HINT))
    return first_reason(*reasons)


def _miscounted(end: EndLog) -> str | None:
    """Return which counter contradicts the packets that an end logged, or None.

    Each offered packet is sent once, and a parity packet is at most as long as the longest of them.
    Incomplete logs are not checked.
    """
    counts = end["counters"]
    if counts.get("rows_left_out"):
        return None
    sizes = end["offered"]["bytes"].astype(int)
    delivered = end["delivered"]
    total_bytes = int(sizes.sum())
    parity = counts.get("sent_parity", math.inf)
    reports = counts.get("reports", math.inf)
    min_bytes = total_bytes + len(sizes) * OVERHEAD_BYTES
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
    # The number of parity packets may be infinite, and infinity times 0 is no number.
    max_bytes: float = min_bytes
    if parity:
        max_bytes += parity * longest_bytes
    limits["wire_bytes"] = (min_bytes, max_bytes)
    limits["processor_share"] = (0, 2)
    limits["report_bytes"] = (0, 2 * reports * (MAX_REPORT_BYTES + FRAME_HEADERS_BYTES))
    wrong = first_impossible(counts, limits)
    if wrong is None:
        return None
    denied = "which the packets that it logged deny"
    return f"an end counted {wrong.name} {wrong.value:.12g}, {denied}"


def _impossible(plan: TrialPlan, workload: str, figures: Json) -> str | None:
    """Return which figure of a program is impossible in the duration of the run, or None."""
    duration_s = plan.duration_s
    # One and a half times the number that the workload should send in the run.
    max_sent = 3 * plan.least_sent(workload) * duration_s / (duration_s - ENDS_S)
    maxima: dict[str, float | None] = {
        "sent": max_sent,
        "frames": max_sent,
        "worst_ms": 2e3 * duration_s,
        "ssim": 1.0,
        "psnr_db": 100.0,
        "lost": figures.get("sent"),
        "identical": figures.get("frames"),
        "mean_ms": figures.get("worst_ms"),
    }
    limits = {name: (-math.inf, limit) for name, limit in maxima.items() if limit is not None}
    wrong = first_impossible(figures, limits)
    if wrong is None:
        return None
    return f"{workload}: {wrong.name} is {wrong.value:g}, more than there can be"


def _mode(run: RivalRun, row: JsonObject) -> JsonObject:
    """Return the figures of one mode for the document.

    The direct path has no tunnel that counts packets, so the counts of its programs are added up.
    """
    workloads = {name: row[name] for name in (*WORKLOADS, "command") if name in row}
    counted = [figures for figures in workloads.values() if figures.get("sent")]
    packets = row.get("packets", sum(figures["sent"] for figures in counted))
    lost = row.get("lost", sum(figures["lost"] for figures in counted))
    lost_fraction = row.get("original_loss")
    if lost_fraction is None and packets:
        lost_fraction = lost / packets
    mode: JsonObject = {
        "mode": run.rival,
        "packets": packets,
        "lost": lost,
        "originals_lost_fraction": lost_fraction,
        "originals_lost_predicted": row["predicted_original_loss"],
        "delay_s": row.get("delay_s", {}),
        "workloads": workloads,
        "wire_ratio": row.get("wire_ratio"),
        "wire_ratio_predicted": row.get("predicted_wire_ratio"),
    }
    if "predicted_wire_ratios" in row:
        mode["wire_ratios_predicted"] = row["predicted_wire_ratios"]
    for name in (
        "predicted_most_lost",
        "recovered",
        "undecodable_blocks",
        "report_bytes",
        "processor_share",
    ):
        if name in row:
            mode[name] = row[name]
    return mode


def _checks(facts: RivalFacts, rows: Mapping[str, JsonObject]) -> Iterator[Check]:
    """Yield the checks of one rival's run.

    Args:
        facts: The facts of this rival.
        rows: The figures of all rivals.
    """
    plan = facts.plan
    rival = facts.run.rival
    drawn = facts.drawn
    row = rows[rival]
    about = f"rival:{rival}"
    impaired = is_impaired(plan)
    if plan.faults:
        claim = Claim(f"faults that came, {rival}", "faults-came", about)
        check = claim.equal(len(plan.faults), facts.active_faults)
        yield check.against(0, "none came")
    if facts.run.source is None:
        if "voip" in row and (plan.faults or impaired):
            yield _direct_loss_check(plan, row, about)
        return
    tolerates_faults = rival == "adaptive" and facts.prediction.most_loss == 0
    if tolerates_faults:
        direct_tcp = rows.get("direct", {}).get("tcp", {})
        yield from _tcp_checks(row.get("tcp", {}), direct_tcp, facts.prediction, about, impaired)
    if plan.only_tcp:
        return
    if impaired and drawn is None:
        unpredicted = Check.unmeasured(
            f"packets lost after the code, {rival}",
            "so many packets over impaired links are not drawn; give a shorter --duration",
        )
        yield replace(unpredicted, key="lost", about=about)
        return
    spare = facts.spare_packets
    if plan.faults or impaired:
        spread = tunnel_spread(plan, max(1, row["packets"]))
        if drawn is not None and not loses_at_random_only(plan):
            spread = max(spread, drawn.original_loss().spread)
        figure = f"packets that the network lost, {rival}"
        yield _loss_check(figure, row, row["original_loss"], spread, about).of(spare)
    lost = _lost_check(facts.prediction, row, rows.get("none"), drawn, about)
    if lost is not None:
        yield lost.of(spare)
    yield _wire_check(row, drawn, about).of(spare)
    if tolerates_faults:
        yield from _program_checks(plan, row, rows.get("none", {}), about, drawn)


def _direct_loss_check(plan: TrialPlan, row: JsonObject, about: str) -> Check:
    """Return the check of the voice packets that the direct path lost."""
    voice = row["voip"]
    share = voice["lost"] / max(1, voice["sent"])
    check = _loss_check(
        "voice packets lost, direct", row, share, row["original_loss_spread"], about
    )
    return check.of(voice["sent"] - plan.least_sent("voip"))


def _allow_for_reaction(check: Check) -> Check:
    """Return the check as undecided, if it fails but is still better than its rival.

    While links lose packets at random, the time that an adaptive sender needs to detect a link
    failure varies more from run to run than the draws show.
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
    """Return the check of the packets lost after the code; None if there is no prediction.

    Args:
        prediction: The prediction for this rival.
        row: The figures of this rival.
        uncoded: The figures of the split without code, if it ran.
        drawn: Estimates over impaired links; None without impairments.
        about: The subject of the check.
    """
    rival = row["rival"]
    packets = row["packets"]
    lost_without_code = round(row["predicted_original_loss"] * packets)
    if uncoded is not None:
        lost_without_code = uncoded["lost"]
    claim = Claim(f"packets lost after the code, {rival}", "lost", about)
    if drawn is not None:
        if rival == "none":
            return None
        check = claim.at_most(row["predicted_most_lost"] + _STRAY_PACKETS, row["lost"])
        return check.against(lost_without_code, "no code").noting(_DRAWN)
    if prediction.most_loss == 0:
        check = claim.equal(0, row["lost"])
        max_lost = 0.0
    elif rival == "static":
        max_lost = row["predicted_most_lost"] + _LOSS_TOLERANCE * packets
        check = claim.at_most(max_lost, row["lost"])
    else:
        return None
    if lost_without_code > max_lost:
        return check.against(lost_without_code, "no code")
    return check.against(None, "none: no code would lose no more")


def _wire_check(row: Json, drawn: DrawnFigures | None, about: str) -> Check:
    """Return the check of the bytes on the wire.

    Over impaired links, an adaptive sender may answer the same losses with few or with many
    packets, depending on the order of the losses. If the draws differ much, only their minimum is
    claimed.
    """
    predicted = row["predicted_wire_ratio"]
    claim = Claim(f"bytes on the wire a byte of packets, {row['rival']}", "wire-bytes", about)
    check = claim.equal(predicted, row["wire_ratio"], _WIRE_TOLERANCE * predicted)
    if drawn is not None and row["rival"] == "adaptive":
        low, high = drawn.wire_ratios()
        detail = f"{_DRAWN}, {low:.2f} to {high:.2f}"
        if high - low > _WIRE_TOLERANCE * predicted:
            min_ratio = round((1 - _WIRE_TOLERANCE) * low, 3)
            check = claim.at_least(min_ratio, row["wire_ratio"])
        else:
            tolerance = high - low + _WIRE_TOLERANCE * predicted
            check = claim.equal(predicted, row["wire_ratio"], tolerance)
        check = check.noting(detail)
    code = "no code"
    if row["rival"] == "none":
        code = "a code for any one cable"
    return check.against(row["rival_wire_ratio"], code)


def _loss_check(figure: str, row: Json, measured: float, spread: float, about: str) -> Check:
    """Return the check of a share of lost packets.

    Args:
        figure: The name of the figure.
        row: The figures of the rival, with the predicted share.
        measured: The measured share.
        spread: How far one run may lie from the prediction by chance.
        about: The subject of the check.
    """
    predicted = row["predicted_original_loss"]
    tolerance = max(_LOSS_TOLERANCE, spread)
    claim = Claim(f"share of {figure}", "original-loss", about)
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
    """Yield the checks of TCP over the adaptive tunnel.

    A file is fetched completely. In the longest failure TCP continues with at least half of the
    rate that the larger block size N leaves it.

    Args:
        tcp: The figures of TCP over the tunnel.
        direct: The figures of TCP over the direct path, if it ran.
        prediction: The prediction for the adaptive rival.
        about: The subject of the checks.
        impaired: Whether packets meet impairments.
    """
    if "identical" in tcp.get("wget", {}):
        claim = Claim("files that wget fetched whole, adaptive", "wget", about)
        check = claim.equal(1, int(tcp["wget"]["identical"]))
        if direct.get("wget", {}).get("identical") is False:
            check = check.against(0, "one path")
        else:
            check = check.against(None, "none: one path brings it")
        yield check.of(tcp["wget"]["of_bytes"])
    if not tcp.get("failures"):
        return
    durations_s = [failure["lasts_s"] for failure in tcp["failures"]]
    index = durations_s.index(max(durations_s))
    share = _share_of_rate(tcp, index)
    claim = Claim("rate of TCP in the longest failure over its mean, adaptive", "tcp", about)
    if impaired:
        reason = "theory does not predict the rate of TCP over impaired links"
        unpredicted = Check.unmeasured(claim.name, reason)
        yield replace(unpredicted, measured=round(share, 3), key="tcp", about=about)
        return
    block_size = prediction.block_size(tcp["failures"][index]["start_s"])
    min_share = prediction.block_size(0.0) / block_size / 2
    check = claim.at_least(round(min_share, 3), round(share, 3))
    if "failures" in direct:
        check = check.against(_share_of_rate(direct, index), "one path")
    else:
        check = check.against(None, "none: it did not run")
    yield check.of(tcp["goodput_bps"])


def _share_of_rate(tcp: Json, index: int) -> float:
    """Return the rate of TCP in one failure over its mean rate."""
    rate_bps: float = tcp["failures"][index]["bps"]
    goodput_bps: float = max(1, tcp["goodput_bps"])
    return rate_bps / goodput_bps


def _program_checks(
    plan: TrialPlan,
    row: JsonObject,
    uncoded: JsonObject,
    about: str,
    drawn: DrawnFigures | None,
) -> Iterator[Check]:
    """Yield checks that compare programs over the adaptive tunnel with the split without code.

    Args:
        plan: The trial.
        row: The figures of the adaptive tunnel.
        uncoded: The figures of the split without code; empty if it did not run.
        about: The subject of the checks.
        drawn: Estimates over impaired links; None without impairments.
    """
    for workload, figure, description in (
        ("voip", "mos", "mean opinion score of voice"),
        ("ping", "lost", "echoes lost"),
        ("udp", "lost", "datagrams of iperf3 lost"),
        ("video", "identical", "frames of the picture that came as they were sent"),
        ("video", "ssim", "structural similarity (SSIM) of the picture"),
    ):
        results = row.get(workload, {})
        if results.get(figure) is None:
            continue
        bound = _program_bound(workload, figure, results, drawn)
        key = _KEYS.get(figure, f"{workload}-{figure}")
        claim = Claim(f"{description}, adaptive", key, about)
        if figure != "lost":
            check = claim.at_least(bound, results[figure])
        elif bound:
            check = claim.at_most(bound, results[figure])
        else:
            check = claim.equal(0, results[figure])
        rival = uncoded.get(workload, {}).get(figure)
        if rival is None or (figure == "lost" and not rival):
            check = check.against(None, "none: no loss without code, or it did not run")
        else:
            coded = check
            check = check.against(rival, "split, without code")
            if drawn is not None and coded.passed and check.unsure:
                # The code changes too little here to be told from no code, as theory predicts. It
                # must still be better than a tunnel that delivers nothing.
                if figure == "lost":
                    worst = results["sent"]
                else:
                    worst = _NOTHING[figure]
                check = coded.against(worst, "nothing arrives")
        if drawn is not None:
            check = check.noting(_DRAWN)
        if workload == "video":
            sent = results["frames"]
        else:
            sent = results["sent"]
        yield check.of(sent - plan.least_sent(workload))


def _program_bound(workload: str, figure: str, results: Json, drawn: DrawnFigures | None) -> float:
    """Return the minimum of a program's figure over the adaptive code; for ``lost`` the maximum."""
    frames = results.get("frames", 0)
    if drawn is None:
        return float({"mos": SATISFIED_MOS, "lost": 0, "identical": frames, "ssim": 1.0}[figure])
    if figure == "mos":
        opinion = drawn.voice_opinion()
        min_mos = round(opinion.mean - opinion.spread - _MOS_GRAIN, 2)
        return float(max(_NOTHING["mos"], min(SATISFIED_MOS, min_mos)))
    if figure == "lost":
        lost = drawn.lost_of(workload)
        return math.ceil(lost.mean + lost.spread) + _STRAY_PACKETS
    damaged = drawn.damaged_frames()
    # One more lost packet than in the draws may damage all frames up to the next key frame.
    intact = max(0, math.floor(frames - damaged.mean - damaged.spread - KEY_FRAME_EVERY))
    if figure == "identical":
        return float(intact)
    return float(round(intact / max(1, frames), 3))


def _document(facts: TrialFacts, verdict: Verdict) -> JsonObject:
    """Return the object of ``testbed tunnel --json``."""
    plan = facts.plan
    modes = [_mode(rival.run, facts.rows[rival.run.rival]) for rival in facts.rivals]
    exit_codes = []
    for mode in modes:
        if "command" in mode["workloads"]:
            exit_codes.append(mode["workloads"]["command"]["exit_code"])
    return {
        "fabric": facts.run.fabric,
        "between": [plan.source, plan.sink],
        "method": plan.tunnel.there.method,
        "mtu": plan.tunnel.mtu,
        "duration_s": plan.duration_s,
        "workloads": list(plan.workloads),
        "faults": fault_rows(plan.faults),
        "modes": modes,
        "summary": _summary(modes),
        "command_exit_codes": exit_codes,
        "missing": dict(facts.run.missing),
        "verdict": verdict.to_json(),
    }


def _summary(modes: Sequence[Json]) -> str | None:
    """Return a sentence on the benefit and the cost of the code; None if no coded tunnel ran."""
    by_name = {mode["mode"]: mode for mode in modes}
    coded = by_name.get("adaptive") or by_name.get("static")
    if coded is None:
        return None
    rival = by_name.get("direct") or by_name.get("none")
    unit, lost, total = _losses(coded, rival)
    code = f"the {coded['mode']} code"
    low, high = coded.get("wire_ratios_predicted", [coded["wire_ratio_predicted"]] * 2)
    predicted = f"{low:.1f}"
    if f"{high:.1f}" != predicted:
        predicted += f" to {high:.1f}"
    cost = f"for {coded['wire_ratio']:.1f} times the bytes; predicted {predicted}."
    if rival is None:
        return f"With {code} {lost or 'none'} of {total} {unit} were lost, {cost}"
    name = "The split without code"
    if rival["mode"] == "direct":
        name = "Direct"
    _, rival_lost, rival_total = _losses(rival, coded)
    return f"{name} lost {rival_lost} of {rival_total} {unit}, {code} {lost or 'none'}, {cost}"


def _losses(mode: Json, other: Json | None) -> tuple[str, int, int]:
    """Return the losses of a mode in the unit that users notice most.

    Args:
        mode: The figures of the mode.
        other: The figures of the mode that it is compared with, which must have measured the same
            unit; or None.

    Returns:
        The unit, the number lost and the number sent.
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
    """Return the stored row: the document, and the quality of voice and picture over time."""
    opinions: JsonObject = {}
    pictures: JsonObject = {}
    for rival_run in run.runs:
        voice = rival_run.programs.get("voip", {})
        if voice.get("sent_s"):
            opinions[rival_run.rival] = opinions_over_time(
                voice["sent_s"], voice["delay_s"], _STEP_S
            )
        psnr_curve = rival_run.programs.get("video", {}).get("psnr_db_over_time")
        if psnr_curve:
            pictures[rival_run.rival] = psnr_curve
    moments = {}
    for rival_run in _runs_with_stored_clip(run):
        moments[rival_run.rival] = rival_run.programs["video"]["moments"]
    row = {key: value for key, value in document.items() if key != "verdict"}
    return row | {"opinions": opinions, "pictures": pictures, "moments": moments}
