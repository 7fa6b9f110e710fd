"""What does it change where the simulator departs from the document (Zarza 2011, chapters 3 and 4)?

Each departure is an option: the run with it and the run without it meet the same messages and the same failures. The
table of docs/replication/ft_drb_deviations.md quotes what this study measures.
"""

from collections.abc import Iterable
from dataclasses import replace

from experiments.interconnect.runs import parameters_of
from experiments.interconnect.samples import COUNTED, at_least, equal
from experiments.interconnect.study_points import UNIFORM_S, Run, faults_of, network_of, traffic_of
from testbed.interconnect.options import NacOptions
from testbed.interconnect.results import summarize
from testbed.interconnect.simulation import simulate
from testbed.model.studies import (
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    spread,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_bars

NETWORK, LINK_BPS = "torus:8x8", 2e9
DEFAULT = "as it is"
OPTIONS: dict[str, Results] = {
    "ACKs share buffers": {"options": {"ack_buffers": "shared"}},
    "header of 16 B": {"options": {"header_bytes": 16}},
    "synthetic probes": {"options": {"probes": "synthetic"}},
    "Algorithm 3.3 to the letter": {"options": {"hysteresis": False, "averaging": 1}},
    "stop_st at detection": {"nac": {"stop_output": True}},
    "identification anew": {"nac": {"identify_anew": True}},
    "strict avoidance buffer": {"nac": {"strict_slot": True}},
}
OF_FT_DRB, OF_NAC = tuple(OPTIONS)[:4], tuple(OPTIONS)[4:]
RING = "ring of 8"
BUSY: Results = {
    "rate": 0.6 * LINK_BPS / (8 * 2048),
    "seconds": 0.002,
    "faults": 8,
    "fault_kind": "start",
}
PLACES: dict[str, Results] = {
    "400 packets/s": {"faults": 12, "fault_kind": "start"},
    "transient faults": {"faults": 12, "fault_kind": "transient"},
    "intermittent faults": {"faults": 12, "fault_kind": "intermittent"},
    "0.2 of a link": {"rate": 0.2 * LINK_BPS / (8 * 512), "seconds": 0.032, "faults": 12, "fault_kind": "start"},
    "0.6 of a link": BUSY | {"bytes": 2048, "buffer_bytes": 4096},
    RING: {
        "network": "ring:8", "pattern": "tornado", "routing": "dor", "rate": 34_000.0, "seconds": 0.02, "bytes": 2048,
        "buffer_bytes": 4096,
    },
}  # fmt: skip
"""An 8x8 torus, uniform; 512 bytes, in the last place 2 KB and NAC at work. At the stated rate for as long as all
studies of uniform traffic (``traffic.UNIFORM_S``); at 0.2 of a link for about as many messages."""
STATED = ("400 packets/s", "transient faults", "intermittent faults")
"""Where performance is requested: each has runs without failures, too."""


def options_at(place: str) -> tuple[str, ...]:
    """Which departures are tried there."""
    if place == RING:
        return OF_NAC
    if place in STATED:
        return tuple(name for name in OF_FT_DRB if name != "Algorithm 3.3 to the letter")
    return OF_FT_DRB if place == "0.2 of a link" else (*OF_FT_DRB[:2], *OF_NAC)


def points(quick: bool, seed: int) -> Points:
    """Every place and departure, and the same without; where performance is requested, without failures too."""
    found: Points = []
    for s in range(seed, seed + (2 if quick else 20)):
        for place, settings in PLACES.items():
            seconds = settings.get("seconds", UNIFORM_S[NETWORK]) / (8 if quick else 1)
            for option in (DEFAULT, *options_at(place)):
                mine = {"place": place, "option": option, "seed": s, "seconds": seconds}
                found.append(mine | {"whole": False})
                if place == STATED[0]:
                    found.append(mine | {"whole": True})
    return found


def measure(point: Row) -> Results:
    """One run: what arrived, by when, how late (equations 5.1 and 5.2), and what FT-DRB and NAC did."""
    chosen, end = OPTIONS.get(point["option"], {}), point["seconds"]
    settings = {"network": NETWORK, "pattern": "uniform", "seed": point["seed"]} | PLACES[
        point["place"]
    ]
    of = Run(**settings | {"seconds": end, "options": chosen.get("options", {})})
    parameters = replace(parameters_of(of), nac=NacOptions(**chosen.get("nac", {})))
    faults = () if point["whole"] else faults_of(of)
    run = simulate(network_of(of.network), traffic_of(of), parameters, faults)
    return {
        "sent": run.sent,
        "received": run.received,
        "deadlocked": run.deadlocked,
        "latency_s": summarize(run, start_s=0.0, end_s=end).destination_mean_latency_s,
        "last_s": float(run.delivered.max()) / run.ticks_per_s,
        "digest": run.digest,
        "escaped": int((run.escapes > 0).sum()),
        "drb": dict(run.drb_counters),
        "nac": {name: int(count) for name, count in run.nac_counters.items()},
    }


def judge(rows: Rows) -> Verdict:
    """All is delivered whatever the letter; what performance and latency differ by."""
    sent, received = (sum_of(rows, name) for name in ("sent", "received"))
    checks = [
        Claim("messages that a run leaves undelivered, with any of the departures and without")
        .count(0.0, sent - received, COUNTED)
        .noting(
            f"{len(rows)} runs, {sent} messages, {sum(bool(row['deadlocked']) for row in rows)} deadlocked"
        )
        .of(sent + received)
    ]
    cost = spread([100.0 * (1.0 - own) for own, _ in _performances(rows, STATED[0], DEFAULT)])[0]
    for place in STATED:
        for option in options_at(place):
            apart = [100.0 * (a - b) for a, b in _performances(rows, place, option)]
            check = equal(
                f"{place}, {option}: performance beside that without (points)", 0.0, apart, 0.1
            )
            checks.append(
                check.against(cost, "as much as the failed links themselves cost for good")
            )
    arrived = "ring of 8, stop_st at detection: time until all has arrived, over that without"
    last, strict = (
        _ratios(rows, RING, name, "last_s")
        for name in ("stop_st at detection", "strict avoidance buffer")
    )
    late = _ratios(rows, "0.6 of a link", "ACKs share buffers")
    checks += [
        equal(arrived, 1.0, last, 0.02).against(
            spread(strict)[0], "as with a strict avoidance buffer"
        ),
        at_least("0.6 of a link, ACKs share buffers: latency over that without", 1.1, late).against(
            1.0, "ACKs take no room that messages miss"
        ),
    ]
    return Verdict.of(checks)


def _performances(rows: Rows, place: str, option: str) -> Iterable[tuple[float, float]]:
    """L0 / Lf of each seed with the departure and without it; L0 is of the run without failures under the same
    option."""
    latency = {
        (row["place"], row["option"], row["seed"], row["whole"]): row["latency_s"] for row in rows
    }
    for row in where(rows, whole=True, option=option):
        seed = row["seed"]
        own, other = (
            latency[STATED[0], o, seed, True] / latency[place, o, seed, False]
            for o in (option, DEFAULT)
        )
        yield own, other


def _ratios(rows: Rows, place: str, option: str, field: str = "latency_s") -> list[float]:
    """With the departure over without it, seed by seed."""
    of_place = where(rows, place=place, whole=False)
    by = {(row["option"], row["seed"]): row[field] for row in of_place}
    return [value / by[DEFAULT, seed] for (name, seed), value in by.items() if name == option]


def figures(rows: Rows) -> Figures:
    """Change of latency by departure and place, in per cent; of the ring, of the time until all has arrived."""
    fields = {place: "last_s" if place == RING else "latency_s" for place in PLACES}
    changes = {
        (place, option): [100.0 * (ratio - 1.0) for ratio in _ratios(rows, place, option, field)]
        for place, field in fields.items()
        for option in options_at(place)
    }
    y = "latency, of the ring time to drain (% more)"
    return {"departures": draw_bars("What each departure changes", changes, y=y)}


STUDY = Study.of_module(
    __name__,
    name="interconnect_deviations",
    title="Where the simulator departs from the document: what each departure changes",
    deviations=(
        "8x8 torus, ring of 8; uniform, tornado; twenty seeds; "
        "8 s at the stated rate, 32 ms at 0.2 of a link, 2 ms at 0.6.",
        "The header's 16 bytes are ours (two routers, a latency, two bits): the document gives no sizes.",
        "Criteria were set after three trial seeds of the overloaded places.",
    ),
    answers="Zarza 2011, sections 3.1, 3.3, 3.5.1, 3.6.2, 4.2: the letter where the simulator does otherwise",
)
