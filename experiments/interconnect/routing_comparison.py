"""Compares FT-DRB and NAC with other routings and other ways to avoid deadlock, with dead links.

Latency and throughput are measured over load. Dead links are dead from the start. Routings with
tables (up*/down*, odd-even, free choice of shortest paths) know them. Dimension order with bubble
flow control does not. FT-DRB discovers them, which takes time: at every load it gets as many
messages per node as in the studies of failures. The figures that are judged are also measured in
a fiftieth of the time and in twice the time.
"""

from collections.abc import Sequence
from itertools import product

from experiments.interconnect.figures import LATENCY, file_name_of
from experiments.interconnect.runs import model_of, parameters_of
from experiments.interconnect.samples import at_most, mean, stands_still
from experiments.interconnect.study_points import LINK_BPS, Run, faults_of, traffic_of
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
    where,
)
from testbed.report.drawing.charts import draw_lines

PACKET_BYTES = 2048

# Number of dead cables, of 128: none, one, 5 % and 10 %.
DEAD = {"torus:8x8": (0, 1, 6, 12), "fat-tree:4,3": (0, 1, 6, 12)}

# Fractions of a link that every host offers.
LOADS = (0.05, 0.15, 0.25, 0.4)

# Number of messages per node at every load. The document's rate gives as many in 8 s
# (``study_points.UNIFORM_S``).
MESSAGES = 3200

# Lengths of a run in parts of the usual length. Only runs of the two compared routings at the
# lowest load have all of these lengths. Figures show the usual length.
SHARES = (0.02, 1.0, 2.0)

# A routing, and how deadlock is avoided or treated.
Rival = tuple[str, str]

FT_DRB: Rival = ("ft-drb", "nac")
UP_DOWN: Rival = ("up-down", "none")
COMPARED = (FT_DRB, UP_DOWN)

# Rivals that should deliver every message while the network is connected, whatever has failed.
COPING = (FT_DRB, UP_DOWN, ("minimal-adaptive", "nac"), ("minimal-adaptive", "disha"))

# Rivals on both networks, and all rivals of each network.
COMMON = (*COPING, ("valiant", "none"), ("ugal", "none"))
RIVALS: dict[str, tuple[Rival, ...]] = {
    "torus:8x8": (*COMMON, ("dateline", "none"), ("odd-even", "none"), ("dor", "bubble")),
    "fat-tree:4,3": COMMON,
}

# Largest change of the ratio of two latencies when the time is doubled.
MAX_RATIO_CHANGE = 0.01


def points(quick: bool, seed: int) -> Points:
    """Return the points: each network, rival, number of dead cables and load, for each seed."""
    seed_count = 1 if quick else 6
    loads = LOADS[:1] if quick else LOADS
    messages = MESSAGES / 16 if quick else MESSAGES
    result = []
    for run_seed, (network, rivals) in product(range(seed, seed + seed_count), RIVALS.items()):
        dead_counts: Sequence[int] = DEAD[network]
        if quick:
            dead_counts = dead_counts[::3]
        for rival, dead, load in product(rivals, dead_counts, loads):
            seconds = messages / _packets_per_s(load, PACKET_BYTES)
            shares: Sequence[float] = (1.0,)
            if rival in COMPARED and load == LOADS[0]:
                shares = SHARES
            for share in shares:
                run: Results = {
                    "faults": dead,
                    "load": load,
                    "seed": run_seed,
                    "bytes": PACKET_BYTES,
                }
                point = rival_point("rivals", network, rival, share=share, seconds=seconds, **run)
                result.append(point)
    return result


def _packets_per_s(load: float, packet_bytes: float) -> float:
    """Return the packets per second of a host that offers this fraction of its link."""
    return load * LINK_BPS / (8 * packet_bytes)


def rival_point(
    part: str, network: str, rival: Rival, *, share: float, seconds: float, **point: float
) -> Results:
    """Return a point for ``measure``.

    Args:
        part: Part of the study.
        network: Specification of the network.
        rival: The routing, and how deadlock is avoided or treated.
        share: Length of the run, in parts of ``seconds``.
        seconds: The usual length of a run.
        **point: ``faults`` (number of dead cables), ``load`` (fraction of a link that each host
            offers), ``seed``, and ``bytes`` of a packet.
    """
    routing, deadlock = rival
    fault_kind = "start" if point["faults"] else "none"
    return {
        **point,
        "part": part,
        "network": network,
        "pattern": "uniform",
        "routing": routing,
        "deadlock": deadlock,
        "fault_kind": fault_kind,
        "rate": _packets_per_s(point["load"], point["bytes"]),
        "share": share,
        "seconds": share * seconds,
    }


def measure(point: Row) -> Results:
    """Simulate one run.

    Returns:
        Numbers of messages, latency and throughput. ``cannot`` says why the routing has no path
        between some hosts; then there is nothing else.
    """
    run = Run.of(point)
    faults = faults_of(run)
    parameters = parameters_of(run)
    dead: frozenset[frozenset[str]] = frozenset()
    if run.routing not in ("dor", "ft-drb"):
        dead = dead_from_start(faults)
    try:
        model = model_of(run.network, parameters, dead)
        result = simulate(model, traffic_of(run), parameters, faults)
    except InputError as error:
        return {"cannot": str(error)}
    # Leave out the beginning, when the network fills, and the end, when the load stops.
    window = summarize(result, start_s=0.2 * run.seconds, end_s=0.95 * run.seconds)
    return {
        "cannot": "",
        "sent": result.sent,
        "received": result.received,
        "latency_s": window.mean_latency_s,
        "throughput": window.throughput,
    }


def judge(rows: Rows) -> Verdict:
    """Check which rivals deliver all messages, and the costs of FT-DRB and of detours."""
    rival_rows = where(rows, part="rivals")
    usual_length = where(rival_rows, share=1.0)
    checks = [_delivery_check(rival_rows)]
    for network in RIVALS:
        checks += _up_down_checks(rival_rows, network)
        checks.append(_detour_check(usual_length, network))
    return Verdict.of(checks)


def _delivery_check(rows: Rows) -> Check:
    """Check that the rivals of ``COPING`` deliver all messages with dead links.

    Dimension order is the rival of the check: it knows no path around a dead link.
    """
    with_dead_links = [row for row in rows if row["faults"]]
    coping = [row for row in with_dead_links if (row["routing"], row["deadlock"]) in COPING]
    dimension_order = where(with_dead_links, routing="dor")
    names = "FT-DRB, up*/down*, and free shortest paths with NAC or recovery"
    check = Claim(f"messages that {names} leave undelivered with dead links").equal(
        0.0, _undelivered(coping)
    )
    check = check.against(
        _undelivered(dimension_order),
        "as dimension order with bubble flow control, which knows no way round",
    )
    return check.noting(f"{len(coping)} runs")


def _undelivered(rows: Rows) -> int:
    """Return the number of undelivered messages. A run that cannot be routed counts as one."""
    count = 0
    for row in rows:
        count += row.get("sent", 1) - row.get("received", 0)
    return count


def _runs(rows: Rows, network: str, rival: Rival, dead: int, load: float) -> list[Row]:
    """Return the runs of one rival at one load."""
    routing, deadlock = rival
    return where(rows, network=network, routing=routing, deadlock=deadlock, faults=dead, load=load)


def _latencies(rows: Rows, network: str, rival: Rival, dead: int, load: float) -> dict[int, float]:
    """Return the latency by seed of the runs that delivered all messages."""
    latencies = {}
    for row in _runs(rows, network, rival, dead, load):
        if not row["cannot"] and row["received"] == row["sent"]:
            latencies[row["seed"]] = row["latency_s"]
    return latencies


def _up_down_checks(rows: Rows, network: str) -> list[Check]:
    """Check the latency of FT-DRB over that of up*/down* with a tenth of the links dead.

    It is measured at the lowest load, and should be the same in twice the time.
    """
    load = min(row["load"] for row in rows)
    short_share, usual_share, double_share = SHARES
    usual = _ratios(where(rows, share=usual_share), network, load)
    name = (
        f"{network}: latency of FT-DRB with NAC over that of up*/down*, a tenth of the links dead"
    )
    check = at_most(name, 0.95, usual, f"load {load}")
    check = check.against(1.0, "no better than tables computed anew")
    length_check = stands_still(
        f"{network}: FT-DRB's latency in parts of up*/down*'s",
        short_share,
        _ratios(where(rows, share=short_share), network, load),
        usual,
        _ratios(where(rows, share=double_share), network, load),
        may=MAX_RATIO_CHANGE,
    )
    return [check, length_check]


def _ratios(rows: Rows, network: str, load: float) -> list[float]:
    """Return the latency of FT-DRB over that of up*/down* of each seed, with the most failures."""
    dead = max(DEAD[network])
    drb = _latencies(rows, network, FT_DRB, dead, load)
    up_down = _latencies(rows, network, UP_DOWN, dead, load)
    return [drb[seed] / up_down[seed] for seed in drb if seed in up_down]


def _detour_check(rows: Rows, network: str) -> Check:
    """Check that Valiant's detours cost latency at the lowest load. UGAL is the rival."""
    load = min(row["load"] for row in rows)
    shortest_routing = "up-down" if network.startswith("fat") else "dateline"

    def mean_latency(routing: str) -> float:
        latencies = _latencies(rows, network, (routing, "none"), 0, load)
        return mean(list(latencies.values()))

    shortest = mean_latency(shortest_routing)
    valiant = mean_latency("valiant") / shortest
    ugal = mean_latency("ugal") / shortest
    name = f"{network}: latency of Valiant's detours over that of shortest paths, at little load"
    check = Claim(name).at_least(1.02, valiant)
    # The rival is that detours cost nothing, even if UGAL is slightly slower than shortest paths.
    check = check.against(
        min(ugal, 1.0), "it costs nothing, as with UGAL, which goes straight there"
    )
    return check.noting(f"load {load}; UGAL {ugal:.3f}")


def figures(rows: Rows) -> Figures:
    """Draw latency and accepted load over load, without dead links and with a tenth dead."""
    usual_length = where(rows, part="rivals", share=1.0)
    drawn: Results = {}
    for network in RIVALS:
        for dead in (0, max(DEAD[network])):
            drawn |= _load_figures(usual_length, network, dead)
    return drawn


def _load_figures(rows: Rows, network: str, dead: int) -> Results:
    """Return the figures of one network and number of dead cables, by name."""
    latencies_us = {}
    accepted = {}
    for rival, load in product(RIVALS[network], LOADS):
        line = " + ".join(rival)
        delivered = _latencies(rows, network, rival, dead, load)
        if delivered:
            latencies_us[line, load] = [1e6 * value for value in delivered.values()]
        routed = where(_runs(rows, network, rival, dead, load), cannot="")
        if routed:
            accepted[line, load] = [load * row["throughput"] for row in routed]
    name = f"{file_name_of(network)}-{dead}"
    setting = f"{network}, uniform, {dead} dead cables"
    offered = "offered load (fraction of a link, each host)"
    latency_figure = draw_lines(
        f"{setting}: latency over load (runs that delivered all)",
        latencies_us,
        x=offered,
        y=LATENCY,
    )
    # Beyond saturation latency grows with the length of the run.
    latency_figure.axes[0].set_yscale("log")
    accepted_figure = draw_lines(
        f"{setting}: accepted load",
        accepted,
        x=offered,
        y="accepted (fraction of a link, each host)",
    )
    return {name: latency_figure, f"{name}-accepted": accepted_figure}


STUDY = Study.of_module(
    __name__,
    name="interconnect_rivals",
    title="FT-DRB and NAC compared with other routings and other ways to avoid deadlock",
    deviations=(
        "The document compares with one figure of another paper (5.6.7). Rivals, loads and 2 KB "
        "packets are ours.",
        "Each node sends as many messages at every load as in 8 s at the document's rate, with "
        "six seeds (with --quick 200 messages and one seed). Beyond saturation latency grows with "
        "the run.",
        "Links are dead from the start. The tables of rivals are computed for the remaining "
        "network, and FT-DRB discovers the dead links.",
        "Virtual channels differ: one for FT-DRB, up*/down*, free shortest paths and bubble flow "
        "control (buffers of 8 KB), two for the dateline, three for odd-even on tori, four "
        "(torus) or eight (tree) for Valiant and UGAL. Each channel has its buffer.",
    ),
    answers="Zarza 2011, sections 3.7 and 5.6.7: FT-DRB against other fault-tolerant routings",
)
