"""A plain stream's run as JSON: a row a fault with its timeline, and the object that ``testbed stream --routing ... --json`` prints."""

from __future__ import annotations

import numpy as np

from testbed.metapath.analysis import MessageDeliveries, MetapathAnalysis, latency_of, message_deliveries
from testbed.metapath.plan import MetapathPlan, MetapathRun
from testbed.model.verdict import Verdict
from topologies.text.json_types import JsonObject

BIN_S = 0.02
BEFORE_S, AFTER_S = 0.3, 0.5
"""Of a fault's timeline, around it."""


Timeline = dict[str, list[float | int | None]]


def fault_rows(plan: MetapathPlan, run: MetapathRun, analysis: MetapathAnalysis) -> list[JsonObject]:
    """One row a fault: routing, outcome, timeline."""
    deliveries = message_deliveries(run)
    return [
        {
            "routing": plan.routing,
            **outcome.to_json(),
            "timeline": fault_timeline(deliveries, outcome.start_s, min(outcome.stop_s + AFTER_S, plan.duration_s)),
        }
        for outcome in analysis.faults
    ]


def fault_timeline(deliveries: MessageDeliveries, start_s: float, end_s: float) -> Timeline:
    """Bins of 20 ms from 0.3 s before a fault that began at ``start_s``. ``t_s``: begin of each after the fault; ``sent``,
    ``lost``, ``escaped``, ``diverted`` (not on the first path): messages; ``latency_ms``: the median, ``slow_ms`` the 95th percentile of what arrived (None: nothing)."""
    count = int((end_s - start_s + BEFORE_S) / BIN_S + 1e-9)
    number = np.floor((deliveries.sent_s - start_s + BEFORE_S) / BIN_S + 1e-9).astype(int)
    latency_ms = (deliveries.arrived_s - deliveries.sent_s) * 1e3
    found: Timeline = {name: [] for name in ("t_s", "sent", "lost", "escaped", "diverted", "latency_ms", "slow_ms")}
    for k in range(count):
        mine = number == k
        there = latency_ms[mine & ~deliveries.lost]
        found["t_s"].append(round(k * BIN_S - BEFORE_S, 6))
        found["sent"].append(int(mine.sum()))
        found["lost"].append(int((mine & deliveries.lost).sum()))
        found["escaped"].append(int((mine & deliveries.escaped).sum()))
        found["diverted"].append(int((mine & (deliveries.path != 0)).sum()))
        middle, slow = latency_of(there) or (None, None)
        found["latency_ms"].append(middle)
        found["slow_ms"].append(slow)
    return found


def metapath_document(plan: MetapathPlan, run: MetapathRun, analysis: MetapathAnalysis, verdict: Verdict) -> JsonObject:
    """The JSON object of one run."""
    return {
        "fabric": "emulation",
        "network": plan.network.name,
        "source": plan.source,
        "sink": plan.sink,
        "routing": plan.routing,
        "seed": plan.seed,
        "per_fault": [outcome.to_json() for outcome in analysis.faults],
        "figures": {
            "packets_sent": analysis.messages,
            "packets_lost_outside_faults": analysis.lost_outside,
            "datagrams_received": len(run.received.number),
            "zero_load_latency_s": run.zero_load_s,
            "sender_lag_s": run.health.sender_lag_s,
            "unplanned_drops": run.health.unplanned_drops,
            "cpu_fraction": run.health.cpu_fraction,
            **run.counters,
        },
        "events": [
            {
                "at_s": round(e.at_s, 6),
                "kind": e.kind,
                "cause": e.cause,
                "cable": _cable(plan, e.cable),
                "paths": list(e.paths),
            }
            for e in run.events
        ],
        "verdict": verdict.to_json(),
    }


def _cable(plan: MetapathPlan, number: int | None) -> str | None:
    return None if number is None else plan.network.links[number].label
