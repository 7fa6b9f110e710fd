"""FT-DRB on real switches for many pairs at once, a tenth of the links cut together: against one path, routes computed
again, and capillary routes (Zarza 2011, chapter 3; Gabrielyan 2007, chapter 4).

An 8x8 torus of Open vSwitch bridges, sixteen pairs of hosts drawn by chance, twelve of 128 cables cut at one moment for
good.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np

from experiments.interconnect.samples import at_least, at_most
from testbed.metapath.many_pairs import ManyPairsPlan, crosses_dead, draw_plan
from testbed.metapath.plan import MetapathRun
from testbed.model.studies.samples import ratio_of_sums, spread, sum_of
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Check, Claim, Verdict, repeated
from testbed.report.drawing.charts import chart

NETWORK, PAIRS, DEAD = "torus:8x8", 16, 12
ROUTINGS = {
    "ft-drb": "FT-DRB",
    "recomputed": "shortest paths computed anew",
    "capillary": "capillary routes",
    "single": "one path",
}
FAILED_S, DURATION_S, RATE_PPS, SETTLED_S = 1.5, 4.0, 100.0, 0.5
"""The cut, the end; messages a second and pair; what is lost later after the cut is not of the change any more."""
BLOCK = 20
"""Messages of a block, for the redundancy that a code would have needed."""
MOST_LAG_S, REPEATS = 0.1, 2
"""A source late by more, or a pair whose median latency before the cut is more, makes a run invalid."""
RACED = ("ft-drb", "recomputed")
"""Compared by what they lose in the change, which varies much from draw to draw."""
DRAWS, RACED_DRAWS = 6, 24


def points(quick: bool, seed: int) -> Points:
    """Every routing for one draw of pairs and cables, full: six, and eighteen more for the two that are raced."""
    draws = [(k, ROUTINGS if k < DRAWS else RACED) for k in range(1 if quick else RACED_DRAWS)]
    return [{"routing": routing, "seed": seed + k} for k, mine in draws for routing in mine]


def plan_of(point: Row) -> ManyPairsPlan:
    """The plan that a point stands for."""
    from topologies import load_network

    return draw_plan(
        load_network(NETWORK), PAIRS, DEAD, seed=point["seed"], routing=point["routing"], failed_s=FAILED_S,
        duration_s=DURATION_S, rate_pps=RATE_PPS,
    )  # fmt: skip


def measure(point: Row) -> Results:
    """One run on a network of its own."""
    from testbed.metapath.emulated.many_pairs import run_many_pairs

    plan = plan_of(point)

    def once() -> Results:
        row = row_of(plan, run_many_pairs(plan)) | {"predicted": predicted_losses(plan)}
        late = f"packets were {lag_of(row):.2f} s late before the cut" if lag_of(row) > MOST_LAG_S else None
        return row | {"invalid": late}

    return repeated(once, itemgetter("invalid"), REPEATS)


def lag_of(row: Row) -> float:
    """How late the machine made a source, or the median packet of a pair before the cut, at worst (seconds)."""
    return float(max(row["worst_lag_s"], 1e-3 * max(before for before, _ in row["latency_ms"])))


def predicted_losses(plan: ManyPairsPlan) -> list[float]:
    """Of each pair, the share of messages whose way goes over a cable that dies, where nothing reacts (FT-DRB, routes
    computed again: 0, as they are to react)."""
    from testbed.routing import route_by_name
    from testbed.routing.label_split.spraying import spray

    if plan.routing in RACED:
        return [0.0] * len(plan.pairs)
    splits = (spray(route_by_name(plan.network, *pair, plan.routing)) for pair in plan.pairs)
    return [sum(p.stop - p.start for p in s.paths if crosses_dead(plan, p.links)) / 65536 for s in splits]


def row_of(plan: ManyPairsPlan, pairs: Sequence[MetapathRun]) -> Results:
    """What is kept of a run: losses in the change and after it, pair by pair, and what reacted when."""
    early, late, sent_late, redundancy, latencies = [], [], [], [], []
    first = pairs[0]
    over_time = np.zeros(round(DURATION_S / 0.05), dtype=int)
    for pair in pairs:
        messages = int(pair.sent.message.max()) + 1
        arrived = ~np.isnan(pair.arrival_s())
        there = np.zeros(messages, dtype=bool)
        np.logical_or.at(there, pair.sent.message[arrived], True)
        made_s = pair.sent.time_s[pair.sent.copy == 0]
        settled = made_s > plan.failed_s + SETTLED_S
        early.append(int((~there & ~settled & (made_s > plan.failed_s - 0.1)).sum()))
        late.append(int((~there & settled).sum()))
        sent_late.append(int(settled.sum()))
        blocks = there[settled][: settled.sum() // BLOCK * BLOCK].reshape(-1, BLOCK)
        redundancy.append(float(1 / max(blocks.mean(axis=1).min(), 1 / BLOCK)) if len(blocks) else 1.0)
        slots = np.minimum((made_s[~there] / 0.05).astype(int), len(over_time) - 1)
        over_time += np.bincount(slots, minlength=len(over_time))
        took_s = (pair.arrival_s() - pair.sent.time_s)[arrived]
        before = pair.sent.time_s[arrived] < plan.failed_s
        after = pair.sent.time_s[arrived] > plan.failed_s + SETTLED_S
        latencies.append([1e3 * float(np.median(took_s[part])) if part.any() else 0.0 for part in (before, after)])
    return {
        "pairs": len(pairs),
        "lost_early": early,
        "lost_late": late,
        "sent_late": sent_late,
        "redundancy": redundancy,
        "latency_ms": latencies,
        "lost_over_time": over_time.tolist(),
        "escaped": int(sum((pair.received.dead_link >= 0).sum() for pair in pairs)),
        "diverted": sum(bool((pair.sent.path[pair.sent.time_s > plan.failed_s] > 0).any()) for pair in pairs),
        "marked": sum(any(event.kind == "marked" for event in pair.events) for pair in pairs),
        "rules": first.counters["rules"],
        "groups": first.counters["groups"],
        "cables_down_s": max((times.start_s for times in first.faults), default=plan.duration_s) - plan.failed_s,
        "rerouted_s": first.rerouted[-1].done_s - plan.failed_s if first.rerouted else None,
        "worst_lag_s": max(pair.health.sender_lag_s for pair in pairs),
        "cpu_fraction": first.health.cpu_fraction,
    }


def judge(rows: Rows) -> Verdict:
    """FT-DRB and routes computed again lose nothing once settled, FT-DRB less until then; others lose what crosses dead
    cables."""
    by = {routing: where(rows, routing=routing) for routing in ROUTINGS}
    lost, sent = (
        {routing: sum(sum(row[key]) for row in some) for routing, some in by.items()}
        for key in ("lost_late", "sent_late")
    )
    single, diverted = by["single"], [float(row["diverted"]) for row in by["ft-drb"]]
    checks = (
        Claim("one path: pairs that lose everything after the cut")
        .equal(sum(row["predicted"].count(1.0) for row in single), sum(map(_pairs_cut, single)))
        .against(0.0, "none: no pair's path is cut")
        .noting(f"{sum_of(single, 'pairs')} pairs in {len(single)} runs"),
        *(
            Claim(f"{ROUTINGS[routing]}: messages lost later than {SETTLED_S:g} s after the cut")
            .equal(0.0, lost[routing])
            .against(float(lost["single"]), "as over one path")
            .noting(f"{sent[routing]} messages")
            for routing in RACED
        ),
        _lost_in_the_change(by),
        at_least("FT-DRB: pairs whose source left the minimal path, a run", 1.0, diverted).against(
            0.0, "none: switches' escapes alone"
        ),
        *(
            Claim(f"{ROUTINGS[routing]}: share of messages lost after the cut")
            .equal(float(np.mean([row["predicted"] for row in by[routing]])), lost[routing] / sent[routing], 0.03)
            .against(0.0, "none, as with FT-DRB")
            for routing in ("single", "capillary")
        ),
    )
    lag_s = max(map(lag_of, rows))
    late = f"packets were {lag_s:.2f} s late before the cut: the machine could not keep up"
    return Verdict(checks=checks, notes=_notes(by), invalid=late if lag_s > MOST_LAG_S else None)


def _lost_in_the_change(by: Mapping[str, Rows]) -> Check:
    """FT-DRB's losses over those of routes computed again, each draw's own pairs and cables under both."""
    lost = {routing: {row["seed"]: float(sum(row["lost_early"])) for row in by[routing]} for routing in RACED}
    escaping, again = ([lost[routing][seed] for seed in lost["ft-drb"]] for routing in RACED)
    each = [a / max(1.0, b) for a, b in zip(escaping, again, strict=True)]
    together, half = ratio_of_sums(escaping, again)
    messages = f"{sum(escaping):.0f} against {sum(again):.0f} messages, all together {together:.2f} +- {half:.2f}"
    check = at_most("messages lost in the change, FT-DRB over routes computed anew (the mean of runs)", 0.8, each)
    check = check.against(1.0, "as many: switches' own escapes save nothing")
    return check.noting(f"{len(each)} draws; {messages}")


def _pairs_cut(row: Row) -> int:
    return sum(lost == sent for lost, sent in zip(row["lost_late"], row["sent_late"], strict=True))


def _notes(by: Mapping[str, Rows]) -> tuple[str, ...]:
    notes = []
    for routing, rows in by.items():
        before, after = (
            float(np.median([pair[k] for row in rows for pair in row["latency_ms"] if pair[k]])) for k in (0, 1)
        )
        again = [1e3 * row["rerouted_s"] for row in rows if row["rerouted_s"] is not None]
        notes.append(
            f"{ROUTINGS[routing]}: "
            f"{spread([float(sum(row['lost_early'])) for row in rows])[0]:.0f} messages lost in the change, "
            f"median latency {before:.1f} ms before and {after:.1f} ms after, "
            f"{rows[0]['rules']} rules and {rows[0]['groups']} groups"
            + (f", routes in force {spread(again)[0]:.0f} ms after the cut" if again else "")
        )
    coded = [need for row in by["capillary"] for need in row["redundancy"]]
    notes += [
        "capillary routes: "
        f"a code would have to send {max(coded):.2f} packets for one so that every block of {BLOCK} is decoded in "
        f"the worst pair, {float(np.median(coded)):.2f} in the median one",
        "the last of the cables was cut "
        f"{1e3 * max(row['cables_down_s'] for rows in by.values() for row in rows):.0f} ms after the first was due",
    ]
    return tuple(notes)


def figures(rows: Rows) -> Figures:
    """Messages lost, by when they were made, the mean run of each routing."""
    title = f"{PAIRS} pairs on an 8x8 torus of real switches, {DEAD} cables cut"
    figure, axes = chart(title, xlabel="made so long after the cut (s)", ylabel="messages lost (%)")
    for routing, name in ROUTINGS.items():
        lost = np.mean([row["lost_over_time"] for row in where(rows, routing=routing)], axis=0)
        times = 0.05 * np.arange(len(lost)) - FAILED_S
        axes.step(times, 100 * lost / (PAIRS * RATE_PPS * 0.05), where="post", linewidth=1.6, label=name)
    axes.legend()
    return {"lost": figure}


STUDY = Study.of_module(
    __name__,
    name="interconnect_many_pairs",
    title="FT-DRB on real switches: sixteen pairs at once, a tenth of an 8x8 torus' links cut together",
    deviations=(
        "The document simulates; here Open vSwitch bridges forward real packets, 100 a second and pair.",
        "ACKs are the sink's reports every 50 ms; NAC is not run: these switches drop where routers would block.",
        "Only those escapes are installed that a packet can come to while no other cable dies than the twelve.",
        "24 draws of pairs and cables for FT-DRB and routes computed anew, six for the others: "
        "after three, and after six, what they "
        "lose in the change could not tell; the criterion stayed.",
        "Capillary routes run without their code; the redundancy that it would have needed is counted from the losses.",
    ),
    answers="Zarza 2011, chapter 3 with many pairs and a tenth of the links failed, on switches",
    emulation=True,
)
