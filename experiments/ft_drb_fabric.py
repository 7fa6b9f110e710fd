"""FT-DRB on switches beside its alternatives: one path, a capillary route recomputed by the controller, a capillary route with FEC.

On an emulated 4x4 torus a link of the path is cut (the carrier goes) or swallows packets (the carrier stays).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from testbed.adapters.study_store import Row
from testbed.commands.study_base import Study
from testbed.model.verdict import Check, Verdict
from testbed.streaming.metapath_judgement import MOST_LOST_S, SLACK_S

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
_REPEATS = 2


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Every routing under both faults; quick once, full five times."""
    repeats = range(1 if quick else 5)
    return [
        {"kind": kind, "routing": routing, "repeat": repeat, "seed": seed + repeat}
        for repeat in repeats
        for kind in ("down", "blackhole")
        for routing in NAMES
        if not (kind == "blackhole" and routing == "ft-drb, header")
    ]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """One run on a network of its own; repeated where the machine could not keep up."""
    return _measure_coded(point) if point["routing"] == CODED else _measure_plain(point)


def _fault(kind: str) -> Any:
    from testbed.model.plan import Fault

    return Fault(link=LINK, kind=kind, start_s=WARM_UP_S, stop_s=WARM_UP_S + LASTS_S)  # type: ignore[arg-type]


def _measure_plain(point: Mapping[str, Any]) -> dict[str, Any]:
    from testbed.adapters.metapath_session import run_metapath_session
    from testbed.streaming.metapath_plan import MetapathPlan
    from testbed.streaming.metapath_records import fault_rows
    from testbed.streaming.metapaths import MetapathOptions
    from topologies import load_network

    header = point["routing"].endswith("header")
    plan = MetapathPlan(
        network=load_network(NETWORK),
        source=SOURCE,
        sink=SINK,
        routing="ft-drb" if header else point["routing"],
        rate_pps=RATE_PPS,
        faults=(_fault(point["kind"]),),
        duration_s=WARM_UP_S + LASTS_S + AFTER_S,
        options=MetapathOptions(notify="header" if header else "both"),
        seed=point["seed"],
    )
    session = run_metapath_session(plan, repeats_if_invalid=_REPEATS)
    (row,) = fault_rows(plan, session.run, session.analysis)
    del row["routing"], row["kind"]
    sent = len(session.run.sent.time_s) / session.analysis.messages
    failed = [check.name for check in session.verdict.checks if not check.passed]
    return {**row, "datagrams_a_message": sent, "failed": failed, "invalid": session.verdict.invalid}


def _measure_coded(point: Mapping[str, Any]) -> dict[str, Any]:
    from testbed.adapters.stream_session import SessionRequest, open_fabric, plan_session, run_session
    from testbed.streaming.coded_fates import coded_fates
    from testbed.streaming.metapath_analysis import latency_of
    from testbed.streaming.metapath_records import fault_timeline

    request = SessionRequest(
        network=NETWORK,
        source=SOURCE,
        sink=SINK,
        faults=(_fault(point["kind"]),),
        duration_s=WARM_UP_S + LASTS_S + AFTER_S,
        seed=point["seed"],
    )
    plan, route = plan_session(request)
    session = run_session(plan, route, open_fabric("emulation"), repeats_if_invalid=_REPEATS)
    (result,) = session.analysis.faults
    fates = coded_fates(plan, session.run)
    start_s, stop_s = result.start_s, result.stop_s
    during = (fates.sent_s >= start_s - 0.05) & (fates.sent_s < stop_s + 0.05)
    latency_ms = (fates.arrived_s - fates.sent_s) * 1e3
    in_fault = (session.run.sent.time_s >= start_s) & (session.run.sent.time_s < stop_s)
    lost = int((fates.lost & during).sum())
    return {
        "link": result.link,
        "start_s": start_s,
        "stop_s": stop_s,
        "port_status_s": None if result.port_status_s is None else result.port_status_s - start_s,
        "sent": int(((fates.sent_s >= start_s) & (fates.sent_s < stop_s)).sum()),
        "lost": lost,
        "lost_s": lost / plan.stream.rate_pps,
        "reconfigured_s": result.reaction_s,
        "latency_before_ms": latency_of(latency_ms[fates.sent_s < start_s - 0.05]),
        "latency_during_ms": latency_of(latency_ms[during]),
        "latency_after_ms": latency_of(
            latency_ms[(fates.sent_s >= stop_s + 0.05) & (fates.sent_s < stop_s + AFTER_S - 0.4)]
        ),
        "timeline": fault_timeline(fates, start_s, stop_s + AFTER_S - 0.4),
        "datagrams_a_message": float(in_fault.sum())
        / max(1, int(((fates.sent_s >= start_s) & (fates.sent_s < stop_s)).sum())),
        "failed": [],
        "invalid": session.verdict.invalid,
    }


def judge(rows: Sequence[Row]) -> Verdict:
    """Each claim over all repetitions: the worst run must keep it; comparisons are of medians."""
    checks = [*_ft_drb_checks(rows), *_alternative_checks(rows), *_comparisons(rows)]
    reasons = [row["invalid"] for row in rows if row["invalid"]]
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None)


def _of(rows: Sequence[Row], routing: str, kind: str) -> list[Row]:
    return [row for row in rows if (row["routing"], row["kind"]) == (routing, kind)]


def _ft_drb_checks(rows: Sequence[Row]) -> list[Check]:
    checks = []
    for routing in ("ft-drb", "ft-drb, header"):
        cuts = _of(rows, routing, "down")
        worst = max(row["lost_s"] for row in cuts)
        checks.append(_bound(f"cut: s of packets lost until the escape, {NAMES[routing]}", worst, MOST_LOST_S))
        told = [row["port_status_s"] is not None and row["escaped"] > 0 for row in cuts]
        checks.append(_count(f"cut: runs without an escape, {NAMES[routing]}", sum(not one for one in told)))
    silent = _of(rows, "ft-drb", "blackhole")
    found = [row["reconfigured_s"] for row in silent]
    limit = 0.075 + SLACK_S
    worst_found = None if None in found else max(found)
    checks.append(_bound("silent blackhole: s until missing ACKs tell", worst_found, limit))
    marked = sum(row["marked_by"] != "silence" or row["port_status_s"] is not None for row in silent)
    checks.append(_count("silent blackhole: runs in which anything but silence told", marked))
    ours = [row for row in rows if row["routing"].startswith("ft-drb")]
    checks.append(_count("packets lost after the source reconfigured", sum(row["lost_later"] for row in ours)))
    back = [row["returned_s"] for row in ours]
    checks.append(_bound("s until the stream is back on its path", None if None in back else max(back), 0.12 + SLACK_S))
    return checks


def _alternative_checks(rows: Sequence[Row]) -> list[Check]:
    checks = []
    for kind in ("down", "blackhole"):
        share = [row["lost"] / row["sent"] for row in _of(rows, "single", kind)]
        checks.append(_near(f"{kind}: share lost on one path", 1.0, min(share), 0.02))
        lost = max(row["lost"] for row in _of(rows, CODED, kind))
        checks.append(_count(f"{kind}: messages not decoded in time, {NAMES[CODED]}", lost))
    share = [row["lost"] / row["sent"] for row in _of(rows, "recomputed", "blackhole")]
    checks.append(_near("blackhole: share lost by the recomputed route, which is never told", 0.25, max(share), 0.02))
    return checks


def _comparisons(rows: Sequence[Row]) -> list[Check]:
    def middle(routing: str, key: str) -> float | None:
        values = [row[key] for row in _of(rows, routing, "down")]
        return None if None in values else median(values)

    def later(routing: str) -> float:
        return median(row["latency_during_ms"][1] for row in _of(rows, routing, "down"))

    return [
        _less(
            "cut: s to reconfigure, FT-DRB against the recomputed route",
            middle("ft-drb", "reconfigured_s"),
            middle("recomputed", "reconfigured_s"),
        ),
        _less(
            "cut: packets lost, FT-DRB against the recomputed route",
            middle("ft-drb", "lost"),
            middle("recomputed", "lost"),
        ),
        _less("cut: 95th percentile of latency in ms, FT-DRB against FEC", later("ft-drb"), later(CODED)),
        _less(
            "cut: datagrams a message, FT-DRB against FEC",
            middle("ft-drb", "datagrams_a_message"),
            middle(CODED, "datagrams_a_message"),
        ),
    ]


def _bound(name: str, measured: float | None, limit: float) -> Check:
    passed = measured is not None and measured <= limit
    return Check(
        name=name, predicted=None, measured=measured, tolerance=limit, passed=passed, detail=f"at most {limit:.4g}"
    )


def _count(name: str, measured: int) -> Check:
    return Check(name=name, predicted=0, measured=measured, tolerance=0, passed=measured == 0)


def _near(name: str, predicted: float, measured: float, tolerance: float) -> Check:
    passed = abs(measured - predicted) <= tolerance
    return Check(name=name, predicted=predicted, measured=measured, tolerance=tolerance, passed=passed)


def _less(name: str, measured: float | None, than: float | None) -> Check:
    passed = measured is not None and than is not None and measured < than
    detail = "never" if than is None else f"less than {than:.4g}"
    return Check(name=name, predicted=than, measured=measured, tolerance=None, passed=passed, detail=detail)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """The first repetition around both faults, and the packets lost in every run."""
    from testbed.report.metapath_figures import fault_figure

    drawings = {}
    for kind, words in (("down", "the carrier is lost"), ("blackhole", "packets vanish, the carrier stays")):
        chosen = [row for routing in NAMES for row in _of(rows, routing, kind)[:1]]
        title = f"Link {LINK[0]}->{LINK[1]} of a 4x4 torus: {words}"
        drawings[kind] = fault_figure(chosen, [NAMES[row["routing"]] for row in chosen], title)
    return {**drawings, "lost": _lost_figure(rows)}


def _lost_figure(rows: Sequence[Row]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 3.8))
    for shift, kind, mark in ((-0.12, "down", "o"), (0.12, "blackhole", "s")):
        for place, routing in enumerate(NAMES):
            lost = [1e3 * row["lost_s"] for row in _of(rows, routing, kind)]
            label = {"down": "carrier lost", "blackhole": "silent blackhole"}[kind] if place == 0 else None
            axes.plot(
                lost, [place + shift] * len(lost), mark, color="C0" if kind == "down" else "C1", alpha=0.6, label=label
            )
    axes.axvline(
        1e3 * MOST_LOST_S, color="k", linestyle="--", linewidth=1, label="50 ms, the bound for FT-DRB at a cut"
    )
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=-0.2)
    axes.set_yticks(range(len(NAMES)), list(NAMES.values()))
    axes.invert_yaxis()
    axes.set_xlabel(f"packets lost in a fault of {LASTS_S:g} s, ms of the stream ({RATE_PPS:g} packets/s)")
    axes.grid(alpha=0.3, axis="x")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.4, -0.17), ncols=3)
    return figure


STUDY = Study(
    name="ft_drb_fabric",
    does="FT-DRB on the switches of an emulated 4x4 torus under a cut and a silent blackhole, beside three alternatives",
    answers="003 chapter 3 beside 000 chapter 4: packets lost, time to reconfigure, latency before, during and after",
    points=points,
    measure=measure,
    judge=judge,
    figures=figures,
    emulation=True,
)

if __name__ == "__main__":
    sys.exit(STUDY.main())
