"""FT-DRB and NAC beside other routings and other ways to avoid deadlock: latency and throughput over load, with dead
links.

Dead links are dead from the start. Routings with tables of their own (up*/down*, odd-even, free choice of shortest
paths) know them; dimension order with bubble flow control does not, and FT-DRB finds them, for which it gets as many
messages a node at every load as the studies of failures have; what is judged in a fiftieth and twice as many, too.
"""

from itertools import product

from experiments.interconnect.figures import LATENCY, named
from experiments.interconnect.runs import model_of, parameters_of
from experiments.interconnect.samples import at_most, stands_still
from experiments.interconnect.study_points import Run, faults_of, traffic_of
from testbed.errors import InputError
from testbed.interconnect.results import summarize
from testbed.interconnect.simulation import dead_from_start, simulate
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    spread,
    where,
)
from testbed.report.drawing.charts import draw_lines

PACKET_BYTES, LINK_BPS = 2048, 2e9
DEAD = {"torus:8x8": (0, 1, 6, 12), "fat-tree:4,3": (0, 1, 6, 12)}
"""No cable, one, 5 % and 10 % of the 128."""
LOADS = (0.05, 0.15, 0.25, 0.4)
"""Fractions of a link that every host offers."""
MESSAGES = 3200
"""A node, at every load: those of 8 s at the document's rate (``traffic.UNIFORM_S``)."""
SHARES = (0.02, 1.0, 2.0)
"""Of so many messages, for the two routings that are compared, at the least load; figures are those of the middle
one."""
COMMON = (
    ("ft-drb", "nac"), ("up-down", "none"), ("minimal-adaptive", "nac"), ("minimal-adaptive", "disha"),
    ("valiant", "none"), ("ugal", "none"),
)  # fmt: skip
RIVALS = {
    "torus:8x8": (*COMMON, ("dateline", "none"), ("odd-even", "none"), ("dor", "bubble")),
    "fat-tree:4,3": COMMON,
}
SEEN = 0.01
"""Of the other's latency: what doubling the time may move the ratio by."""
COMPARED = (("ft-drb", "nac"), ("up-down", "none"))
COPING = {
    ("ft-drb", "nac"),
    ("up-down", "none"),
    ("minimal-adaptive", "nac"),
    ("minimal-adaptive", "disha"),
}
"""Those that are to deliver everything whatever has failed, while the network is one."""


def points(quick: bool, seed: int) -> Points:
    """Network, rival, dead cables, load, seed; ``share``: of the study's own time."""
    found, loads, longer = [], LOADS[:1] if quick else LOADS, 1 if quick else 16
    for s, (network, rivals) in product(range(seed, seed + (1 if quick else 6)), RIVALS.items()):
        for rival, dead, load in product(rivals, DEAD[network][:: 3 if quick else 1], loads):
            seconds = longer * MESSAGES / _rate(load, PACKET_BYTES) / 16
            for share in SHARES if rival in COMPARED and load == LOADS[0] else (1.0,):
                run: Results = {"faults": dead, "load": load, "seed": s, "bytes": PACKET_BYTES}
                found.append(
                    rival_point("rivals", network, rival, share=share, seconds=seconds, **run)
                )
    return found


def _rate(load: float, size: float) -> float:
    """Packets a second of a host that offers so much of its link."""
    return load * LINK_BPS / (8 * size)


def rival_point(
    part: str, network: str, rival: tuple[str, str], *, share: float, seconds: float, **point: float
) -> Results:
    """A run of ``share`` of the seconds, for ``measure``; ``faults`` dead cables, ``load``, ``seed`` and ``bytes`` of a
    packet."""
    return point | {
        "part": part, "network": network, "pattern": "uniform", "routing": rival[0], "deadlock": rival[1],
        "fault_kind": "start" if point["faults"] else "none", "rate": _rate(point["load"], point["bytes"]),
        "share": share, "seconds": share * seconds,
    }  # fmt: skip


def measure(point: Row) -> Results:
    """One run; ``cannot``: why the routing has no way between some hosts."""
    run = Run.of(point)
    faults, parameters = faults_of(run), parameters_of(run)
    adaptive = run.routing not in ("dor", "ft-drb")
    try:
        model = model_of(
            run.network, parameters, dead_from_start(faults) if adaptive else frozenset()
        )
        done = simulate(model, traffic_of(run), parameters, faults)
    except InputError as error:
        return {"cannot": str(error)}
    window = summarize(done, start_s=0.2 * run.seconds, end_s=0.95 * run.seconds)
    return {
        "cannot": "",
        "sent": done.sent,
        "received": done.received,
        "latency_s": window.mean_latency_s,
        "throughput": window.throughput,
    }


def judge(rows: Rows) -> Verdict:
    """Who copes delivers all, who does not loses; FT-DRB against up*/down*, in twice the time as before; detours
    cost."""
    everything = where(rows, part="rivals")
    own = where(everything, share=1.0)
    checks = [_delivery(everything)]
    for network in RIVALS:
        checks += [*_against_up_down(everything, network), _detours(own, network)]
    return Verdict.of(checks)


def _delivery(rows: Rows) -> Check:
    """Messages that routings which are to cope do not deliver; the rival: those of dimension order with dead links."""
    dead = [row for row in rows if row["faults"]]
    coping = [row for row in dead if (row["routing"], row["deadlock"]) in COPING]
    rival = [row for row in dead if row["routing"] == "dor"]
    lost, rival_lost = (
        sum(row.get("sent", 1) - row.get("received", 0) for row in some) for some in (coping, rival)
    )
    coped = "FT-DRB, up*/down*, and free shortest paths with NAC or recovery"
    return (
        Claim(f"messages that {coped} leave undelivered with dead links")
        .equal(0.0, lost)
        .against(
            rival_lost, "as dimension order with bubble flow control, which knows no way round"
        )
        .noting(f"{len(coping)} runs")
    )


def _latencies(
    rows: Rows, network: str, rival: tuple[str, str], dead: int, load: float
) -> dict[int, float]:
    """Seed -> latency of the runs of a rival that delivered all."""
    runs = _runs(rows, network, rival, dead, load)
    return {
        row["seed"]: row["latency_s"]
        for row in runs
        if not row["cannot"] and row["received"] == row["sent"]
    }


def _runs(rows: Rows, network: str, rival: tuple[str, str], dead: int, load: float) -> list[Row]:
    """Those of one rival at one load."""
    return where(rows, network=network, routing=rival[0], deadlock=rival[1], faults=dead, load=load)


def _against_up_down(rows: Rows, network: str) -> list[Check]:
    """FT-DRB's latency over that of up*/down* with a tenth of the links dead, at the least load; and in twice the
    time."""
    most, least = max(DEAD[network]), min(row["load"] for row in rows)
    short, own, doubled = (
        _ratios(where(rows, share=share), network, most, least) for share in SHARES
    )
    name = (
        f"{network}: latency of FT-DRB with NAC over that of up*/down*, a tenth of the links dead"
    )
    return [
        at_most(name, 0.95, own, f"load {least}").against(
            1.0, "no better than tables computed anew"
        ),
        stands_still(
            f"{network}: FT-DRB's latency in parts of up*/down*'s",
            SHARES[0],
            short,
            own,
            doubled,
            may=SEEN,
        ),
    ]


def _ratios(rows: Rows, network: str, dead: int, load: float) -> list[float]:
    """Latency of FT-DRB over that of up*/down*, of each seed."""
    ours, theirs = (_latencies(rows, network, rival, dead, load) for rival in COMPARED)
    return [ours[seed] / theirs[seed] for seed in ours if seed in theirs]


def _detours(rows: Rows, network: str) -> Check:
    """What Valiant's detour costs at the least load, UGAL's being the rival."""
    least = min(row["load"] for row in rows)
    shortest = "up-down" if network.startswith("fat") else "dateline"
    straight, valiant, ugal = (
        spread(list(_latencies(rows, network, (name, "none"), 0, least).values()))[0]
        for name in (shortest, "valiant", "ugal")
    )
    return (
        Claim(
            f"{network}: latency of Valiant's detours over that of shortest paths, at little load"
        )
        .at_least(1.02, valiant / straight)
        .against(
            min(ugal / straight, 1.0), "it costs nothing, as with UGAL, which goes straight there"
        )
        .noting(f"load {least}; UGAL {ugal / straight:.3f}")
    )


def figures(rows: Rows) -> Figures:
    """Latency and accepted load over load, by rival, without dead links and with a tenth of them dead."""
    drawn, own = {}, where(rows, part="rivals", share=1.0)
    offered = "offered load (fraction of a link, each host)"
    for network, rivals in RIVALS.items():
        for dead in (0, max(DEAD[network])):
            late, accepted = {}, {}
            for rival, load in product(rivals, LOADS):
                place = (" + ".join(rival), load)
                if delivered := _latencies(own, network, rival, dead, load):
                    late[place] = [1e6 * value for value in delivered.values()]
                if ran := where(_runs(own, network, rival, dead, load), cannot=""):
                    accepted[place] = [load * row["throughput"] for row in ran]
            name, setting = f"{named(network)}-{dead}", f"{network}, uniform, {dead} dead cables"
            title = f"{setting}: latency over load (runs that delivered all)"
            drawn[name] = draw_lines(title, late, x=offered, y=LATENCY)
            drawn[name].axes[0].set_yscale("log")  # beyond saturation it grows with the run
            y = "accepted (fraction of a link, each host)"
            drawn[f"{name}-accepted"] = draw_lines(
                f"{setting}: accepted load", accepted, x=offered, y=y
            )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_rivals",
    title="FT-DRB and NAC beside other routings and other ways to avoid deadlock",
    deviations=(
        "The document compares with one figure of another paper (5.6.7); rivals, loads and 2 KB packets are ours.",
        "As many messages a node at every load as in 8 s at the document's rate, six seeds (--quick: 200, one seed); "
        "beyond saturation latency grows with the run.",
        "Links are dead from the start; rivals' tables are made for what is left, FT-DRB learns of the dead links.",
        "Virtual channels differ: one for FT-DRB, up*/down*, "
        "free shortest paths and bubble flow control (buffers of 8 KB), two for the dateline, "
        "three for odd-even on tori, four (torus) or eight (tree) for Valiant and UGAL, each with buffers of its own.",
    ),
    answers="Zarza 2011, sections 3.7 and 5.6.7: FT-DRB against other fault-tolerant routings",
)
