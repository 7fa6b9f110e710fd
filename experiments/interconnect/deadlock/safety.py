"""Is FT-DRB free of cost without failures, and does it need NAC with them (Zarza 2011, 5.3, 5.6.7 and chapter 4)?

Fault-free against dimension order; loads and failures under which it deadlocks without NAC and delivers all with it;
and the design alternatives of 3.6 side by side.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_most, delivery_check
from experiments.interconnect.study_points import drb_point, seeds_of
from testbed.model.studies import Figures, Points, Row, Rows, Study, grouped, mean_of, sum_of, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_bars

NETWORK = "torus:8x8"
BUSY_RATE = 0.6 * 2e9 / (512 * 8)
"""Messages of 512 B a second a node in the second part."""
FULL_TORUS_S = 0.06
"""So long every node offers four fifths of its link (2 KB packets, 4 KB buffers), by dimension order with NAC."""
ACK_BYTES = 64
IMPROVEMENTS = ("notifications reused", "queued sources notified")
"""Alternatives of which the document says that they improve performance."""
ALTERNATIVES: Mapping[str, Row] = {
    "defaults": {},
    "destination notifies": {"notifier": "destination"},
    "notifications reused": {"reuse_notifications": True},
    "queued sources notified": {"notify_queued": True},
    "router tells link up": {"link_up": "router"},
    "probes by clock": {"probing": "clock"},
    "probes hybrid": {"probing": "hybrid"},
    "marked by clock": {"marking": "clock"},
    "marked hybrid": {"marking": "hybrid"},
}


def points(quick: bool, seed: int) -> Points:
    """Part "cost": DOR and FT-DRB without failures; "deadlock": without and with NAC; "torus": NAC alone;
    "alternatives": options of 3.6."""
    seeds = seeds_of(seed, quick, few=3)
    found = []

    def add(part: str, s: int, **changed: Any) -> None:
        found.append(drb_point(NETWORK, "uniform", s, quick=quick, **changed) | {"part": part})

    for s in seeds:
        for routing in ("dor", "ft-drb"):
            add("cost", s, routing=routing)
        for deadlock in ("none", "nac"):
            add(
                "deadlock",
                s,
                deadlock=deadlock,
                faults=8,
                fault_kind="start",
                rate=BUSY_RATE,
                seconds=0.002,
            )
        full = {"rate": 0.8 * 2e9 / (2048 * 8), "seconds": FULL_TORUS_S / (10 if quick else 1)}
        add("torus", s, routing="dor", bytes=2048, buffer_bytes=4096, **full)
        for name, options in ALTERNATIVES.items():
            add("alternatives", s, faults=10, fault_kind="transient", options=dict(options))
            found[-1]["design"] = name
    return found


def judge(rows: Rows) -> Verdict:
    """FT-DRB without failures within 0.1 % of DOR and nothing rerouted; deadlocks without NAC only; all delivered with
    it."""
    cost = {name: where(rows, part="cost", routing=name) for name in ("dor", "ft-drb")}
    base, drb = (mean_of(cost[name], "latency_s") for name in ("dor", "ft-drb"))
    more = 100.0 * (drb / base - 1.0)
    rerouted = sum(r["escapes"] + r["alternative"] for r in cost["ft-drb"])
    bare, safe = (where(rows, part="deadlock", deadlock=kind) for kind in ("none", "nac"))
    torus, half = where(rows, part="torus"), float(sum_of(cost["ft-drb"], "sent")) / 2
    stuck, moves = sum_of(bare, "deadlocked"), [r["nac_moves"] for r in safe]
    rest = [r for r in rows if r not in bare]
    checks = (
        Claim("fault-free FT-DRB costs nothing over dimension order (% of latency)")
        .equal(0.0, more, 0.1)
        .cites("no overhead without failures (3.5.3)")
        .against(100.0 * ACK_BYTES / 512, "every message waits for an ACK of 64 bytes before it")
        .noting("its ACKs share the links"),
        Claim(
            "fault-free FT-DRB sends every packet over the dimension-order path (packets rerouted)"
        )
        .equal(0.0, rerouted)
        .against(
            half, "dimension order is one of the two orders of a torus, and is taken by chance"
        ),
        Claim("without NAC, FT-DRB with failures deadlocks (runs)")
        .at_least(0.5 * len(bare), stuck)
        .against(0.0, "none, as with NAC")
        .noting(f"of {len(bare)}; 8 failed links, {BUSY_RATE:.0f} packets/s a node"),
        Claim("with NAC the same runs deliver every packet (runs that deadlock or deliver less)")
        .equal(0.0, _unsafe(safe))
        .against(stuck, "as without NAC"),
        Claim("moves of NAC in each of these runs (the least)")
        .at_least(1.0, min(moves))
        .against(0.0, "they would not have deadlocked anyway")
        .noting(f"{sum(moves)} moves in {len(safe)} runs"),
        Claim(
            "8x8 uniform at 0.8 of a link with NAC: runs that deadlock or deliver less than was sent"
        )
        .equal(0.0, _unsafe(torus))
        .against(len(torus), "all, as in the ring without NAC from 34,000 packets/s on")
        .noting(
            f"{len(torus)} runs of {torus[0]['seconds']:g} s, {sum_of(torus, 'nac_moves')} moves"
        ),
        *(_improvement(rows, design) for design in IMPROVEMENTS),
        replace(delivery_check(rest), name="sent = received in every run but those without NAC"),
    )
    return Verdict.of(checks)


def _unsafe(rows: Rows) -> int:
    return sum(bool(r["deadlocked"] or r["sent"] != r["received"]) for r in rows)


def _improvement(rows: Rows, design: str) -> Check:
    """Escapes of an improvement of 3.6.1 over those of the defaults, run by run (the same seed fails the same
    links)."""
    of = {
        name: {r["seed"]: r["escapes"] for r in where(rows, part="alternatives", design=name)}
        for name in ("defaults", design)
    }
    ratios = [of[design][seed] / escapes for seed, escapes in of["defaults"].items() if escapes]
    check = at_most(f"{design}: escapes over those of the defaults", 0.95, ratios)
    return check.cites("performance further improved (3.6.1)").against(1.0, "no improvement")


def figures(rows: Rows) -> Figures:
    """Packets delivered with and without NAC; escapes by design alternative."""
    names, offered = (
        {"none": "without NAC", "nac": "with NAC"},
        "0.6 of a link offered by each node",
    )
    busy = where(rows, part="deadlock")
    delivered = grouped(
        busy, lambda r: (names[r["deadlock"]], offered), lambda r: 100.0 * r["received"] / r["sent"]
    )
    escapes = grouped(
        where(rows, part="alternatives"), lambda r: ("FT-DRB", r["design"]), "escapes"
    )
    title, y = "FT-DRB with 8 failed links above saturation", "packets delivered (%)"
    tried = "Design alternatives (3.6): escapes with ten transient failures"
    return {
        "deadlock": draw_bars(title, delivered, y=y),
        "alternatives-escapes": draw_bars(tried, escapes, y="escapes a run"),
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_safety",
    title="What FT-DRB costs without failures, and whether NAC keeps it from deadlock with them",
    deviations=(
        "Eight failed links and 0.6 of a link offered make the deadlock; the document's (Figure 4.2) needs two.",
        "Of the alternatives of 3.6 the two that the document calls improvements are judged; it gives no figure.",
    ),
    answers="Zarza 2011, section 5.3 and 5.6.7: sent = received, no cost without failures; chapter 4: "
    "NAC keeps it from deadlock",
    measure=measure_run,
)
