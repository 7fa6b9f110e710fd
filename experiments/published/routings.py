"""Routings of other authors next to the documents', all pairs at once and one flow: load, fair rates, redundancy and
time.

Multicommodity optimum, max-min fairness (of loads and of rates) and semi-oblivious routing (SMORE), through the doors
for plug-ins; every routing is judged by the independent checker. Optimum and SMORE are solved once more by GLOP.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from testbed.errors import InputError
from testbed.model.code_description import describe_code
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
    grid,
)
from testbed.report.drawing.charts import draw_bars
from testbed.routing.demands import matrix as matrices
from testbed.routing.demands.checker import Demand, FillingLevel, check_fair_rates
from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands, checked, fair_rates
from topologies import Network, load_network

NETWORKS = (
    "swiss-t1",
    "optical-cloud",
    "torus:4x4",
    "fat-tree:4,2",
    "manet:nodes=30,seed=3",
    "manet:nodes=30,seed=4",
)
FLOWS = {
    "swiss-t1": ("s1", "s6"),
    "optical-cloud": ("x1", "x14"),
    "torus:4x4": ("s0_0", "s2_1"),
    "fat-tree:4,2": ("h0", "h15"),
    "manet:nodes=30,seed=3": ("n0", "n29"),
    "manet:nodes=30,seed=4": ("n0", "n29"),
}
"""One flow a network: its source and sink."""
METHODS = (
    "single",
    "ecmp",
    "capillary",
    "raecke",
    "semi-ksp:4",
    "smore:4",
    "optimum",
    "fair",
    "max-min",
)
TOLERANCE = 0.05
MOST_VARIABLES = 20_000
"""Of a programme with a flow a pair and link: above it only SMORE's rates are solved again."""
NEAR, LEVEL = 1.1, 1e-4
UNIT_BPS = 1e6
"""Of the programmes that GLOP solves, in another form than ours: a flow a pair, link by link."""


def points(quick: bool, seed: int) -> Points:
    """Two matrices a network (quick: three networks, one matrix)."""
    networks = (NETWORKS[0], *NETWORKS[2:4]) if quick else NETWORKS
    return grid(network=networks, matrix=("gravity", "uniform")[: 1 if quick else None], seed=seed)


def measure(point: Row) -> Results:
    """Every routing of one matrix and of one flow, rated and checked; two programmes solved again by GLOP."""
    from testbed.routing.demands.methods import route_demands, timed_routings
    from testbed.routing.demands.redundancy import unavoidable_links

    matrix = _matrix(point)
    best = route_demands(matrix, "optimum")
    forced = unavoidable_links(route_demands(matrix, "capillary"))
    rated = {
        method: _rated(routed, best.greatest_utilisation, forced) | {"seconds": seconds}
        for method, routed, seconds in timed_routings(
            matrix, METHODS, point["seed"], time.process_time
        )
    }
    return {
        "pairs": len(matrix.pairs),
        "links": len(matrix.network.links),
        "utilisation": best.greatest_utilisation,
        "methods": rated,
        "filling": _filling(matrix),
        "again": _again(matrix, point["seed"]),
        "flow": _one_flow(point["network"]),
    }


def _matrix(point: Row) -> DemandMatrix:
    network = load_network(point["network"])
    nodes = network.hosts if point["network"].startswith("fat-tree") else network.switches
    build = matrices.gravity_matrix if point["matrix"] == "gravity" else matrices.uniform_matrix
    return build(network, [node.id for node in nodes])


def _rated(routed: RoutedDemands, best: float, forced: csr_array) -> Results:
    """MLU over the optimum's; rates, in units of what the optimum carries with no pair stopped; ROR (eq. 23); what the
    checker found."""
    from testbed.routing.demands.redundancy import total_ror
    from testbed.routing.redundancy.coding import Coding

    found, rates = checked(routed), fair_rates(routed)
    redundancy = total_ror(routed, Coding(tolerance=TOLERANCE), forced)
    return {
        "over_optimum": routed.greatest_utilisation / best,
        "bound": found.bound,
        "violations": list(found.violations),
        "least_rate": float((rates / routed.matrix.rates).min()) * best,
        "throughput": float(rates.sum()) / routed.matrix.total_bps * best,
        "exposed": redundancy.exposed,
        "ror": redundancy.of_others,
    }


def _filling(matrix: DemandMatrix) -> Results:
    """Whether the max-min-fair rates are proved, and whether those of the optimum's routing would be."""
    from testbed.routing.demands.optimum import optimal_demands, water_filling

    found = water_filling(matrix)
    demands = matrix.demands
    others = fair_rates(optimal_demands(matrix)) / matrix.rates
    claimed = [
        FillingLevel(
            height=float(np.min(others[list(level.pairs)])), pairs=level.pairs, prices=level.prices
        )
        for level in found.levels
    ]
    return {
        "levels": len(found.levels),
        "wrong": len(check_fair_rates(matrix.network, demands, found.levels)),
        "wrong_of_optimum": len(check_fair_rates(matrix.network, demands, claimed)),
    }


def _again(matrix: DemandMatrix, seed: int) -> dict[str, float | None]:
    """Greatest utilisations by GLOP; the optimum's where the programme is small enough."""
    from testbed.routing.demands.path_sets import tree_path_set

    demands, network = matrix.demands, matrix.network
    paths = tree_path_set(matrix, seed).heaviest(4).paths
    small = len(demands) * len(network.links) <= MOST_VARIABLES
    return {
        "smore:4": glop_best_rates(network, demands, paths),
        "optimum": glop_optimum(network, demands) if small else None,
    }


def glop_optimum(network: Network, demands: Sequence[Demand]) -> float:
    """Least greatest utilisation of all routings: a variable a pair and link. For some 20,000 of them. Hosts do not
    forward."""
    solver, greatest, rooms = _programme(network)
    hosts = {node.id for node in network.hosts}
    for source, sink, rate in demands:
        balance = {node.id: solver.Constraint(0, 0) for node in network.nodes}
        balance[source].SetBounds(rate / UNIT_BPS, rate / UNIT_BPS)
        balance[sink].SetBounds(-rate / UNIT_BPS, -rate / UNIT_BPS)
        silent = hosts - {source, sink}
        for at, link in enumerate(network.links):
            if link.source in silent or link.target in silent:
                continue
            flow = solver.NumVar(0, solver.infinity(), "")
            balance[link.source].SetCoefficient(flow, 1)
            balance[link.target].SetCoefficient(flow, -1)
            rooms[at].SetCoefficient(flow, 1)
    return _solved(solver, greatest)


def glop_best_rates(
    network: Network, demands: Sequence[Demand], paths: Sequence[Sequence[Sequence[int]]]
) -> float:
    """Least greatest utilisation when pair i may take ``paths[i]`` (indices of links) only."""
    solver, greatest, rooms = _programme(network)
    for (_, _, rate), own in zip(demands, paths, strict=True):
        whole = solver.Constraint(rate / UNIT_BPS, rate / UNIT_BPS)
        for path in own:
            amount = solver.NumVar(0, solver.infinity(), "")
            whole.SetCoefficient(amount, 1)
            for link in path:
                rooms[link].SetCoefficient(amount, 1)
    return _solved(solver, greatest)


def _programme(network: Network) -> tuple[Any, Any, Mapping[int, Any]]:
    """(solver, greatest utilisation, the row of each link: flows less utilisation times capacity are at most 0)."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    greatest = solver.NumVar(0, solver.infinity(), "greatest")
    rooms = {}
    for at, link in enumerate(network.links):
        rooms[at] = solver.Constraint(-solver.infinity(), 0)
        rooms[at].SetCoefficient(greatest, -link.capacity_bps / UNIT_BPS)
    return solver, greatest, rooms


def _solved(solver: Any, greatest: Any) -> float:
    solver.Minimize(greatest)
    if solver.Solve() != solver.OPTIMAL:
        raise InputError("GLOP found no optimum")
    return float(greatest.solution_value())


def _one_flow(name: str) -> Results:
    """How far the programme for fair loads of one flow is from the exact capillary route, and ECMP from that."""
    from testbed.routing.demands.methods import route_demands
    from testbed.routing.methods import route_by_name

    network, (source, sink) = load_network(name), FLOWS[name]
    matrix = matrices.given_matrix(network, "one flow", {(source, sink): 1e6})
    exact = {
        method: np.array(
            [float(load) for load in route_by_name(network, source, sink, method).loads]
        )
        for method in ("ecmp", "capillary")
    }
    fair = route_demands(matrix, "fair").pair_shares(0)
    return {
        "fair_off": float(np.abs(fair - exact["capillary"]).max()),
        "ecmp_off": float(np.abs(exact["ecmp"] - exact["capillary"]).max()),
    }


def judge(rows: Rows) -> Verdict:
    """Sound, proved, the same by another solver; who is near the optimum; the programmes' loads of one flow are
    capillary routing's."""
    return Verdict.of((*_soundness(rows), *_quality(rows)), _notes(rows))


def _soundness(rows: Rows) -> list[Check]:
    ecmp = statistics.median(_ratios(rows, "ecmp"))
    again = [
        abs(row["methods"][method]["over_optimum"] * row["utilisation"] / other - 1)
        for row in rows
        for method, other in row["again"].items()
        if other is not None
    ]
    return [
        Claim("violations found by the independent checker")
        .count(
            0,
            sum(len(one["violations"]) for row in rows for one in row["methods"].values()),
            "none: a count of errors",
        )
        .noting(f"{sum(len(row['methods']) for row in rows)} routings of {len(rows)} matrices"),
        Claim("optimum over its proved bound, less 1, worst")
        .at_most(
            1e-5,
            max(
                row["utilisation"] / max(row["methods"]["optimum"]["bound"], 1e-12) - 1
                for row in rows
            ),
        )
        .against(ecmp - 1, "a routing that is not optimal (ECMP, median)"),
        Claim("greatest utilisation by GLOP against HiGHS (optimum, SMORE), relative, worst")
        .at_most(1e-5, max(again))
        .against(
            statistics.median(
                a / b
                for a, b in zip(_ratios(rows, "raecke"), _ratios(rows, "smore:4"), strict=True)
            )
            - 1,
            "rates that are not the best for the same trees (median)",
        )
        .noting(f"{len(again)} programmes"),
        Claim("objections to the certificates of max-min-fair rates")
        .equal(0, sum(row["filling"]["wrong"] for row in rows))
        .against(
            sum(row["filling"]["wrong_of_optimum"] for row in rows),
            "the rates that the optimum's routing gives, under the same certificates",
        )
        .noting(f"{sum(row['filling']['levels'] for row in rows)} levels"),
    ]


def _quality(rows: Rows) -> list[Check]:
    flows = {row["network"]: row["flow"] for row in rows}
    return [
        Claim("MLU of smore:4 over the optimum, median")
        .at_most(NEAR, statistics.median(_ratios(rows, "smore:4")))
        .against(
            statistics.median(_ratios(rows, "raecke")),
            "the same trees with rates that do not know the demands",
        ),
        Claim("least rate of max-min over the optimum's common one, least")
        .at_least(1 - LEVEL, min(_ratios(rows, "max-min", "least_rate")))
        .against(min(_ratios(rows, "ecmp", "least_rate")), "a routing that is not optimal (ECMP)"),
        Claim("loads of one flow: max-min-fair programme against the exact capillary route, worst")
        .at_most(LEVEL, max(flow["fair_off"] for flow in flows.values()))
        .against(
            statistics.median(flow["ecmp_off"] for flow in flows.values()),
            "another routing (ECMP, median)",
        )
        .noting(f"{len(flows)} networks"),
    ]


def _notes(rows: Rows) -> list[str]:
    """The table: medians over the matrices; seconds over those of capillary routing."""
    found, capillary = [], _ratios(rows, "capillary", "seconds")
    keys = ("over_optimum", "least_rate", "throughput", "seconds")
    for method in METHODS:
        over, least, carried, seconds = (
            statistics.median(_ratios(rows, method, key)) for key in keys
        )
        times = zip(_ratios(rows, method, "seconds"), capillary, strict=True)
        against = statistics.median(own / max(other, 1e-9) for own, other in times)
        found.append(
            f"{method}: MLU over optimum {over:.2f}, worst {max(_ratios(rows, method)):.2f}; "
            f"least rate {least:.2f}, sum of rates {carried:.2f}; "
            f"no pair exposed in {sum(not count for count in _ratios(rows, method, 'exposed'))} of {len(rows)}; "
            f"{seconds:.3f} s, {against:.2f} times capillary's"
        )
    return found


def figures(rows: Rows) -> Figures:
    """MLU over the optimum's, and processor seconds."""
    drawn = {}
    for name, key, y in (
        ("routings", "over_optimum", "MLU over the optimum's"),
        ("seconds", "seconds", "processor s"),
    ):
        samples = {
            ("mean of the matrices", method): _ratios(rows, method, key) for method in METHODS
        }
        drawn[name] = draw_bars(f"{len(rows)} demand matrices", samples, y=y)
    drawn["seconds"].axes[0].set_yscale("log")
    drawn["seconds"].axes[0].autoscale(axis="y")
    return drawn


def _ratios(rows: Rows, method: str, key: str = "over_optimum") -> list[float]:
    """A figure of a routing (its MLU over the optimum's), of each matrix."""
    return [row["methods"][method][key] for row in rows]


STUDY = Study.of_module(
    __name__,
    name="comparers_routing",
    title="Routings of other authors beside capillary routing",
    ror_code=describe_code(labels="random", m=20, tolerance=TOLERANCE, der=1e-5),
    answers="not in the documents: Gabrielyan 2007 compares capillary routing with a single path only",
    deviations=(
        "Gabrielyan 2007 routes one pair; demand matrices are ours, as are the networks other than Swiss-T1.",
        "SMORE's paths are of our trees, seed 1, the 4 heaviest a pair; Kumar et al. 2018 have their own.",
        "Processor time is that of one run each, other work beside it.",
    ),
)
