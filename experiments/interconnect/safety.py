"""Is FT-DRB free of cost without failures, and does it need NAC with them (Zarza 2011, 5.3, 5.6.7 and chapter 4)?

Fault-free against dimension order; loads and failures under which it deadlocks without NAC and delivers all with it; and the
design alternatives of 3.6 side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.interconnect.figures import draw_bars
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import Row, delivery_check, livelock_check
from experiments.interconnect.traffic import drb_point, seeds_of
from testbed.commands.studies.study import Study
from testbed.model.samples import spread
from testbed.model.verdict import Check, Verdict

NETWORK = "torus:8x8"
BUSY_RATE = 0.6 * 2e9 / (512 * 8)
"""Messages of 512 B a second a node in the second part."""
FULL_TORUS_S = 0.06
"""So long every node offers four fifths of its link (2 KB packets, 4 KB buffers), by dimension order with NAC."""
ALTERNATIVES: Mapping[str, Mapping[str, Any]] = {
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


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Part "cost": DOR and FT-DRB without failures; "deadlock": without and with NAC; "torus": NAC alone; "alternatives": options of 3.6."""
    seeds = seeds_of(seed, quick, few=3)
    found = []
    for s in seeds:
        for routing in ("dor", "ft-drb"):
            found.append({**drb_point(NETWORK, "uniform", s, quick=quick, routing=routing), "part": "cost"})
        for deadlock in ("none", "nac"):
            eight = {"faults": 8, "fault_kind": "start", "rate": BUSY_RATE, "seconds": 0.002}
            point = drb_point(NETWORK, "uniform", s, quick=quick, deadlock=deadlock, **eight)
            found.append({**point, "part": "deadlock"})
        found.append({**_full_torus(s, quick), "part": "torus"})
        for name, options in ALTERNATIVES.items():
            ten = {"faults": 10, "fault_kind": "transient", "options": dict(options)}
            point = drb_point(NETWORK, "uniform", s, quick=quick, **ten)
            found.append({**point, "part": "alternatives", "design": name})
    return found


def _full_torus(seed: int, quick: bool) -> dict[str, Any]:
    seconds = FULL_TORUS_S / 10 if quick else FULL_TORUS_S
    full = {"rate": 0.8 * 2e9 / (2048 * 8), "seconds": seconds, "bytes": 2048, "buffer_bytes": 4096}
    return drb_point(NETWORK, "uniform", seed, quick=quick, routing="dor", **full)


def judge(rows: Sequence[Row]) -> Verdict:
    """FT-DRB without failures within 0.1 % of DOR and nothing rerouted; deadlocks without NAC only; all delivered with it."""
    cost = {name: [r for r in rows if r["part"] == "cost" and r["routing"] == name] for name in ("dor", "ft-drb")}
    base, drb = (spread([r["latency_s"] for r in cost[name]])[0] for name in ("dor", "ft-drb"))
    more = 100.0 * (drb / base - 1.0)
    rerouted = sum(r["escapes"] + r["alternative"] for r in cost["ft-drb"])
    bare = [r for r in rows if r["part"] == "deadlock" and r["deadlock"] == "none"]
    safe = [r for r in rows if r["part"] == "deadlock" and r["deadlock"] == "nac"]
    torus = [r for r in rows if r["part"] == "torus"]
    stuck, moves = sum(r["deadlocked"] for r in bare), [r["nac_moves"] for r in safe]
    rest = [r for r in rows if r not in bare]
    checks = (
        Check(
            name="fault-free FT-DRB costs nothing over dimension order (% of latency)",
            predicted=0.0,
            measured=more,
            tolerance=0.1,
            passed=abs(more) <= 0.1,
            detail="its ACKs share the links",
        ),
        Check.equal(
            "fault-free FT-DRB sends every packet over the dimension-order path (packets rerouted)",
            0.0,
            float(rerouted),
        ),
        Check(
            name="without NAC, FT-DRB with failures deadlocks (runs of those made)",
            predicted=float(len(bare)),
            measured=float(stuck),
            tolerance=None,
            passed=stuck > 0.5 * len(bare),
            detail=f"8 failed links, {BUSY_RATE:.0f} packets/s a node",
        ),
        Check(
            name="with NAC the same runs deliver every packet, by moves of NAC (least moves of a run)",
            predicted=1.0,
            measured=float(min(moves)),
            tolerance=None,
            passed=min(moves) > 0 and all(r["sent"] == r["received"] and not r["deadlocked"] for r in safe),
            detail=f"{sum(moves)} moves in {len(safe)} runs",
        ),
        Check(
            name="8x8 uniform at 0.8 of a link with NAC: runs that deadlock or deliver less than was sent",
            predicted=0.0,
            measured=float(sum(r["deadlocked"] or r["sent"] != r["received"] for r in torus)),
            tolerance=0.0,
            passed=bool(torus) and all(r["sent"] == r["received"] and not r["deadlocked"] for r in torus),
            detail=f"{len(torus)} runs of {torus[0]['seconds']:g} s, {sum(r['nac_moves'] for r in torus)} moves"
            if torus
            else "",
        ),
        replace(delivery_check(rest), name="sent = received in every run but those without NAC"),
        livelock_check(rest),
    )
    return Verdict(checks=checks)


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Packets delivered with and without NAC; latency, and escapes, by design alternative."""
    delivered = {
        name: {
            "0.6 of a link offered by each node": spread(
                [100.0 * r["received"] / r["sent"] for r in rows if r["part"] == "deadlock" and r["deadlock"] == kind]
            )
        }
        for name, kind in (("without NAC", "none"), ("with NAC", "nac"))
    }
    mine = [r for r in rows if r["part"] == "alternatives"]
    names = list(dict.fromkeys(r["design"] for r in mine))
    whole = {r["seed"]: r["latency_s"] for r in rows if r["part"] == "cost" and r["routing"] == "ft-drb"}
    lost = {
        n: spread([100.0 * (r["latency_s"] / whole[r["seed"]] - 1) for r in mine if r["design"] == n]) for n in names
    }
    escapes = {n: spread([float(r["escapes"]) for r in mine if r["design"] == n]) for n in names}
    return {
        "deadlock": draw_bars("FT-DRB with 8 failed links above saturation", delivered, y_label="packets delivered (%)"),
        "alternatives-latency": draw_bars(
            "Design alternatives (3.6): latency with ten transient failures", {"FT-DRB": lost},
            y_label="latency above that without failures (%)",
        ),
        "alternatives-escapes": draw_bars(
            "Design alternatives (3.6): escapes with ten transient failures", {"FT-DRB": escapes}, y_label="escapes a run"
        ),
    }  # fmt: skip


STUDY = Study.of_module(
    __name__,
    name="interconnect_safety",
    does="FT-DRB without failures against DOR, with failures without and with NAC, and its design alternatives",
    answers="Zarza 2011, section 5.3 and 5.6.7: sent = received, no cost without failures; chapter 4: NAC keeps it from deadlock",
    measure=measure_run,
)
