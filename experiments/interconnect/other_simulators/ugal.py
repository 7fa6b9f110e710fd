"""Is UGAL-L as its authors have it: as minimal routing where that is best, as Valiant's detours where those are?

Accepted load over offered load on an 8x8 torus (Singh 2005) and on the Dragonfly of 1,056 hosts of Kim, Dally, Scott
and Abts 2008.
"""

from experiments.interconnect.runs import model_of
from experiments.interconnect.study_points import network_of
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import InjectionProcess, build_injections
from testbed.interconnect.traffic.patterns import DestinationPattern, build_pattern
from testbed.model.studies.samples import grouped, half_width, spread, sum_of
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_lines
from topologies import Network

PACKET_BYTES, BUFFER_BYTES = 512, 8192
MINIMAL = {"torus:8x8": "dateline", "dragonfly:8,4,4": "distance-classes"}
"""Dimension order with a dateline; shortest paths, a virtual channel more at every hop."""
SECONDS = {"torus:8x8": 0.004, "dragonfly:8,4,4": 0.001}
NEXT_GROUP = "next-group"
"""Every host sends to hosts of the next group of a Dragonfly, each message to one that it draws: one link joins the two
groups."""
BENIGN = (0.1, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)
ADVERSE = (0.02, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)
"""Offered loads, of a link."""
LOADS = {"uniform": BENIGN, "tornado": ADVERSE, "transpose": ADVERSE, NEXT_GROUP: ADVERSE}
PATTERNS = {"torus:8x8": ("uniform", "tornado", "transpose"), "dragonfly:8,4,4": ("uniform", NEXT_GROUP)}
OF_THE_BETTER = 0.9
"""UGAL accepts at least so much of what the better of the two does."""
LITTLE = 1.05
"""And takes at most so many times the latency of minimal routing at the least load."""


def points(quick: bool, seed: int) -> Points:
    """Networks, patterns, the three routings, offered loads; three seeds."""
    found = []
    for network, patterns in PATTERNS.items():
        if quick and network.startswith("dragonfly"):  # its tables take a minute
            continue
        routings, seeds = (MINIMAL[network], "valiant", "ugal"), range(seed, seed + (1 if quick else 3))
        for pattern in patterns:
            loads = LOADS[pattern][:: 2 if quick else 1]
            found += grid(network=network, pattern=pattern, routing=routings, load=loads, seed=seeds)
    return found


def measure(point: Row) -> Results:
    """One run: what part of the offered load is accepted once the first part of the run is over, latency, links
    crossed."""
    network, seconds = network_of(point["network"]), SECONDS[point["network"]]
    parameters = SimulationParameters(
        model="thesis", routing=point["routing"], deadlock="none", packet_bytes=PACKET_BYTES,
        buffer_bytes=BUFFER_BYTES, drain_s=5e-5, seed=point["seed"],
    )  # fmt: skip
    process = InjectionProcess(rate_per_s=parameters.packets_per_s(point["load"]))
    sent = build_injections(pattern_of(network, point["pattern"]), process, duration_s=seconds, seed=point["seed"])
    run = simulate(model_of(point["network"], parameters), sent, parameters)
    window = summarize(run, start_s=0.5 * seconds, end_s=0.98 * seconds)
    return {
        "sent": run.sent,
        "accepted": window.throughput * point["load"],
        "latency_s": window.mean_latency_s,
        "hops": float(run.hops[run.delivered >= 0].mean()),
        "stopped": run.stopped,
    }


def pattern_of(network: Network, name: str) -> DestinationPattern:
    """The pattern over the network's hosts."""
    attributes, hosts = network.attributes, len(network.hosts)
    if name != NEXT_GROUP:
        return build_pattern(name, hosts, shape=attributes.get("shape"))
    group = attributes["a"] * attributes["p"]
    choices = tuple(tuple((s // group * group + group + k) % hosts for k in range(group)) for s in range(hosts))
    return DestinationPattern(name=name, choices=choices)


def judge(rows: Rows) -> Verdict:
    """UGAL accepts nearly what the better of minimal routing and Valiant does, and is not slow at little load; that
    messages arrive."""
    checks = [_delivery(rows)]
    for network, pattern in dict.fromkeys((row["network"], row["pattern"]) for row in rows):
        here = where(rows, network=network, pattern=pattern)
        most = [most_accepted(here, network, pattern, name) for name in (MINIMAL[network], "valiant", "ugal")]
        checks += [_as_the_better(f"{network}, {pattern}", *most), _at_little_load(here)]
    return Verdict.of(checks, _format(rows))


def _delivery(rows: Rows) -> Check:
    """Runs that stop because nothing moves any more; the rival: all. None of the three may deadlock."""
    return (
        Claim("runs in which nothing moves any more")
        .equal(0.0, sum(row["stopped"] == "no-progress" for row in rows))
        .against(len(rows), "all: lanes that packets may wait for in a circle")
        .noting(f"{len(rows)} runs, {sum_of(rows, 'sent')} messages")
    )


def most_accepted(rows: Rows, network: str, pattern: str, routing: str) -> tuple[float, float]:
    """The most that the routing accepts at any offered load, in the mean over seeds, with half its 95 % interval."""
    return max(accepted(rows, network, pattern, routing).values(), key=lambda found: found[0])


def _as_the_better(
    name: str, minimal: tuple[float, float], valiant: tuple[float, float], ugal: tuple[float, float]
) -> Check:
    better, worse = max(minimal, valiant), min(minimal, valiant)
    return (
        Claim(f"{name}: the most that UGAL accepts, over the better of minimal routing and Valiant")
        .at_least(OF_THE_BETTER, ugal[0] / better[0])
        .plus_minus((ugal[1] + better[1]) / better[0])
        .against(worse[0] / better[0], "as the worse of the two")
        .noting(f"UGAL {ugal[0]:.3f}, minimal {minimal[0]:.3f}, Valiant {valiant[0]:.3f} of a link")
    )


def _at_little_load(rows: Rows) -> Check:
    """UGAL's latency over minimal routing's at the least load; the rival: Valiant's."""
    network, pattern, least = rows[0]["network"], rows[0]["pattern"], min(row["load"] for row in rows)
    minimal, valiant, ugal = (
        [row["latency_s"] for row in where(rows, routing=name, load=least)]
        for name in (MINIMAL[network], "valiant", "ugal")
    )
    ratios = [one / other for one, other in zip(ugal, minimal, strict=True)]
    return (
        Claim(f"{network}, {pattern}: latency of UGAL over that of minimal routing, at the least load")
        .at_most(LITTLE, spread(ratios)[0])
        .plus_minus(half_width(ratios))
        .against(spread(valiant)[0] / spread(minimal)[0], "as Valiant, which always makes its detour")
        .noting(f"load {least}, {1e6 * spread(ugal)[0]:.2f} us")
    )


def _format(rows: Rows) -> list[str]:
    """Accepted loads of every routing, by offered load."""
    said = []
    for network, pattern, routing in dict.fromkeys((r["network"], r["pattern"], r["routing"]) for r in rows):
        here = accepted(rows, network, pattern, routing)
        cells = ", ".join(f"{load:g}: {value:.3f}" for load, (value, _) in sorted(here.items()))
        said.append(f"{network}, {pattern}, {routing}: offered and accepted {cells}")
    return said


def accepted(rows: Rows, network: str, pattern: str, routing: str) -> dict[float, tuple[float, float]]:
    """Offered load -> what is accepted of it, in the mean over seeds, with half its 95 % interval."""
    of = where(rows, network=network, pattern=pattern, routing=routing)
    by_load = grouped(of, "load", "accepted")
    return {load: spread(values) for load, values in by_load.items()}


def figures(rows: Rows) -> Figures:
    """Accepted over offered load, a line a routing, a figure a network and pattern."""
    drawn, x, y = {}, "offered load (of a link)", "accepted load (of a link)"
    for network, pattern in dict.fromkeys((row["network"], row["pattern"]) for row in rows):
        lines = {
            (name, load): value
            for name in (MINIMAL[network], "valiant", "ugal")
            for load, value in accepted(rows, network, pattern, name).items()
        }
        title = f"{network}, {pattern}: what is accepted"
        drawn[f"{network.split(':')[0]}-{pattern}"] = draw_lines(title, lines, x=x, y=y)
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_ugal",
    title="UGAL-L between minimal routing and Valiant's detours, on a torus and a Dragonfly",
    deviations=(
        "BookSim2 and the papers move flits; here packets of 512 bytes move whole, 16 of them a virtual channel.",
        "On the Dragonfly Valiant's detour leads over a router drawn from all (Kim and others: "
        "a group), and minimal routing takes any "
        "shortest path by links, so that some cross two links between groups.",
        "Accepted at most: over the offered loads that were tried, in the second half of each run.",
    ),
    answers="Singh 2005 and Kim, Dally, Scott and Abts 2008: "
    "UGAL is as good as minimal routing under benign and as Valiant under adverse traffic",
)
