"""A handful of pairs at once on real switches: what each link carries against what the routing says, at rest and with a cable cut.

Link loads are read from the switches' own counters, not from the streams' logs. The rivals are the loads of other routings of the same
pairs; a control installs ECMP where capillary routing is predicted, and must be found out. ROR is measured for each pair as in every
stream: packets sent while the cable is down, over those at rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict

Row = Mapping[str, Any]
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
"""Source, sink and source packets a second: as many pairs as there are nodes for, each node an end of one stream at most."""
SYMBOL_BYTES = 1000
"""Large, so that coded packets are told from loss reports by their size."""
REST_S = (2.5, 6.5)
FAULT_S = (7.0, 12.0)
DOWN_S = (8.0, 11.8)
"""When links are counted while the cable is down: the senders have answered by then."""
DURATION_S = {True: 15.5, False: 8.0}
"""With a cable cut, and without."""
TOLERANCE = 0.03
"""Of the greatest predicted load: what sampling the counters leaves open."""


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Capillary routing with a cable cut, the control, and the routings it is compared with at rest (quick: one network, two runs)."""
    networks = list(PAIRS)[:1] if quick else list(PAIRS)
    runs = [("capillary", "capillary"), ("capillary", "ecmp"), ("ecmp", "ecmp"), ("single", "single")]
    return [
        {"network": network, "predicted": predicted, "installed": installed, "seed": seed}
        for network in networks
        for predicted, installed in (runs[:2] if quick else runs)
    ]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """One run of all pairs at once; a run that the machine could not keep up with is repeated twice at most."""
    from testbed.routing.label_split.spraying import spray
    from testbed.routing.methods import route_by_name
    from testbed.stream.emulated.link_loads import measured_rates, streams_with_link_counts
    from testbed.stream.prediction.link_rates import link_rates
    from testbed.stream.session import judged_session

    control = point["installed"] != point["predicted"]
    cutting = point["predicted"] == "capillary" and not control
    plans, routes, cut = planned(point["network"], point["predicted"], point["seed"], cutting=cutting)
    other = None
    if control:
        ends = [(plan.source, plan.sink) for plan in plans]
        other = [spray(route_by_name(plans[0].network, *pair, point["installed"])) for pair in ends]
    for _ in range(3):
        runs, samples = streams_with_link_counts(plans, other)
        sessions = [judged_session(plan, route, run) for plan, route, run in zip(plans, routes, runs, strict=True)]
        invalid = next((one.verdict.invalid for one in sessions if one.verdict.invalid is not None), None)
        if invalid is None:
            break
    base = [one.analysis.policy.base for one in sessions]
    rest = link_rates(plans, base)
    rivals = {method: _rival(plans, method, base) for method in ("capillary", "ecmp", "single")}
    idle = [link for link in rest if not any(rates[link] for rates in rivals.values())]
    found = {
        "invalid": invalid,
        "cut": None if cut is None else f"{cut[0]}->{cut[1]}",
        "rest": _loads(rest, measured_rates(samples, REST_S, SYMBOL_BYTES, idle)),
        "rivals": {method: [round(rates[link], 3) for link in rest] for method, rates in rivals.items()},
        "pairs": [_pair(one) for one in sessions],
    }
    if cut is not None:
        sizes = [int(one.analysis.faults[0].predicted_block_size or one.analysis.policy.base) for one in sessions]
        predicted = link_rates(plans, sizes, (cut, (cut[1], cut[0], cut[2])))
        found["down"] = _loads(predicted, measured_rates(samples, DOWN_S, SYMBOL_BYTES, idle))
    return found


def planned(network: str, method: str, seed: int, *, cutting: bool) -> tuple[list[Any], list[Any], Any]:
    """(plans, routes, link that fails or None): all streams of a network; where one is cut, it is the one that the pairs load most."""
    from dataclasses import replace

    from testbed.faults.fault import Fault
    from testbed.stream.plan import StreamParameters
    from testbed.stream.session import SessionRequest, plan_session, plans_together

    requests = [
        SessionRequest(
            network=network,
            source=source,
            sink=sink,
            method=method,
            stream=StreamParameters(rate_pps=rate, symbol_bytes=SYMBOL_BYTES, playback_s=1.0, hold_s=0.5),
            duration_s=DURATION_S[cutting],
            seed=seed,
        )
        for source, sink, rate in PAIRS[network]
    ]
    cut = None
    if cutting:
        cut = _shared_link([plan_session(request)[0] for request in requests])
        fault = Fault(link=cut, kind="down", start_s=FAULT_S[0], stop_s=FAULT_S[1])
        requests = [replace(request, faults=(fault,)) for request in requests]
    together = plans_together(requests)
    return [plan for plan, _ in together], [route for _, route in together], cut


def _shared_link(plans: Sequence[Any]) -> Any:
    """The link of the greatest sum of shares that no pair has all of its flow on."""
    network = plans[0].network
    shares = [[float(plan.forward.load(i)) for plan in plans] for i in range(len(network.links))]
    best = max((i for i, own in enumerate(shares) if max(own) < 0.6), key=lambda i: (sum(shares[i]), -i))
    return network.links[best].id


def _rival(plans: Sequence[Any], method: str, base: Sequence[int]) -> Mapping[Any, float]:
    """Packets a second on each link were the same pairs routed by that method."""
    from dataclasses import replace

    from testbed.routing.label_split.spraying import spray
    from testbed.routing.methods import route_by_name
    from testbed.stream.prediction.link_rates import link_rates

    network = plans[0].network
    others = [replace(p, forward=spray(route_by_name(network, p.source, p.sink, method))) for p in plans]
    return link_rates(others, base)


def _loads(predicted: Mapping[Any, float], measured: Mapping[Any, float]) -> dict[str, Any]:
    from topologies.network import label_of

    return {
        "links": [label_of(link) for link in predicted],
        "predicted": [round(rate, 3) for rate in predicted.values()],
        "measured": [round(measured[link], 3) for link in predicted],
    }


def _pair(session: Any) -> dict[str, Any]:
    analysis, plan = session.analysis, session.plan
    return {
        "source": plan.source,
        "sink": plan.sink,
        "failed": [check.name for check in session.verdict.checks if not check.passed],
        "ror_predicted": analysis.ror_predicted,
        "ror_measured": analysis.ror_measured,
        "ror_tolerance": analysis.ror_tolerance,
        "loss_predicted": [fault.predicted_loss for fault in analysis.faults],
        "loss_measured": [fault.measured_loss for fault in analysis.faults],
    }


def deviation(loads: Mapping[str, Any], against: Sequence[float] | None = None) -> float:
    """Greatest difference of a link's measured load (or ``against``) from the predicted one, over the greatest predicted load."""
    other = loads["measured"] if against is None else against
    return float(max(abs(a - b) for a, b in zip(loads["predicted"], other, strict=True)) / max(loads["predicted"]))


def judge(rows: Sequence[Row]) -> Verdict:
    """Loads at rest and with the cable cut; the control found out; ROR of each pair."""
    checks: list[Check] = []
    for row in rows:
        name = f"{row['network']}, {row['predicted']}"
        rest = row["rest"]
        if row["installed"] != row["predicted"]:
            checks.append(
                Check.at_least(
                    f"{name} predicted, {row['installed']} installed: greatest deviation of a link's load",
                    3 * TOLERANCE,
                    deviation(rest),
                    rival=TOLERANCE,
                    rival_is="a wrong splitting that is taken for the right one",
                )
            )
            continue
        others = ("ecmp", "single") if row["predicted"] == "capillary" else ("capillary",)
        nearest = min(others, key=lambda method: deviation(rest, row["rivals"][method]))
        checks += [
            Check.at_most(
                f"{name}: greatest deviation of a link's load at rest, over the greatest load",
                TOLERANCE,
                deviation(rest),
                rival=deviation(rest, row["rivals"][nearest]),
                rival_is=f"the loads of {nearest}",
                detail=f"{len(rest['links'])} links",
            ),
            Check.equal(
                f"{name}: load of the fullest link at rest, packets/s",
                max(rest["predicted"]),
                max(rest["measured"]),
                tolerance=TOLERANCE * max(rest["predicted"]),
                rival=max(row["rivals"][nearest]),
                rival_is=f"the fullest link of {nearest}",
            ),
        ]
        if "down" in row:
            checks += _cut_checks(name, row)
    invalid = next((row["invalid"] for row in rows if row["invalid"] and row["installed"] == row["predicted"]), None)
    return Verdict(checks=tuple(checks), invalid=invalid, notes=_notes(rows))


def _cut_checks(name: str, row: Row) -> list[Check]:
    down, rest = row["down"], row["rest"]
    found = [
        Check.at_most(
            f"{name}, {row['cut']} down: greatest deviation of a link's load, over the greatest load",
            TOLERANCE,
            deviation(down),
            rival=deviation(down, rest["predicted"]),
            rival_is="the loads at rest: nobody answers",
        )
    ]
    for pair in row["pairs"]:
        if pair["ror_predicted"] > 0:
            found.append(
                Check.equal(
                    f"{name}: ROR of {pair['source']} to {pair['sink']} for {row['cut']}",
                    pair["ror_predicted"],
                    pair["ror_measured"],
                    tolerance=pair["ror_tolerance"],
                    rival=0.0,
                    rival_is="a sender that answers nothing",
                )
            )
    return found


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    notes = []
    for row in rows:
        failed = [f"{pair['source']} to {pair['sink']}: {name}" for pair in row["pairs"] for name in pair["failed"]]
        if row["installed"] == row["predicted"]:
            notes.append(
                f"{row['network']}, {row['predicted']}: fullest link {max(row['rest']['measured']):.1f} packets/s; "
                + (
                    f"checks of the streams' own verdicts that failed: {'; '.join(failed)}"
                    if failed
                    else "all streams' own verdicts passed"
                )
            )
    return tuple(notes)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Measured against predicted load of every link, one panel a run; grey: what ECMP would have put there."""
    from matplotlib.figure import Figure

    columns = min(4, len(rows))
    lines = -(-len(rows) // columns)
    figure = Figure(figsize=(3.3 * columns, 3.2 * lines), layout="constrained")
    every = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes, row in zip(every, rows, strict=False):
        rest = row["rest"]
        top = 1.1 * max(*rest["predicted"], *rest["measured"])
        axes.plot([0, top], [0, top], color="black", linewidth=0.8)
        if row["predicted"] == "capillary":
            axes.plot(rest["predicted"], row["rivals"]["ecmp"], "x", color="grey", markersize=4, label="ECMP's")
        axes.plot(rest["predicted"], rest["measured"], ".", color="#0072b2", label="at rest")
        if "down" in row and row["installed"] == row["predicted"]:
            axes.plot(
                row["down"]["predicted"], row["down"]["measured"], ".", color="#d55e00", label=f"{row['cut']} down"
            )
        control = row["installed"] != row["predicted"]
        axes.set_title(
            f"{row['network']}: {row['predicted']}" + (f"\n(control: {row['installed']} installed)" if control else ""),
            fontsize=9,
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    for axes in every[len(rows) :]:
        axes.axis("off")
    figure.supxlabel("predicted load of a link, packets/s", fontsize=9)
    figure.supylabel("counted by the switches, packets/s", fontsize=9)
    return {"link-loads": figure}


STUDY = Study.of_module(
    __name__,
    name="demand_loads",
    title="A handful of pairs at once on switches",
    does="four and five streams at once over Swiss-T1 and NSFNET's optical cloud: link loads by the switches' counters, a cable cut, ROR of each pair",
    answers="not in the documents: whether predicted link loads of several capillary routes add up on switches, and what tells them from ECMP's",
    emulation=True,
    deviations=("Gabrielyan 2007 has one stream at a time; several at once are ours.",),
)
