"""FT-DRB on switches next to its alternatives: one path, a capillary route recomputed by the controller, a capillary
route with FEC.

On an emulated 4x4 torus a link of the path is cut (the carrier goes), swallows packets (the carrier stays), or is
crowded by TCP.
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

NETWORK, SOURCE, SINK, LINK = "torus:4x4", "s0_0", "s2_0", ("s1_0", "s2_0", 0)
"""Minimal path of two links; the capillary route puts a quarter of its labels on each of four paths."""
RATE_PPS, WARM_UP_S, LASTS_S, AFTER_S = 1000.0, 0.8, 1.0, 0.7
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
CROWD_BPS, CROWDED_S = 20e6, 3.0
"""TCP that would take twice the link; how long."""
_REPEATS = 2


def points(quick: bool, seed: int) -> Points:
    """Every routing under both faults, three beside TCP; quick once, full five times."""
    cases = [(kind, routing) for kind in ("down", "blackhole") for routing in NAMES]
    cases.remove(("blackhole", "ft-drb, header"))
    cases += [("crowded", routing) for routing in CROWDED]
    repeats = range(1 if quick else 5)
    return [
        {"kind": k, "routing": r, "repeat": n, "seed": seed + n} for n in repeats for k, r in cases
    ]


def measure(point: Row) -> Results:
    """One run on a network of its own; repeated where the machine could not keep up."""
    if point["kind"] == "crowded":
        return _measure_crowded(point)
    return _measure_coded(point) if point["routing"] == CODED else _measure_plain(point)


def _fault(kind: FaultKind) -> Fault:
    return Fault(link=LINK, kind=kind, start_s=WARM_UP_S, stop_s=WARM_UP_S + LASTS_S)


def _measure_plain(point: Row) -> Results:
    header = point["routing"].endswith("header")
    routing, notify = ("ft-drb", "header") if header else (point["routing"], "both")
    common = {"faults": (_fault(point["kind"]),), "duration_s": WARM_UP_S + LASTS_S + AFTER_S}
    run, judged = _judged(point, routing=routing, options={"notify": notify}, **common)
    (row,) = (dict(stored) for stored in judged.stored)
    del row["routing"], row["kind"]
    sent = len(run.sent.time_s) / judged.document["figures"]["packets_sent"]
    wrong = [
        check.name
        for check in judged.verdict.checks
        if check.key == "wrongly-reported" and not check.passed
    ]
    return {
        **row,
        "datagrams_a_message": sent,
        "invalid": judged.verdict.invalid or ", ".join(wrong) or None,
    }


def _judged(point: Row, *, options: Row, **settings: Any) -> tuple[MetapathRun, Judgement]:
    """A stream on switches, repeated where the machine could not keep up, and what is judged of it."""
    from testbed.metapath.workload import METAPATH, metapath_plan

    settings |= {"rate_pps": RATE_PPS, "options": MetapathOptions(**options), "seed": point["seed"]}
    plan = metapath_plan(NETWORK, SOURCE, SINK, **settings)
    return METAPATH.judged(plan, How(fabric="emulation"), repeats=_REPEATS)


def _measure_crowded(point: Row) -> Results:
    wide = (
        {"first_paths": 4, "threshold": 0.3, "tolerance": 0.9} if "four" in point["routing"] else {}
    )
    lasts: Results = {
        "duration_s": BACKGROUND_AFTER_S + CROWDED_S,
        "background_bps": CROWD_BPS,
        "faults": "none",
    }
    routing = "single" if point["routing"] == "single" else "ft-drb"
    run, judged = _judged(point, routing=routing, options={"always": True, **wide}, **lasts)
    sent_s = run.sent.time_s
    arrived_s = run.deliveries.arrived_s
    counts = judged.document["figures"]
    since_s = BACKGROUND_AFTER_S + 1.0
    return {
        "sent": counts["packets_sent"],
        "lost": counts["packets_lost_outside_faults"],
        "latency_before_ms": latency_of(1e3 * (arrived_s - sent_s)[sent_s < BACKGROUND_AFTER_S]),
        "latency_during_ms": latency_of(1e3 * (arrived_s - sent_s)[sent_s >= since_s]),
        "paths": path_shares(run, since_s),
        "tcp_bytes": run.counters.get("background_carried_bytes"),
        "invalid": judged.verdict.invalid,
    }


def _measure_coded(point: Row) -> Results:
    from testbed.metapath.coded_deliveries import coded_deliveries
    from testbed.stream.fabric import open_fabric
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import stream_plan

    faults, lasts_s = (_fault(point["kind"]),), WARM_UP_S + LASTS_S + AFTER_S
    plan = stream_plan(NETWORK, SOURCE, SINK, faults=faults, duration_s=lasts_s, seed=point["seed"])
    session = run_and_judge(plan, open_fabric("emulation"), repeats_if_invalid=_REPEATS)
    (result,) = session.analysis.faults
    return {
        **_coded_row(
            coded_deliveries(plan, session.run),
            result.start_s,
            result.stop_s,
            session.run.sent.time_s,
        ),
        "link": result.link,
        "port_status_s": None
        if result.port_status_s is None
        else result.port_status_s - result.start_s,
        "reconfigured_s": result.reaction_s,
        "invalid": session.verdict.invalid,
    }


def _coded_row(
    deliveries: MessageDeliveries, start_s: float, stop_s: float, datagrams_s: FloatArray
) -> Results:
    """The figures of a plain stream's row, for messages that a code may have brought back."""
    latency_ms, ends_s = deliveries.latency_ms, stop_s + AFTER_S - 0.4
    meets = deliveries.sent_in(start_s - 0.05, stop_s + 0.05)
    lost, sent = (
        int((deliveries.lost & meets).sum()),
        int(deliveries.sent_in(start_s, stop_s).sum()),
    )
    return {
        "start_s": start_s,
        "stop_s": stop_s,
        "sent": sent,
        "lost": lost,
        "lost_s": lost / RATE_PPS,
        "latency_before_ms": latency_of(latency_ms[deliveries.sent_s < start_s - 0.05]),
        "latency_during_ms": latency_of(latency_ms[meets]),
        "latency_after_ms": latency_of(latency_ms[deliveries.sent_in(stop_s + 0.05, ends_s)]),
        "timeline": fault_timeline(deliveries, start_s, ends_s),
        "datagrams_a_message": float(((datagrams_s >= start_s) & (datagrams_s < stop_s)).sum())
        / max(1, sent),
    }


def judge(rows: Rows) -> Verdict:
    """Each claim over all repetitions: the worst run must keep it; comparisons are of medians."""
    checks = [
        *_ft_drb_checks(rows),
        *_alternative_checks(rows),
        *_comparisons(rows),
        *_crowded_checks(rows),
    ]
    return verdict_of([*rows, *({"invalid": _impossible(row)} for row in rows)], checks)


def _impossible(row: Row) -> str | None:
    """Which figure of a run in a failure is larger than all that it sends, or lasts, or None."""
    most = dict.fromkeys(("sent", "lost", "escaped"), LASTS_S * RATE_PPS)
    most |= dict.fromkeys(("lost_s", "port_status_s", "reconfigured_s", "returned_s"), LASTS_S)
    most |= {"datagrams_a_message": 2.0} | {
        key: 1e3 * LASTS_S for key in row if key.startswith("latency")
    }
    figures = [
        (key, np.max(row.get(key) or 0))
        for key in most
        if row["kind"] != "crowded" or "latency" in key
    ]
    wrong = [f"{key} is {figure:g}" for key, figure in figures if figure > 1.1 * most[key]]
    wrong += [f"{row['link']} failed"] if row.get("link", label_of(LINK)) != label_of(LINK) else []
    return f"{row['routing']}, {row['kind']}: {wrong[0]}" if wrong else None


def _of(rows: Rows, routing: str, kind: str) -> list[Row]:
    return where(rows, routing=routing, kind=kind)


def _ft_drb_checks(rows: Rows) -> list[Check]:
    checks, alone = [], min(row["lost_s"] for row in _of(rows, "single", "down"))
    for routing in ("ft-drb", "ft-drb, header"):
        cuts, name = _of(rows, routing, "down"), NAMES[routing]
        lost = [row["lost_s"] for row in cuts]
        escaped = [
            None not in (row["port_status_s"], row["marked_by"]) and row["escaped"] > 0
            for row in cuts
        ]
        checks += [
            _bound(
                f"cut: s of packets lost until the escape, {name}",
                MAX_LOST_S,
                lost,
                alone,
                "on one path",
            ),
            _count(f"cut: runs without an escape, {name}", sum(not one for one in escaped)),
        ]
    silent = _of(rows, "ft-drb", "blackhole")
    reported, nothing = (
        [row["reconfigured_s"] for row in silent],
        "nothing tells while the fault lasts",
    )
    marked = sum(
        row["marked_by"] != "silence" or row["port_status_s"] is not None for row in silent
    )
    ours = [*silent, *_of(rows, "ft-drb", "down"), *_of(rows, "ft-drb, header", "down")]
    back, never = [row["returned_s"] for row in ours], "never, in the rest of the run"
    return [
        *checks,
        _bound(
            "silent blackhole: s until missing ACKs tell",
            0.075 + SLACK_S,
            reported,
            LASTS_S,
            nothing,
        ),
        _count("silent blackhole: runs in which anything but silence reported", marked),
        _count("packets lost after the source reconfigured", sum_of(ours, "lost_after_reroute")),
        _bound("s until the stream is back on its path", 0.12 + SLACK_S, back, AFTER_S, never),
    ]


def _alternative_checks(rows: Rows) -> list[Check]:
    def shares(routing: str, kind: str) -> list[float]:
        return [row["lost"] / row["sent"] for row in _of(rows, routing, kind)]

    checks = []
    for kind in ("down", "blackhole"):
        lost = max(row["lost"] for row in _of(rows, CODED, kind))
        checks += [
            Claim(f"{kind}: share lost on one path")
            .equal(1.0, min(shares("single", kind)), 0.02)
            .against(0.25, "a quarter of the labels, as on four paths"),
            _count(f"{kind}: messages not decoded in time, {NAMES[CODED]}", lost),
        ]
    return [
        *checks,
        Claim("blackhole: share lost by the recomputed route, which is never told")
        .equal(0.25, max(shares("recomputed", "blackhole")), 0.02)
        .against(0.0, "it is told"),
    ]


def _comparisons(rows: Rows) -> list[Check]:
    def less(words: str, other: str, key: str) -> Check:
        """FT-DRB's median less than that of another routing; of a latency its 95th percentile."""
        medians = []
        for routing in ("ft-drb", other):
            values = [
                row[key][1] if key == "latency_during_ms" else row[key]
                for row in _of(rows, routing, "down")
            ]
            medians.append(None if None in values else median(values))
        return _less(
            f"cut: {words}, FT-DRB against {'FEC' if other == CODED else 'the recomputed route'}",
            *medians,
        )

    return [
        less("s to reconfigure", "recomputed", "reconfigured_s"),
        less("packets lost", "recomputed", "lost"),
        less("95th percentile of latency in ms", CODED, "latency_during_ms"),
        less("datagrams a message", CODED, "datagrams_a_message"),
    ]


def _crowded_checks(rows: Rows) -> list[Check]:
    spread = _of(rows, "ft-drb, four paths", "crowded")
    paths = [path for row in spread for path in row["paths"]]
    off: list[float | None] = [abs(path["share"] - path["predicted_share"]) for path in paths]
    even = max((abs(0.25 - path["predicted_share"]) for path in paths), default=None)
    slow = {
        name: median(row["latency_during_ms"][1] for row in _of(rows, name, "crowded"))
        for name in CROWDED
    }
    bandwidth = "crowded: a path's share off its share of the bandwidth (equation 3.8)"
    latency = "crowded: 95th percentile of latency in ms, FT-DRB against one path"
    return [
        _bound(bandwidth, 0.08, off or [None], even, "equal shares"),
        _count(
            "crowded: runs that do not keep four paths open",
            sum(len(row["paths"]) != 4 for row in spread),
        ),
        _less(latency, slow["ft-drb, always"], slow["single"]),
    ]


def _bound(
    name: str, limit: float, measured: Sequence[float | None], rival: float | None, rival_is: str
) -> Check:
    """The worst at most ``limit``; None was never measured, which fails."""
    worst = max(math.inf if value is None else value for value in measured)
    return Claim(name).at_most(limit, worst).against(rival, rival_is)


def _count(name: str, measured: float) -> Check:
    return Claim(name).count(0, measured, "none: each is counted")


def _less(name: str, measured: float | None, than: float | None) -> Check:
    """Less by a tenth at least; never is more than any figure."""
    ours = math.inf if measured is None else measured
    if than is None:
        return Claim(name).at_most(math.inf, ours).against(None, "the other is never done")
    return Claim(name).at_most(0.9 * than, ours).against(than, "no less than the other")


def figures(rows: Rows) -> Figures:
    """The first repetition around both faults."""
    from testbed.metapath.figures import fault_figure

    drawings = {}
    for caption, kind, words in (
        ("carrier_lost", "down", "the carrier is lost"),
        ("silent_blackhole", "blackhole", "packets vanish, the carrier stays"),
    ):
        chosen = [row for routing in NAMES for row in _of(rows, routing, kind)[:1]]
        title = f"Link {label_of(LINK)} of a 4x4 torus: {words}"
        drawings[caption] = fault_figure(chosen, [NAMES[row["routing"]] for row in chosen], title)
    return drawings


STUDY = Study.of_module(
    __name__,
    title="FT-DRB on switches beside one path, a recomputed route and a coded stream",
    deviations=(
        "The document simulates; here one pair of a 4x4 torus on Open vSwitch, one link at a time.",
        "ACKs and notifications are packets; NAC is not run: switches drop packets where routers would block.",
    ),
    answers="Zarza 2011, chapter 3, beside Gabrielyan 2007, chapter 4: packets lost, time to reconfigure, latency; "
    "equations 3.5 to 3.8 beside TCP",
    emulation=True,
    chapter=5,
    signed=("t_s",),  # a window of time begins before its failure
)
