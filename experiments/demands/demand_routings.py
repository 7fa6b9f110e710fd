"""All pairs at once: what each routing loads and asks for in redundancy, next to the multicommodity optimum, on
networks with real demands.

Capillary routing spreads every pair by itself. Does that keep the fullest link empty, or does it fill it? What would a
routing cost that minds both, load and redundancy? The networks are SNDlib's with their own demands, with gravity and
uniform matrices, and a mobile one.
"""

import statistics
import time
from collections.abc import Mapping, Sequence

from scipy.sparse import csr_array

from testbed.model.code_description import SHORT_AND_LARGE
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import BLUE, GREEN, INK, ORANGE, Figure, chart, draw_dots, panels
from testbed.routing.demands.matrix import DemandMatrix
from testbed.routing.demands.routed_demands import RoutedDemands, checked
from topologies import load_network

METHODS = ("single", "ecmp", "capillary", "ksp:4", "semi-ksp:4", "raecke", "smore:4", "optimum")
SMALL = ("abilene", "polska", "nobel-us", "atlanta", "nobel-germany")
"""On these the least redundancy within a limit is sought, and stratified labels are laid out for every pair."""
LARGE = ("geant", "ta1", "france", "norway", "cost266", "germany50")
MOBILE = "manet:nodes=40,seed=3"
LIMITS = (1.01, 1.05, 1.2, None)
"""MLU over the optimum's; None: no limit."""
TOLERANCE = 0.05
NEAR = 1.05
CHANCE = 0.5


def points(quick: bool, seed: int) -> Points:
    """Eleven networks of SNDlib, three matrices each, and a mobile network, two (quick: two networks, their own
    demands)."""
    networks = [f"topohub:sndlib/{name}" for name in (SMALL[:2] if quick else (*SMALL, *LARGE))]
    matrices = ("own",) if quick else ("own", "gravity", "uniform")
    return [*grid(network=networks, matrix=matrices, seed=seed), *grid(network=MOBILE, matrix=matrices[1:], seed=seed)]


def measure(point: Row) -> Results:
    """Every routing of one matrix, rated and checked; on small networks the trade as well."""
    from testbed.routing.demands.matrix import given_matrix, gravity_matrix, uniform_matrix
    from testbed.routing.demands.methods import route_demands, timed_routings
    from testbed.routing.demands.redundancy import unavoidable_links
    from topologies.files.formats import read_topohub_demands

    network = load_network(point["network"])
    ends = [node.id for node in network.switches]
    if point["matrix"] == "own":
        matrix = given_matrix(network, "own", read_topohub_demands(point["network"].partition(":")[2]))
    else:
        matrix = (gravity_matrix if point["matrix"] == "gravity" else uniform_matrix)(network, ends)
    small = point["network"].rpartition("/")[2] in SMALL
    best = route_demands(matrix, "optimum")
    forced = unavoidable_links(route_demands(matrix, "capillary"))
    rated = {
        method: _rated(routed, best.greatest_utilisation, forced, stratified=small) | {"seconds": seconds}
        for method, routed, seconds in timed_routings(matrix, METHODS, point["seed"], time.process_time)
    }
    return {
        "nodes": len(network.nodes),
        "links": len(network.links),
        "pairs": len(matrix.pairs),
        "left_out": matrix.left_out,
        "forced_pairs": int((forced.sum(axis=1) > 0).sum()),
        "utilisation": best.greatest_utilisation,
        "bound": checked(best).bound,
        "methods": rated,
        "trade": _trade(matrix, best.greatest_utilisation, forced) if small else [],
    }


def _rated(routed: RoutedDemands, best: float, forced: csr_array, *, stratified: bool) -> Results:
    from testbed.routing.demands.redundancy import total_ror
    from testbed.routing.demands.routed_demands import fair_rates
    from testbed.routing.redundancy.coding import Coding

    short, large = (total_ror(routed, Coding(tolerance=TOLERANCE, large_blocks=eq29), forced) for eq29 in (False, True))
    found = {
        "over_optimum": routed.greatest_utilisation / best,
        "fair": float(fair_rates(routed).sum()) / routed.matrix.total_bps * best,
        "exposed": short.exposed,
        "ror": short.of_others,
        "ror_large": large.of_others,
        "violations": list(checked(routed).violations),
    }
    if stratified and not short.exposed:
        found["ror_stratified"] = total_ror(routed, Coding(tolerance=TOLERANCE, labels="stratified"), forced).of_others
    return found


def _trade(matrix: DemandMatrix, best: float, forced: csr_array) -> Points:
    """The least redundancy at each limit, what it needs by equation 23, and its proved bound by equation 29."""
    from testbed.routing.demands.least_ror import least_ror_demands

    rows = []
    for limit in LIMITS:
        began = time.perf_counter()
        found = least_ror_demands(matrix, forced, float("inf") if limit is None else limit * best, TOLERANCE)
        seconds = time.perf_counter() - began
        if found is None:
            rows.append({"limit": limit, "found": False})
            continue
        rated = _rated(found.routed, best, forced, stratified=True)
        rows.append({"limit": limit, "found": True, "bound": found.bound, "seconds": seconds} | rated)
    return rows


def judge(rows: Rows) -> Verdict:
    """Sound and proved; who is near the optimum; what capillary routing saves and costs."""
    every = [(row, method, one) for row in rows for method, one in row["methods"].items()]
    ratio = {method: [row["methods"][method]["over_optimum"] for row in rows] for method in METHODS}
    exposed = {method: [row["methods"][method]["exposed"] / row["pairs"] for row in rows] for method in METHODS}
    emptier = _share(rows, "capillary", "single")
    checks = [
        Claim("violations found by the independent checker")
        .equal(
            0,
            sum(len(one["violations"]) for _, _, one in every)
            + sum(len(one.get("violations", ())) for row in rows for one in row["trade"]),
        )
        .against(None, "none: a count of errors")
        .noting(f"{len(every)} routings of {len(rows)} matrices"),
        Claim("optimum over its proved lower bound, less 1, worst")
        .at_most(1e-5, max(row["utilisation"] / max(row["bound"], 1e-12) - 1 for row in rows))
        .against(statistics.median(ratio["ecmp"]) - 1, "a routing that is not optimal (ECMP, median)"),
        Claim("MLU of smore:4 over the optimum, median")
        .at_most(NEAR, statistics.median(ratio["smore:4"]))
        .against(statistics.median(ratio["raecke"]), "the same trees with rates that do not know the demands")
        .noting(f"worst {max(ratio['smore:4']):.3f}"),
        Claim("share of matrices in which capillary routing's fullest link is emptier than the single path's")
        .at_least(0.9, emptier)
        .against(CHANCE, "chance: no difference"),
        Claim("pairs that capillary routing exposes, share")
        .equal(0, max(exposed["capillary"]))
        .against(statistics.median(exposed["optimum"]), "the optimum's, median"),
    ]
    return Verdict.of((*checks, *_trade_checks(rows)), _notes(rows, ratio, exposed))


def _share(rows: Rows, method: str, other: str) -> float:
    """Of the matrices: MLU of the one below that of the other."""
    pairs = [(row["methods"][method]["over_optimum"], row["methods"][other]["over_optimum"]) for row in rows]
    return float(sum(own < others for own, others in pairs) / len(rows))


def trade_ratios(rows: Rows, limit: float | None) -> list[float]:
    """Total ROR (equation 29) of the least within the limit over capillary routing's."""
    return [
        one["ror_large"] / row["methods"]["capillary"]["ror_large"]
        for row in rows
        for one in row["trade"]
        if one["limit"] == limit and one["found"]
    ]


def _trade_checks(rows: Rows) -> list[Check]:
    ratios = trade_ratios(rows, NEAR)
    if not ratios:
        return []
    gaps = [
        one["ror_large"] / one["bound"] - 1
        for row in rows
        for one in row["trade"]
        if one["found"] and one["limit"] != LIMITS[0]
    ]
    return [
        Claim("total ROR (equation 29) of the least within 1.05 of the optimum's MLU, over capillary routing's, median")
        .at_most(0.95, statistics.median(ratios))
        .against(1.0, "capillary routing's own")
        .noting(f"worst {max(ratios):.3f} of {len(ratios)}"),
        Claim("least ROR found over its proved bound, less 1, worst (limits of 1.05 and more)")
        .at_most(0.03, max(gaps))
        .against(
            statistics.median([1 / ratio for ratio in trade_ratios(rows, None)]) - 1,
            "capillary routing's distance to the least",
        ),
    ]


def _notes(rows: Rows, ratio: Mapping[str, Sequence[float]], exposed: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    notes = [
        f"{method}: MLU over the optimum median {statistics.median(ratio[method]):.3f}, "
        f"worst {max(ratio[method]):.3f}; pairs exposed "
        f"{statistics.median(exposed[method]):.0%} (median); max-min-fair throughput "
        f"{statistics.median(row['methods'][method]['fair'] for row in rows):.2f} (median, in what the optimum carries)"
        for method in METHODS
    ]
    notes += [
        f"capillary routing's fullest link is emptier than that of {other} in {_share(rows, 'capillary', other):.0%} "
        f"of {len(rows)} matrices"
        for other in ("single", "ecmp", "ksp:4", "raecke")
    ]
    for limit in LIMITS:
        ratios = trade_ratios(rows, limit)
        name = "no limit" if limit is None else f"{limit:g} times the optimum's MLU"
        if ratios:
            notes.append(
                f"least total ROR within {name}, over capillary routing's: "
                f"median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}"
            )
    return tuple(notes)


def figures(rows: Rows) -> Figures:
    """MLU over the optimum by method; and redundancy against MLU, with the least there is as a line."""
    drawings = {"utilisation": _utilisation_figure(rows)}
    if any(row["trade"] for row in rows):
        drawings["trade"] = _trade_figure([row for row in rows if row["trade"]])
    return drawings


def _utilisation_figure(rows: Rows) -> Figure:
    title, y = f"{len(rows)} demand matrices: each a dot, the median a bar", "greatest utilisation over the optimum's"
    figure, axes = chart(title, size=(9, 4.6), ylabel=y)
    for at, method in enumerate(METHODS):
        values = [row["methods"][method]["over_optimum"] for row in rows]
        draw_dots(axes, at, values, BLUE, width=0.5)
        axes.plot([at - 0.3, at + 0.3], [statistics.median(values)] * 2, color=INK, linewidth=2)
        exposed = statistics.median(row["methods"][method]["exposed"] / row["pairs"] for row in rows)
        axes.annotate(f"{exposed:.0%} exposed", (at, 0.86), ha="center", fontsize=8, color=ORANGE)
    axes.axhline(1, color=GREEN, linewidth=1)
    axes.set_xticks(range(len(METHODS)), METHODS)
    axes.set(ylim=(0.8, None))
    return figure


def _trade_figure(rows: Rows) -> Figure:
    columns = 3
    lines = -(-len(rows) // columns)
    figure, every = panels(11, 2.9 * lines, lines, columns, sharey=True)
    for axes, row in zip(every, rows, strict=False):
        found, unit = [one for one in row["trade"] if one["found"]], row["methods"]["capillary"]["ror_large"]
        at, ror = [one["over_optimum"] for one in found], [one["ror_large"] / unit for one in found]
        axes.plot(at, ror, "o-", color=GREEN, label="least ROR within a limit")
        for method, mark in (("capillary", "s"), ("raecke", "^"), ("ksp:4", "v")):
            one = row["methods"][method]
            if not one["exposed"]:
                axes.plot(one["over_optimum"], one["ror_large"] / unit, mark, label=method)
        axes.axvline(1, color="grey", linewidth=1, linestyle=":")
        axes.set(title=f"{row['network'].rpartition('/')[2]}, {row['matrix']}", xlim=(0.95, 2.1), ylim=(0, 2.4))
    for axes in every[len(rows) :]:
        axes.axis("off")
    every[0].legend()
    figure.supxlabel("greatest utilisation over the optimum's", fontsize=9)
    figure.supylabel("total ROR (equation 29) over capillary routing's", fontsize=9)
    return figure


STUDY = Study.of_module(
    __name__,
    title="All pairs at once: load against redundancy",
    ror_code=f"{SHORT_AND_LARGE}; stratified labels where it is said",
    answers="not in the documents: "
    "what capillary routing pair by pair costs in greatest utilisation, and what it saves in ROR",
    deviations=(
        "Gabrielyan 2007 routes one pair; demand matrices, and the sum of ROR over pairs, are ours.",
        "All links have one capacity: topohub has SNDlib's networks without capacities.",
        "Coding at intermediate nodes is left out: redundancy is counted end to end, pair by pair.",
    ),
)
