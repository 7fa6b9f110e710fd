"""What the runs of a trial measured, next to what was predicted: packets lost before and after the code, bytes on the
wire, and what programs made of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fec.protocol.loss_report import MAX_REPORT_BYTES
from testbed.arrays import IntArray
from testbed.faults.fault import fault_not_in_force, fault_rows
from testbed.model.machine.load import MAX_UNPLANNED, TimingError, dropped_reason, first_exceeded
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.judgement.timing_errors import MAX_LAG
from testbed.stream.path_delays import longest_path_delay_s
from testbed.tunnel.options import WORKLOADS
from testbed.tunnel.plan import FRAME_HEADERS_BYTES, EndLog
from testbed.tunnel.prediction import OVERHEAD_BYTES, RivalPrediction, predict_rival
from testbed.tunnel.trial import ENDS_S, RivalRun, TrialMeasurements, TrialPlan
from testbed.tunnel.voice_quality import PLAYOUT_S, SATISFIED_MOS, call_opinion, opinions_over_time
from topologies import Json, JsonObject

MAX_LAG_S, _GUARD_S = 0.1, 0.1
"""What was sent so near to a fault does not count as lost in none."""
_KEYS = {"mos": "mos", "identical": "frames", "ssim": "ssim"}
_HINT = "leave the machine to this run, or take fewer workloads or a lower --udp-rate"
_WAITED = "by a switch, a socket or a device that waited for a processor"
_STEP_S = 1.0
_LOSS_TOLERANCE, _WIRE_TOLERANCE = 0.03, 0.12
"""Of a share of packets: load that is not even in time, a share of labels that is not even over so few packets; of the
bytes on the wire: late parity, and blocks that close a little sooner or later."""


def judge_trial(plan: TrialPlan, run: TrialMeasurements) -> Judgement:
    """Nothing is lost after the code where the plan says so; originals are lost, and bytes sent, as predicted; voice
    and echoes are better than over each rival that they are held against."""
    predictions = {one.rival: predict_rival(plan, one.rival) for one in run.runs}
    rows = {one.rival: _row(plan, one, predictions[one.rival]) for one in run.runs}
    checks = [
        check for one in run.runs for check in _checks(plan, one, predictions[one.rival], rows)
    ]
    checks += [
        Check(
            name=f"{name} went over the tunnel", passed=False, unsure=True, key="missing", about=f"workload:{name}",
            detail=f"{program} is not installed: apt install {program}",
        )
        for name, program in run.missing.items()
    ]  # fmt: skip
    absent = [f"rival:{name}" for name in plan.rivals if name not in rows]
    own = next(
        (one.programs.keys() | run.missing for one in run.runs if one.rival == "adaptive"),
        plan.workloads,
    )
    absent += [f"workload:{name}" for name in plan.workloads if name not in own]
    checks += [
        replace(Check.unmeasured(f"{a} ran", "it did not"), key="missing", about=a) for a in absent
    ]
    invalid = next(filter(None, (_overload(plan, one) for one in run.runs)), None)
    lacking = "install " + " and ".join(sorted(set(run.missing.values()))) if run.missing else None
    verdict = Verdict(checks=tuple(checks), invalid=invalid, lacking=lacking)
    modes = [_mode(plan, one, rows[one.rival], predictions[one.rival]) for one in run.runs]
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
        reasons += [
            first_exceeded(late, _HINT),
            dropped_reason(run.queue_drops, 0, "at a full queue of a link", _HINT),
            dropped_reason(outside, 0, "in no planned fault", _HINT),
        ]
    return next(filter(None, reasons), None)


def _miscounted(end: EndLog) -> str | None:
    """Why what an end counted cannot be of the packets that it logged, or None; not of a log that left some out. Each
    is sent once, and a packet of parity is no longer than the longest."""
    counts, sizes, delivered = (
        end["counters"],
        end["offered"]["bytes"].astype(int),
        end["delivered"],
    )
    octets, parity, reports = (
        int(sizes.sum()),
        counts.get("sent_parity", math.inf),
        counts.get("reports", math.inf),
    )
    least, longest = (
        octets + len(sizes) * OVERHEAD_BYTES,
        int(sizes.max(initial=0)) + OVERHEAD_BYTES,
    )
    exact = {
        "offered": len(sizes),
        "sent_source": len(sizes),
        "offered_bytes": octets,
        "delivered": len(delivered),
    }
    exact |= {"recovered": int(delivered["recovered"].sum())} if "delivered" in counts else {}
    limits = {
        name: (count, count)
        for name, count in (exact | {"wire_packets": len(sizes) + parity}).items()
    }
    limits |= {
        "wire_bytes": (least, least + parity * longest if parity else least),
        "processor_share": (0, 2),
    }
    limits["report_bytes"] = (0, 2 * reports * (MAX_REPORT_BYTES + FRAME_HEADERS_BYTES))
    wrong = (
        name for name, (low, high) in limits.items() if not low <= counts.get(name, low) <= high
    )
    name = None if counts.get("rows_left_out") else next(wrong, None)
    return (
        None
        if name is None
        else f"an end counted {name} {counts[name]:.12g}, which the packets that it logged deny"
    )


def _impossible(plan: TrialPlan, workload: str, found: Json) -> str | None:
    """Why a program cannot have measured that in this time, or None."""
    parts = {"lost": "sent", "identical": "frames", "mean_ms": "worst_ms"}
    lasts_s = plan.duration_s
    sent = 3 * plan.least_sent(workload) * lasts_s / (lasts_s - ENDS_S)
    limits: JsonObject = {
        "sent": sent,
        "frames": sent,
        "worst_ms": 2e3 * lasts_s,
        "ssim": 1.0,
        "psnr_db": 100.0,
    }
    limits |= {name: found.get(whole) for name, whole in parts.items()}
    wrong = (
        name
        for name, most in limits.items()
        if None not in (most, found.get(name)) and found[name] > most
    )
    return next(
        (f"{workload}: {name} is {found[name]:g}, more than there can be" for name in wrong), None
    )


def _unplanned(plan: TrialPlan, run: RivalRun) -> tuple[float, int]:
    """How long an original was under way at most beyond the longest path's delay, and how many packets did not come of
    themselves though nothing was broken, at least. (An original that comes after its block was decoded is one that the
    code seems to have recovered.)"""
    if not (run.source and run.sink) or any(link.impairments for link in plan.network.links):
        return 0.0, 0
    sent, came, at, place = _matched(run.source, run.sink)
    own = ~came["recovered"][place]
    under_way_s = (came["came_s"][place] - sent["at_s"][at])[own]
    early_s = (
        came["came_s"] - came["at_s"]
    )  # what is handed on before it came, or came before it was sent, has no time
    waited_s = float(max(np.abs(under_way_s).max(initial=0.0), early_s.max(initial=0.0)))
    missing = np.ones(len(sent), dtype=np.bool_)
    missing[at[own]] = False
    for one in run.faults:
        missing &= (sent["at_s"] < one.start_s - _GUARD_S) | (sent["at_s"] > one.stop_s + _GUARD_S)
    outside = int(missing.sum()) - int(run.sink["counters"].get("unused_sources", 0))
    return waited_s - longest_path_delay_s(plan.tunnel.there), max(
        0, outside - int(MAX_UNPLANNED * len(sent))
    )


def _matched(
    source: EndLog, sink: EndLog
) -> tuple[NDArray[np.void], NDArray[np.void], IntArray, IntArray]:
    """Packets offered at the source and delivered at the sink, and the places in either of those that came as they
    were."""
    sent, came, names = source["offered"], sink["delivered"], ["flow", "number", "bytes"]
    _, at, place = np.intersect1d(sent[names], came[names], return_indices=True)
    return sent, came, at, place


def _row(plan: TrialPlan, run: RivalRun, prediction: RivalPrediction) -> JsonObject:
    """The figures of one rival."""
    row: JsonObject = {
        "rival": run.rival,
        "predicted_original_loss": round(prediction.original_loss, 5),
    }
    if run.source and run.sink:
        sent, counts, came = run.source["offered"], run.source["counters"], run.sink["counters"]
        offered, lost = len(sent), len(sent) - len(run.sink["delivered"])
        never = lost + came["recovered"] - came.get("unused_sources", 0)
        offered_bytes = max(1, int(sent["bytes"].sum()))
        other = predict_rival(plan, "static" if run.rival == "none" else "none")
        row |= {
            "packets": offered,
            "lost": lost,
            "predicted_most_lost": math.ceil(prediction.most_loss * offered),
            "original_loss": round(never / max(1, offered), 5),
            "recovered": came["recovered"],
            "undecodable_blocks": came.get("undecodable_blocks", 0),
            "wire_ratio": round(counts["wire_bytes"] / offered_bytes, 3),
            "predicted_wire_ratio": round(
                float(prediction.wire_bytes(plan, sent)) / offered_bytes, 3
            ),
            "rival_wire_ratio": round(float(other.wire_bytes(plan, sent)) / offered_bytes, 3),
            "report_bytes": came["report_bytes"],
            "delay_s": _delays_s(run.source, run.sink),
            "processor_share": counts["processor_share"],
        }
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


def _mode(
    plan: TrialPlan, run: RivalRun, row: JsonObject, prediction: RivalPrediction
) -> JsonObject:
    """What the document says of one mode: packets and bytes of both directions together; of the direct path, which no
    tunnel counts, those of the programs."""
    workloads = {name: row[name] for name in (*WORKLOADS, "command") if name in row}
    found: JsonObject = {"mode": run.rival}
    if not (run.source and run.sink):
        counted = [one for one in workloads.values() if one.get("sent")]
        packets, lost = (sum(one[name] for one in counted) for name in ("sent", "lost"))
        found |= {
            "packets": packets,
            "lost": lost,
            "originals_lost_fraction": lost / packets if packets else None,
        }
        ratios: tuple[float | None, float | None] = (None, None)
    else:
        ends = run.source, run.sink
        directions = [(a["offered"], b["delivered"]) for a, b in (ends, reversed(ends))]
        packets = sum(len(sent) for sent, _ in directions)
        lost = packets - sum(len(came) for _, came in directions)
        offered_bytes = max(1, sum(int(sent["bytes"].sum()) for sent, _ in directions))
        predicted = sum(float(prediction.wire_bytes(plan, sent)) for sent, _ in directions)
        wire_bytes = sum(end["counters"]["wire_bytes"] for end in ends)
        ratios = round(wire_bytes / offered_bytes, 3), round(predicted / offered_bytes, 3)
        found |= {"packets": packets, "lost": lost, "originals_lost_fraction": row["original_loss"]}
    more = (
        "predicted_most_lost",
        "recovered",
        "undecodable_blocks",
        "report_bytes",
        "processor_share",
    )
    return (
        found
        | {
            "originals_lost_predicted": row["predicted_original_loss"],
            "delay_s": row.get("delay_s", {}),
        }
        | {"workloads": workloads, "wire_ratio": ratios[0], "wire_ratio_predicted": ratios[1]}
        | {name: row[name] for name in more if name in row}
    )


def _delays_s(source: EndLog, sink: EndLog) -> JsonObject:
    """From the program that sent a packet to the one that gets it, by percentile."""
    sent, came, at, place = _matched(source, sink)
    if not len(at):
        return {}
    found = np.percentile(came["at_s"][place] - sent["at_s"][at], [50, 95, 99, 100])
    return dict(zip(("median", "p95", "p99", "worst"), np.round(found, 5).tolist(), strict=True))


def _checks(
    plan: TrialPlan, run: RivalRun, prediction: RivalPrediction, rows: Mapping[str, JsonObject]
) -> Iterator[Check]:
    row, about, rival = rows[run.rival], f"rival:{run.rival}", run.rival
    if plan.faults:
        in_force = {times.fault for times in run.faults if times.stop_s > times.start_s}
        came = Claim(f"faults that came, {rival}", "faults-came", about)
        yield came.equal(len(plan.faults), len(in_force.intersection(plan.faults))).against(
            0, "none came"
        )
    if run.source is None:
        if plan.faults and "voip" in row:
            voice = row["voip"]
            share, enough = (
                voice["lost"] / max(1, voice["sent"]),
                voice["sent"] - plan.least_sent("voip"),
            )
            yield _loss_check("voice packets lost, direct", prediction, share, about).of(enough)
        return
    if rival == "adaptive" and prediction.most_loss == 0:
        yield from _tcp_checks(
            row.get("tcp", {}), rows.get("direct", {}).get("tcp", {}), prediction, about
        )
    if plan.only_tcp:
        return
    packets = row["packets"]
    enough = packets - max((plan.least_sent(name) for name in WORKLOADS if name in row), default=0)
    if plan.faults:
        words = f"packets that the network lost, {rival}"
        yield _loss_check(words, prediction, row["original_loss"], about).of(enough)
    if prediction.most_loss == 0 or rival == "static":
        most = row["predicted_most_lost"] + _LOSS_TOLERANCE * packets if prediction.most_loss else 0
        without = (
            rows["none"]["lost"] if "none" in rows else round(prediction.original_loss * packets)
        )
        claim = Claim(f"packets lost after the code, {rival}", "lost", about)
        check = (claim.at_most if most else claim.equal)(most, row["lost"])
        against = (
            (without, "no code") if without > most else (None, "none: no code would lose no more")
        )
        yield check.against(*against).of(enough)
    coded, other = row["predicted_wire_ratio"], row["rival_wire_ratio"]
    wire = Claim(f"bytes on the wire a byte of packets, {rival}", "wire-bytes", about)
    check = wire.equal(coded, row["wire_ratio"], _WIRE_TOLERANCE * coded)
    yield check.against(other, "a code for any one cable" if rival == "none" else "no code").of(
        enough
    )
    if rival == "adaptive" and prediction.most_loss == 0:
        yield from _program_checks(plan, row, rows.get("none", {}), about)


def _loss_check(what: str, prediction: RivalPrediction, measured: float, about: str) -> Check:
    predicted, claim = prediction.original_loss, Claim(f"share of {what}", "original-loss", about)
    check = claim.equal(predicted, measured, _LOSS_TOLERANCE)
    return check.against(0.0 if predicted > _LOSS_TOLERANCE else None, "no failure")


def _tcp_checks(
    tcp: Json, direct: Json, prediction: RivalPrediction, about: str
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
        check = claim.at_least(round(least, 3), round(shares[0], 3))
        rival = (shares[1], "one path") if shares[1:] else (None, "none: it did not run")
        yield check.against(*rival).of(tcp["goodput_bps"])


def _program_checks(
    plan: TrialPlan, row: JsonObject, uncoded: JsonObject, about: str
) -> Iterator[Check]:
    """What programs make of the coded tunnel, held against the same without code."""
    frames = row.get("video", {}).get("frames")
    for workload, figure, what, least in (
        ("voip", "mos", "mean opinion score of voice", SATISFIED_MOS),
        ("ping", "lost", "echoes lost", 0),
        ("udp", "lost", "datagrams of iperf3 lost", 0),
        ("video", "identical", "frames of the picture that came as they were sent", frames),
        ("video", "ssim", "structural similarity (SSIM) of the picture", 1.0),
    ):
        found = row.get(workload, {})
        if found.get(figure) is None:
            continue
        claim = Claim(f"{what}, adaptive", _KEYS.get(figure, f"{workload}-{figure}"), about)
        check = (claim.equal if figure == "lost" else claim.at_least)(least, found[figure])
        rival = uncoded.get(workload, {}).get(figure)
        if rival is None or (figure == "lost" and not rival):
            check = check.against(None, "none: no loss without code, or it did not run")
        else:
            check = check.against(rival, "split, without code")
        yield check.of(
            found["frames" if workload == "video" else "sent"] - plan.least_sent(workload)
        )


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
        "command_exit_codes": commands,
        "missing": dict(run.missing),
        "verdict": verdict.to_json(),
    }


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
