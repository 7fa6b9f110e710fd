"""Compares FT-DRB on switches with one path, a recomputed capillary route and one with FEC.

On an emulated 4x4 torus a link of the path loses its carrier, drops all packets while the carrier
stays (blackhole), or is congested by TCP. The controller recomputes the capillary route after the
fault. With FEC, the route does not change.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from testbed.arrays import FloatArray
from testbed.faults.fault import Fault, FaultKind
from testbed.metapath.analysis import MessageDeliveries, fault_timeline, latency_of, path_shares
from testbed.metapath.judgement import MAX_LOST_S
from testbed.metapath.options import MetapathOptions
from testbed.metapath.plan import BACKGROUND_AFTER_S, SLACK_S, MetapathRun
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    sum_of,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import How, Judgement
from topologies.network import label_of

# The minimal path has two links. The capillary route puts a quarter of its labels on each of four
# paths.
NETWORK = "torus:4x4"
SOURCE = "s0_0"
SINK = "s2_0"

# The link that fails: the second one of the minimal path.
LINK = ("s1_0", "s2_0", 0)

RATE_PPS = 1000.0

# Seconds before the fault, duration of the fault, and seconds after it.
WARM_UP_S = 0.8
FAULT_S = 1.0
AFTER_S = 0.7
RUN_S = WARM_UP_S + FAULT_S + AFTER_S

# A message that is sent so shortly before or after the fault may meet it.
MARGIN_S = 0.05

# Messages at the end of a run count only if they are sent this long before the end.
END_S = 0.4

CODED = "capillary+fec"
NAMES = {
    "ft-drb": "FT-DRB",
    "ft-drb, header": "FT-DRB, header flag alone",
    "recomputed": "capillary, recomputed",
    CODED: "capillary + FEC",
    "single": "one path",
}
CROWDED = {
    "single": "one path",
    "ft-drb, always": "FT-DRB, metapaths always",
    "ft-drb, four paths": "FT-DRB, four paths open",
}

# Rate of the TCP traffic, which is twice the link's, and its duration.
CROWD_BPS = 20e6
CROWD_S = 3.0

# Latency beside TCP is measured from this moment on, when TCP has filled the queues.
CROWDED_AFTER_S = BACKGROUND_AFTER_S + 1.0

# An invalid run is repeated at most so often.
_MAX_REPEATS = 2


def points(quick: bool, seed: int) -> Points:
    """Return every routing under both faults, and three beside TCP.

    Each is run five times (``quick``: once).
    """
    cases = []
    for kind in ("down", "blackhole"):
        for routing in NAMES:
            # No switch notices a silent blackhole, so none sets the header flag.
            if (kind, routing) != ("blackhole", "ft-drb, header"):
                cases.append((kind, routing))
    for routing in CROWDED:
        cases.append(("crowded", routing))
    result: Points = []
    for repeat in range(1 if quick else 5):
        for kind, routing in cases:
            result.append(
                {"kind": kind, "routing": routing, "repeat": repeat, "seed": seed + repeat}
            )
    return result


def measure(point: Row) -> Results:
    """Measure one run on its own network; repeat it if the machine could not keep up."""
    if point["kind"] == "crowded":
        return _measure_crowded(point)
    if point["routing"] == CODED:
        return _measure_coded(point)
    return _measure_uncoded(point)


def _fault(kind: FaultKind) -> Fault:
    return Fault(link=LINK, kind=kind, start_s=WARM_UP_S, stop_s=WARM_UP_S + FAULT_S)


def _measure_uncoded(point: Row) -> Results:
    """Measure a stream without a code during a fault."""
    routing = point["routing"]
    notify = "both"
    if routing == "ft-drb, header":
        routing = "ft-drb"
        notify = "header"
    run, judged = _run_metapath(
        point,
        options={"notify": notify},
        routing=routing,
        faults=(_fault(point["kind"]),),
        duration_s=RUN_S,
    )
    (stored,) = judged.stored
    row = dict(stored)
    # The row has the routing and the kind of the point.
    del row["routing"]
    del row["kind"]
    messages = judged.document["figures"]["packets_sent"]
    row["datagrams_a_message"] = len(run.sent.time_s) / messages
    row["invalid"] = judged.verdict.invalid or _wrong_reports(judged) or None
    return row


def _wrong_reports(judged: Judgement) -> str:
    """Return the names of the failed checks of links that were wrongly reported."""
    names = []
    for check in judged.verdict.checks:
        if check.key == "wrongly-reported" and not check.passed:
            names.append(check.name)
    return ", ".join(names)


def _run_metapath(point: Row, *, options: Row, **settings: Any) -> tuple[MetapathRun, Judgement]:
    """Run a stream on switches, and judge it; repeat it if the machine could not keep up.

    Args:
        point: The point, for its seed.
        options: The options of FT-DRB.
        **settings: The other arguments of ``metapath_plan``.
    """
    from testbed.metapath.workload import METAPATH, metapath_plan

    plan = metapath_plan(
        NETWORK,
        SOURCE,
        SINK,
        rate_pps=RATE_PPS,
        options=MetapathOptions(**options),
        seed=point["seed"],
        **settings,
    )
    return METAPATH.judged(plan, How(fabric="emulation"), repeats=_MAX_REPEATS)


def _measure_crowded(point: Row) -> Results:
    """Measure a stream beside TCP."""
    options: Row = {"always": True}
    if point["routing"] == "ft-drb, four paths":
        options = {"always": True, "first_paths": 4, "threshold": 0.3, "tolerance": 0.9}
    run, judged = _run_metapath(
        point,
        options=options,
        routing="single" if point["routing"] == "single" else "ft-drb",
        duration_s=BACKGROUND_AFTER_S + CROWD_S,
        background_bps=CROWD_BPS,
        faults="none",
    )
    sent_s = run.sent.time_s
    latency_ms = 1e3 * (run.deliveries.arrived_s - sent_s)
    counts = judged.document["figures"]
    return {
        "sent": counts["packets_sent"],
        "lost": counts["packets_lost_outside_faults"],
        "latency_before_ms": latency_of(latency_ms[sent_s < BACKGROUND_AFTER_S]),
        "latency_during_ms": latency_of(latency_ms[sent_s >= CROWDED_AFTER_S]),
        "paths": path_shares(run, CROWDED_AFTER_S),
        "tcp_bytes": run.counters.get("background_carried_bytes"),
        "invalid": judged.verdict.invalid,
    }


def _measure_coded(point: Row) -> Results:
    """Measure a coded stream during a fault."""
    from testbed.metapath.coded_deliveries import coded_deliveries
    from testbed.stream.fabric import open_fabric
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import stream_plan

    plan = stream_plan(
        NETWORK,
        SOURCE,
        SINK,
        faults=(_fault(point["kind"]),),
        duration_s=RUN_S,
        seed=point["seed"],
    )
    session = run_and_judge(plan, open_fabric("emulation"), repeats_if_invalid=_MAX_REPEATS)
    (result,) = session.analysis.faults
    deliveries = coded_deliveries(plan, session.run)
    row = _coded_row(deliveries, result.start_s, result.stop_s, session.run.sent.time_s)
    row["link"] = result.link
    row["port_status_s"] = None
    if result.port_status_s is not None:
        row["port_status_s"] = result.port_status_s - result.start_s
    row["reconfigured_s"] = result.reaction_s
    row["invalid"] = session.verdict.invalid
    return row


def _coded_row(
    deliveries: MessageDeliveries, start_s: float, stop_s: float, datagrams_s: FloatArray
) -> Results:
    """Return the fields of the row of an uncoded stream, computed for decoded messages.

    Args:
        deliveries: When messages were sent and decoded.
        start_s: When the fault began.
        stop_s: When it ended.
        datagrams_s: When each datagram was sent.
    """
    end_s = stop_s + AFTER_S - END_S
    latency_ms = deliveries.latency_ms
    before = deliveries.sent_s < start_s - MARGIN_S
    may_meet_fault = deliveries.sent_in(start_s - MARGIN_S, stop_s + MARGIN_S)
    after = deliveries.sent_in(stop_s + MARGIN_S, end_s)
    sent = int(deliveries.sent_in(start_s, stop_s).sum())
    lost = int((deliveries.lost & may_meet_fault).sum())
    datagrams = ((datagrams_s >= start_s) & (datagrams_s < stop_s)).sum()
    return {
        "start_s": start_s,
        "stop_s": stop_s,
        "sent": sent,
        "lost": lost,
        "lost_s": lost / RATE_PPS,
        "latency_before_ms": latency_of(latency_ms[before]),
        "latency_during_ms": latency_of(latency_ms[may_meet_fault]),
        "latency_after_ms": latency_of(latency_ms[after]),
        "timeline": fault_timeline(deliveries, start_s, end_s),
        "datagrams_a_message": float(datagrams) / max(1, sent),
    }


def judge(rows: Rows) -> Verdict:
    """Check each claim over all repetitions.

    The worst run must satisfy a bound. Comparisons are of medians.
    """
    checks = [
        *_ft_drb_checks(rows),
        *_alternative_checks(rows),
        *_comparisons(rows),
        *_crowded_checks(rows),
    ]
    reasons = [{"invalid": _impossible(row)} for row in rows]
    return verdict_of([*rows, *reasons], checks)


def _impossible(row: Row) -> str | None:
    """Return what in a run is impossible (a result, or the failed link), or None."""
    problems = []
    for key, limit in _limits(row).items():
        figure = np.max(row.get(key) or 0)
        if figure > 1.1 * limit:
            problems.append(f"{key} is {figure:g}")
    link = row.get("link", label_of(LINK))
    if link != label_of(LINK):
        problems.append(f"{link} failed")
    if problems:
        return f"{row['routing']}, {row['kind']}: {problems[0]}"
    return None


def _limits(row: Row) -> dict[str, float]:
    """Return the largest possible value of each bounded result of a row."""
    limits: dict[str, float] = {}
    if row["kind"] != "crowded":
        packets = FAULT_S * RATE_PPS
        limits.update(dict.fromkeys(("sent", "lost", "escaped"), packets))
        durations = ("lost_s", "port_status_s", "reconfigured_s", "returned_s")
        limits.update(dict.fromkeys(durations, FAULT_S))
        limits["datagrams_a_message"] = 2.0
    for key in row:
        if key.startswith("latency"):
            limits[key] = 1e3 * FAULT_S
    return limits


def _runs_of(rows: Rows, routing: str, kind: str) -> list[Row]:
    return where(rows, routing=routing, kind=kind)


def _ft_drb_checks(rows: Rows) -> list[Check]:
    """Return the checks of FT-DRB under both faults."""
    without_escape_s = min(row["lost_s"] for row in _runs_of(rows, "single", "down"))
    return [
        *_escape_checks(rows, "ft-drb", without_escape_s),
        *_escape_checks(rows, "ft-drb, header", without_escape_s),
        *_report_checks(rows),
    ]


def _escape_checks(rows: Rows, routing: str, without_escape_s: float) -> list[Check]:
    """Check that packets in front of a failed link are sent over another path.

    Args:
        rows: All rows.
        routing: The variant of FT-DRB.
        without_escape_s: Seconds of packets lost on one path, on which nothing escapes.
    """
    lost_s = []
    without_escape = 0
    for row in _runs_of(rows, routing, "down"):
        lost_s.append(row["lost_s"])
        reported = row["port_status_s"] is not None and row["marked_by"] is not None
        if not reported or row["escaped"] <= 0:
            without_escape += 1
    name = NAMES[routing]
    return [
        _at_most(
            f"cut: s of packets lost until the escape, {name}",
            MAX_LOST_S,
            lost_s,
            without_escape_s,
            "on one path",
        ),
        _none(f"cut: runs without an escape, {name}", without_escape),
    ]


def _report_checks(rows: Rows) -> list[Check]:
    """Check when FT-DRB notices a silent blackhole, and when it returns to its path."""
    silent = _runs_of(rows, "ft-drb", "blackhole")
    reported_otherwise = 0
    for row in silent:
        if row["marked_by"] != "silence" or row["port_status_s"] is not None:
            reported_otherwise += 1
    all_runs = [
        *silent,
        *_runs_of(rows, "ft-drb", "down"),
        *_runs_of(rows, "ft-drb, header", "down"),
    ]
    return [
        _at_most(
            "silent blackhole: s until missing ACKs tell",
            0.075 + SLACK_S,
            [row["reconfigured_s"] for row in silent],
            FAULT_S,
            "nothing tells while the fault lasts",
        ),
        _none("silent blackhole: runs in which anything but silence reported", reported_otherwise),
        _none("packets lost after the source reconfigured", sum_of(all_runs, "lost_after_reroute")),
        _at_most(
            "s until the stream is back on its path",
            0.12 + SLACK_S,
            [row["returned_s"] for row in all_runs],
            AFTER_S,
            "never, in the rest of the run",
        ),
    ]


def _alternative_checks(rows: Rows) -> list[Check]:
    """Return the checks of one path, of the code and of the recomputed route."""
    checks = []
    for kind in ("down", "blackhole"):
        lost = max(row["lost"] for row in _runs_of(rows, CODED, kind))
        checks += [
            Claim(f"{kind}: share lost on one path")
            .equal(1.0, min(_lost_fractions(rows, "single", kind)), 0.02)
            .against(0.25, "a quarter of the labels, as on four paths"),
            _none(f"{kind}: messages not decoded in time, {NAMES[CODED]}", lost),
        ]
    checks.append(
        Claim("blackhole: share lost by the recomputed route, which is never told")
        .equal(0.25, max(_lost_fractions(rows, "recomputed", "blackhole")), 0.02)
        .against(0.0, "it is told")
    )
    return checks


def _lost_fractions(rows: Rows, routing: str, kind: str) -> list[float]:
    return [row["lost"] / row["sent"] for row in _runs_of(rows, routing, kind)]


def _comparisons(rows: Rows) -> list[Check]:
    """Return the checks in which FT-DRB must be better than another routing."""
    return [
        _compare_medians(rows, "s to reconfigure", "recomputed", "reconfigured_s"),
        _compare_medians(rows, "packets lost", "recomputed", "lost"),
        _compare_medians(rows, "95th percentile of latency in ms", CODED, "latency_during_ms"),
        _compare_medians(rows, "datagrams a message", CODED, "datagrams_a_message"),
    ]


def _compare_medians(rows: Rows, description: str, routing: str, key: str) -> Check:
    """Check that FT-DRB's median under a cut is less than that of another routing.

    Args:
        rows: All rows.
        description: Description of the field.
        routing: The other routing.
        key: Name of the field. For latencies, the 95th percentile is compared.
    """
    other_name = "FEC" if routing == CODED else "the recomputed route"
    return _less(
        f"cut: {description}, FT-DRB against {other_name}",
        _median_under_cut(rows, "ft-drb", key),
        _median_under_cut(rows, routing, key),
    )


def _median_under_cut(rows: Rows, routing: str, key: str) -> float | None:
    """Return the median of a field under a link failure, or None if a run has no value."""
    values = [row[key] for row in _runs_of(rows, routing, "down")]
    if key == "latency_during_ms":
        values = [percentile_95 for _, percentile_95 in values]
    return None if None in values else median(values)


def _crowded_checks(rows: Rows) -> list[Check]:
    """Return the checks of streams beside TCP."""
    four_paths = _runs_of(rows, "ft-drb, four paths", "crowded")
    differences: list[float | None] = []
    differences_if_equal = []
    without_four = 0
    for row in four_paths:
        for path in row["paths"]:
            differences.append(abs(path["share"] - path["predicted_share"]))
            differences_if_equal.append(abs(0.25 - path["predicted_share"]))
        if len(row["paths"]) != 4:
            without_four += 1
    latency_ms = {name: _median_latency_ms(rows, name) for name in CROWDED}
    return [
        _at_most(
            "crowded: a path's share off its share of the bandwidth (equation 3.8)",
            0.08,
            differences or [None],
            max(differences_if_equal, default=None),
            "equal shares",
        ),
        _none("crowded: runs that do not keep four paths open", without_four),
        _less(
            "crowded: 95th percentile of latency in ms, FT-DRB against one path",
            latency_ms["ft-drb, always"],
            latency_ms["single"],
        ),
    ]


def _median_latency_ms(rows: Rows, routing: str) -> float:
    """Return the median of the runs' 95th percentiles of latency beside TCP."""
    runs = _runs_of(rows, routing, "crowded")
    latency_ms: float = median(row["latency_during_ms"][1] for row in runs)
    return latency_ms


def _at_most(
    name: str, limit: float, measured: Sequence[float | None], rival: float | None, rival_is: str
) -> Check:
    """Check that the largest value is at most a limit.

    Args:
        name: What is compared.
        limit: The limit.
        measured: A value per run. None stands for what never happened, and fails.
        rival: The rival's value.
        rival_is: Description of the rival.
    """
    largest = max(math.inf if value is None else value for value in measured)
    return Claim(name).at_most(limit, largest).against(rival, rival_is)


def _none(name: str, measured: float) -> Check:
    """Check that a count is 0."""
    return Claim(name).count(0, measured, "none: each is counted")


def _less(name: str, measured: float | None, other: float | None) -> Check:
    """Check that a value is less than another by at least a tenth.

    None stands for what never happened, and is more than any value.
    """
    value = math.inf if measured is None else measured
    if other is None:
        return Claim(name).at_most(math.inf, value).against(None, "the other is never done")
    return Claim(name).at_most(0.9 * other, value).against(other, "no less than the other")


def figures(rows: Rows) -> Figures:
    """Draw the first repetition around both faults."""
    return {
        "carrier_lost": _draw_fault(rows, "down", "the carrier is lost"),
        "silent_blackhole": _draw_fault(rows, "blackhole", "packets vanish, the carrier stays"),
    }


def _draw_fault(rows: Rows, kind: FaultKind, description: str) -> object:
    from testbed.metapath.figures import fault_figure

    first_runs = []
    for routing in NAMES:
        first_runs += _runs_of(rows, routing, kind)[:1]
    names = [NAMES[row["routing"]] for row in first_runs]
    title = f"Link {label_of(LINK)} of a 4x4 torus: {description}"
    return fault_figure(first_runs, names, title)


STUDY = Study.of_module(
    __name__,
    title="FT-DRB on switches compared with one path, a recomputed route and a coded stream",
    deviations=(
        "The document simulates; here one pair of a 4x4 torus on Open vSwitch, one link at a time.",
        "ACKs and notifications are packets; "
        "NAC is not run: switches drop packets where routers would block.",
    ),
    answers="Zarza 2011, chapter 3, beside Gabrielyan 2007, chapter 4: "
    "packets lost, time to reconfigure, latency; equations 3.5 to 3.8 beside TCP",
    emulation=True,
    chapter=5,
    # A window of time begins before its failure.
    signed=("t_s",),
)
