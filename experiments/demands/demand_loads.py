"""A handful of pairs at once on real switches: what each link carries against what the routing says, at rest and with a
cable cut.

Link loads are read from the switches' own counters, not from the streams' logs. The rivals are the loads of other
routings of the same pairs; a control installs ECMP where capillary routing is predicted, and must be found out. ROR is
measured for each pair as in every stream: packets sent while the cable is down, over those at rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from testbed.faults.fault import Fault
from testbed.model.code_description import describe_code
from testbed.model.label_split import LabelSplit
from testbed.model.studies.samples import grouped, interval
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study
from testbed.model.verdict import Check, Claim, Verdict, repeated
from testbed.report.drawing.charts import BLUE, INK, ORANGE, panels
from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.pair_routes import pair_route
from testbed.stream.judgement.streams import StreamJudgement
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import build_stream, build_together, check_concurrent, ordered_for_route
from topologies.network import LinkId, label_of

PAIRS: Mapping[str, Sequence[tuple[str, str, float]]] = {
    "optical-cloud": (
        ("x1", "x14", 300),
        ("x2", "x12", 200),
        ("x3", "x10", 250),
        ("x5", "x9", 150),
        ("x7", "x13", 200),
    ),
    "swiss-t1": (("s1", "s6", 300), ("s2", "s5", 200), ("s4", "s7", 250), ("s3", "s8", 150)),
}
"""Source, sink and source packets a second: as many pairs as there are nodes for, each node an end of one stream at
most."""
JOINT = ("smore:4", "optimum", "least-ror:1.2")
"""Routings that know all demands of a network."""
SYMBOL_BYTES = 1000
FAULT_S = (7.0, 12.0)
DURATION_S = {True: 15.5, False: 8.0}
"""With a cable cut, and without."""


def planned(network: str, method: str, seed: int, *, cutting: bool) -> tuple[list[StreamPlan], LinkId | None]:
    """(plan of each pair, link that fails or None): where one is cut, it is the one that the pairs load most."""
    requests = [
        StreamOptions(
            network,
            source,
            sink,
            method="single" if method in JOINT else method,
            rate_pps=rate,
            symbol_bytes=SYMBOL_BYTES,
            playback_s=1.0,
            hold_s=0.5,
            faults=(),
            duration_s=DURATION_S[cutting],
            seed=seed,
        )
        for source, sink, rate in PAIRS[network]
    ]
    cut = None
    if cutting:
        cut = _shared_link(_routed([build_stream(request) for request in requests], method))
        fault = Fault(link=cut, kind="down", start_s=FAULT_S[0], stop_s=FAULT_S[1])
        requests = [replace(request, faults=(fault,)) for request in requests]
    together = _routed(build_together(requests), method)
    check_concurrent(together)
    return together, cut


def _routed(plans: Sequence[StreamPlan], method: str) -> list[StreamPlan]:
    """The plans under a routing that knows all demands; as they are under any other."""
    if method not in JOINT:
        return list(plans)
    rates = {(plan.source, plan.sink): plan.stream.rate_pps for plan in plans}
    routed = route_demands(given_matrix(plans[0].network, "pairs at once", rates), method)
    found = []
    for pair, plan in enumerate(plans):
        split, route = pair_route(routed, pair)
        stream = ordered_for_route(split, plan.stream)
        found.append(replace(plan, method=method, forward=split, stream=stream, route=route))
    return found


def _shared_link(plans: Sequence[StreamPlan]) -> LinkId:
    """The link of the greatest sum of shares that no pair has all of its flow on."""
    network = plans[0].network
    shares = [[float(plan.forward.load(i)) for plan in plans] for i in range(len(network.links))]
    best = max((i for i, own in enumerate(shares) if max(own) < 0.6), key=lambda i: (sum(shares[i]), -i))
    return network.links[best].id


REPETITIONS = 3
"""Of capillary routing with a cable cut, so that its loads and ROR have an interval."""
CUT = ("capillary", "least-ror:1.2")
"""Routings that lose a cable: those that leave every pair another way."""
REST_S = (2.5, 6.5)
DOWN_S = (8.0, 11.8)
"""When links are counted while the cable is down: the senders have answered by then."""
TOLERANCE = 0.03
"""Of the greatest predicted load: what sampling the counters leaves open."""


def points(quick: bool, seed: int) -> Points:
    """Capillary routing with a cable cut, three times, the control, the routings it is compared with at rest, and those
    that know all demands, one of them with a cable cut (quick: one network, two runs)."""
    networks = list(PAIRS)[:1] if quick else list(PAIRS)
    runs = [("capillary", "capillary")] * (1 if quick else REPETITIONS) + [("capillary", "ecmp")]
    if not quick:
        runs += [(method, method) for method in ("ecmp", "single", *JOINT)]
    return [
        {"network": network, "predicted": predicted, "installed": installed, "seed": seed + 10 * k}
        for network in networks
        for k, (predicted, installed) in enumerate(runs)
    ]


def measure(point: Row) -> Results:
    """One run of all pairs at once; a run that the machine could not keep up with is repeated twice at most."""
    from testbed.stream.emulated.link_loads import measured_rates, streams_with_link_counts
    from testbed.stream.judgement.streams import judge_stream
    from testbed.stream.prediction.link_rates import link_rates

    control = point["installed"] != point["predicted"]
    cutting = point["predicted"] in CUT and not control
    plans, cut = planned(point["network"], point["predicted"], point["seed"], cutting=cutting)
    other = _splits(plans, point["installed"]) if control else None

    def once() -> tuple[list[StreamJudgement], Any, str | None]:
        runs, samples = streams_with_link_counts(plans, other)
        sessions = [judge_stream(plan, run) for plan, run in zip(plans, runs, strict=True)]
        return sessions, samples, next((one.verdict.invalid for one in sessions if one.verdict.invalid), None)

    sessions, samples, invalid = repeated(once, itemgetter(2), 2)
    base = [one.analysis.policy.base for one in sessions]
    rest = link_rates(plans, base)
    rivals = {method: _rival(plans, method, base) for method in ("capillary", "ecmp", "single")}
    found = {
        "invalid": invalid,
        "cut": None if cut is None else label_of(cut),
        "rest": _loads(rest, measured_rates(samples, REST_S, plans)),
        "rivals": {method: [round(rates[link], 3) for link in rest] for method, rates in rivals.items()},
        "pairs": [_pair(one) for one in sessions],
    }
    if cut is not None:
        sizes = [int(one.analysis.faults[0].predicted_block_size or one.analysis.policy.base) for one in sessions]
        down = (cut, (cut[1], cut[0], cut[2]))
        found["down"] = _loads(link_rates(plans, sizes, down), measured_rates(samples, DOWN_S, plans, down))
    return found


def _rival(plans: Sequence[StreamPlan], method: str, base: Sequence[int]) -> Mapping[LinkId, float]:
    """Packets a second on each link were the same pairs routed by that method."""
    from testbed.stream.prediction.link_rates import link_rates

    splits = _splits(plans, method)
    return link_rates([replace(plan, forward=split) for plan, split in zip(plans, splits, strict=True)], base)


def _splits(plans: Sequence[StreamPlan], method: str) -> list[LabelSplit]:
    """The same pairs routed by that method."""
    from testbed.routing.label_split.spraying import spray
    from testbed.routing.methods import route_by_name

    return [spray(route_by_name(plan.network, plan.source, plan.sink, method)) for plan in plans]


def _loads(predicted: Mapping[LinkId, float], measured: Mapping[LinkId, float]) -> Results:
    return {
        "links": [label_of(link) for link in predicted],
        "predicted": [round(rate, 3) for rate in predicted.values()],
        "measured": [round(measured[link], 3) for link in predicted],
    }


def _pair(session: StreamJudgement) -> Results:
    analysis, plan = session.analysis, session.plan
    return {
        "source": plan.source,
        "sink": plan.sink,
        "failed": [check.name for check in session.verdict.checks if not check.passed],
        **{f"ror_{name}": getattr(analysis, f"ror_{name}") for name in ("predicted", "measured", "tolerance")},
        **{f"loss_{name}": [getattr(f, f"{name}_loss") for f in analysis.faults] for name in ("predicted", "measured")},
    }


def deviation(loads: Row, against: Sequence[float] | None = None) -> float:
    """Greatest difference of a link's measured load (or ``against``) from the predicted one, over the greatest
    predicted load."""
    other = loads["measured"] if against is None else against
    return float(max(abs(a - b) for a, b in zip(loads["predicted"], other, strict=True)) / max(loads["predicted"]))


def judge(rows: Rows) -> Verdict:
    """Loads at rest and with the cable cut; the control found out; ROR of each pair. Repeated runs are judged by their
    mean."""
    groups = grouped(rows, ("network", "predicted", "installed"))
    checks: list[Check] = []
    for (network, predicted, installed), own in groups.items():
        name = f"{network}, {predicted}"
        if installed == predicted:
            checks += _rest_checks(name, own)
            checks += _cut_checks(name, own) if "down" in own[0] else []
            continue
        checks.append(
            Claim(f"{name} predicted, {installed} installed: greatest deviation of a link's load")
            .at_least(3 * TOLERANCE, min(deviation(row["rest"]) for row in own))
            .against(TOLERANCE, "a wrong splitting that is taken for the right one")
        )
    invalid = next((row["invalid"] for row in rows if row["invalid"] and row["installed"] == row["predicted"]), None)
    return Verdict(checks=tuple(checks), invalid=invalid, notes=_notes(rows))


def _rest_checks(name: str, rows: Rows) -> list[Check]:
    row, (rest, open_to) = rows[0], pooled([row["rest"] for row in rows])
    others = ("ecmp", "single") if row["predicted"] == "capillary" else ("capillary",)
    nearest = min(others, key=lambda method: deviation(rest, row["rivals"][method]))
    top = max(rest["predicted"])
    return [
        Claim(f"{name}: greatest deviation of a link's load at rest, over the greatest load")
        .at_most(TOLERANCE, deviation(rest))
        .against(deviation(rest, row["rivals"][nearest]), f"the loads of {nearest}")
        .plus_minus(None if open_to is None else open_to / top)
        .noting(f"{len(rest['links'])} links, {len(rows)} run{'s' * (len(rows) > 1)}"),
        Claim(f"{name}: load of the fullest link at rest, packets/s")
        .equal(top, max(rest["measured"]), TOLERANCE * top)
        .against(max(row["rivals"][nearest]), f"the fullest link of {nearest}")
        .plus_minus(open_to),
    ]


def _cut_checks(name: str, rows: Rows) -> list[Check]:
    row, (down, open_to) = rows[0], pooled([row["down"] for row in rows])
    found = [
        Claim(f"{name}, {row['cut']} down: greatest deviation of a link's load, over the greatest load")
        .at_most(TOLERANCE, deviation(down))
        .against(deviation(down, row["rest"]["predicted"]), "the loads at rest: nobody answers")
        .plus_minus(None if open_to is None else open_to / max(down["predicted"]))
    ]
    for k, pair in enumerate(row["pairs"]):
        if pair["ror_predicted"] > 0:
            measured = [one["pairs"][k]["ror_measured"] for one in rows]
            found.append(
                Claim(f"{name}: ROR of {pair['source']} to {pair['sink']} for {row['cut']}")
                .equal(pair["ror_predicted"], sum(measured) / len(measured), pair["ror_tolerance"])
                .against(0.0, "a sender that answers nothing")
                .plus_minus(interval(measured))
            )
    return found


def pooled(loads: Rows) -> tuple[Results, float | None]:
    """The mean of several runs' loads, and the widest half of a link's 95 % interval (None for a single run)."""
    by_link = list(zip(*(one["measured"] for one in loads), strict=True))
    widths = [width for own in by_link if (width := interval(own)) is not None]
    mean = [sum(own) / len(own) for own in by_link]
    return {**loads[0], "measured": mean}, max(widths, default=None)


def _notes(rows: Rows) -> tuple[str, ...]:
    notes = []
    for row in (row for row in rows if row["installed"] == row["predicted"]):
        failed = [f"{pair['source']} to {pair['sink']}: {name}" for pair in row["pairs"] for name in pair["failed"]]
        passed = f"checks of the streams' own verdicts that failed: {'; '.join(failed)}"
        passed = passed if failed else "all streams' own verdicts passed"
        fullest = f"fullest link {max(row['rest']['measured']):.1f} packets/s"
        notes.append(f"{row['network']}, {row['predicted']}: {fullest}; {passed}")
    return tuple(notes)


def figures(rows: Rows) -> Figures:
    """Measured against predicted load of every link, one panel a run; grey: what ECMP would have put there."""
    columns = min(4, len(rows))
    lines = -(-len(rows) // columns)
    figure, every = panels(3.3 * columns, 3.2 * lines, lines, columns)
    for axes, row in zip(every, rows, strict=False):
        rest = row["rest"]
        top = 1.1 * max(*rest["predicted"], *rest["measured"])
        axes.plot([0, top], [0, top], color=INK, linewidth=0.8)
        if row["predicted"] == "capillary":
            axes.plot(rest["predicted"], row["rivals"]["ecmp"], "x", color="grey", markersize=4, label="ECMP's")
        axes.plot(rest["predicted"], rest["measured"], ".", color=BLUE, label="at rest")
        if "down" in row and row["installed"] == row["predicted"]:
            axes.plot(row["down"]["predicted"], row["down"]["measured"], ".", color=ORANGE, label=f"{row['cut']} down")
        control = f"\n(control: {row['installed']} installed)" if row["installed"] != row["predicted"] else ""
        axes.set_title(f"{row['network']}: {row['predicted']}{control}")
        axes.legend()
    for axes in every[len(rows) :]:
        axes.axis("off")
    figure.supxlabel("predicted load of a link, packets/s", fontsize=9)
    figure.supylabel("counted by the switches, packets/s", fontsize=9)
    return {"link-loads": figure}


STUDY = Study.of_module(
    __name__,
    title="A handful of pairs at once on switches",
    ror_code=describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5),
    answers="not in the documents: "
    "whether predicted link loads of several capillary routes add up on switches, and what tells them from ECMP's",
    emulation=True,
    deviations=("Gabrielyan 2007 has one stream at a time; several at once are ours.",),
)
