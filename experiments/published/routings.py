"""Compares routings of other authors with capillary routing, for demand matrices and one flow.

The other routings are the multicommodity optimum, max-min fairness (of loads and of rates) and
semi-oblivious routing (SMORE). They enter through the registries for plug-ins. The independent
checker judges every routing. GLOP solves the programmes of the optimum and of SMORE once more.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from testbed.arrays import FloatArray
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
    sum_of,
)
from testbed.report.drawing.charts import Figure, draw_bars
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
QUICK_NETWORKS = ("swiss-t1", "torus:4x4", "fat-tree:4,2")

# The source and the sink of the one flow on each network.
FLOWS = {
    "swiss-t1": ("s1", "s6"),
    "optical-cloud": ("x1", "x14"),
    "torus:4x4": ("s0_0", "s2_1"),
    "fat-tree:4,2": ("h0", "h15"),
    "manet:nodes=30,seed=3": ("n0", "n29"),
    "manet:nodes=30,seed=4": ("n0", "n29"),
}
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

# Static tolerance of the code whose ROR is computed.
TOLERANCE = 0.05

# A programme with more variables (one per pair and link) takes GLOP too long. Then only the rates
# of SMORE are solved again.
MAX_VARIABLES = 20_000

# Largest ratio of SMORE's maximum link utilisation (MLU) to the optimum's.
NEAR_OPTIMUM = 1.1

# Largest error of the loads and rates of linear programmes.
PROGRAMME_TOLERANCE = 1e-4

# Largest relative difference between two solvers, or between an optimum and its proved bound.
SOLVER_TOLERANCE = 1e-5

# GLOP's programmes count rates in this unit, so that their coefficients are near 1.
UNIT_BPS = 1e6


def points(quick: bool, seed: int) -> Points:
    """Return two matrices on each network; one on each of three networks if ``quick``."""
    if quick:
        return grid(network=QUICK_NETWORKS, matrix=("gravity",), seed=seed)
    return grid(network=NETWORKS, matrix=("gravity", "uniform"), seed=seed)


def measure(point: Row) -> Results:
    """Route one matrix and one flow by every method, and solve two programmes again by GLOP.

    Returns:
        The number of pairs and links; the optimum's MLU (``utilisation``); results of each method
        (``methods``); violations in the certificate of the max-min-fair rates (``filling``); the
        MLUs that GLOP finds (``again``); and errors of the loads of one flow (``flow``).
    """
    from testbed.routing.demands.methods import route_demands, timed_routings
    from testbed.routing.demands.redundancy import unavoidable_links

    matrix = _matrix(point)
    optimum = route_demands(matrix, "optimum")
    unavoidable = unavoidable_links(route_demands(matrix, "capillary"))
    methods: Results = {}
    routings = timed_routings(matrix, METHODS, point["seed"], time.process_time)
    for method, routed, seconds in routings:
        rated = _routing_figures(routed, optimum.greatest_utilisation, unavoidable)
        methods[method] = {**rated, "seconds": seconds}
    return {
        "pairs": len(matrix.pairs),
        "links": len(matrix.network.links),
        "utilisation": optimum.greatest_utilisation,
        "methods": methods,
        "filling": _filling_objections(matrix),
        "again": _utilisations_by_glop(matrix, point["seed"]),
        "flow": _one_flow_errors(point["network"]),
    }


def _matrix(point: Row) -> DemandMatrix:
    network = load_network(point["network"])
    nodes = network.hosts if point["network"].startswith("fat-tree") else network.switches
    node_ids = [node.id for node in nodes]
    if point["matrix"] == "gravity":
        return matrices.gravity_matrix(network, node_ids)
    return matrices.uniform_matrix(network, node_ids)


def _routing_figures(
    routed: RoutedDemands, optimal_utilisation: float, unavoidable: csr_array
) -> Results:
    """Return the results of a routing.

    Args:
        routed: The routing.
        optimal_utilisation: The optimum's MLU.
        unavoidable: The links that no route of a pair avoids.

    Returns:
        The MLU over the optimum's; the checker's bound and violations; the smallest rate and the
        sum of the max-min-fair rates on the routes; the number of exposed pairs; and ROR (eq. 23).
        The unit of the rates is the demand, scaled so that the optimum's MLU is 1.
    """
    from testbed.routing.demands.redundancy import total_ror
    from testbed.routing.redundancy.coding import Coding

    result = checked(routed)
    rates = fair_rates(routed)
    coding = Coding(tolerance=TOLERANCE)
    redundancy = total_ror(routed, coding, unavoidable)
    smallest_rate = float((rates / routed.matrix.rates).min())
    return {
        "over_optimum": routed.greatest_utilisation / optimal_utilisation,
        "bound": result.bound,
        "violations": list(result.violations),
        "least_rate": smallest_rate * optimal_utilisation,
        "throughput": float(rates.sum()) / routed.matrix.total_bps * optimal_utilisation,
        "exposed": redundancy.exposed,
        "ror": redundancy.of_others,
    }


def _filling_objections(matrix: DemandMatrix) -> Results:
    """Count the violations that the checker finds in the certificate of the max-min-fair rates.

    ``wrong`` must be 0. ``wrong_of_optimum`` is the rival: the number of violations in a
    certificate with the rates that the optimum's routes allow.
    """
    from testbed.routing.demands.optimum import optimal_demands, water_filling

    filling = water_filling(matrix)
    optimum_rates = fair_rates(optimal_demands(matrix)) / matrix.rates
    optimum_levels = []
    for level in filling.levels:
        height = float(np.min(optimum_rates[list(level.pairs)]))
        optimum_levels.append(FillingLevel(height=height, pairs=level.pairs, prices=level.prices))
    network = matrix.network
    demands = matrix.demands
    objections = check_fair_rates(network, demands, filling.levels)
    optimum_objections = check_fair_rates(network, demands, optimum_levels)
    return {
        "levels": len(filling.levels),
        "wrong": len(objections),
        "wrong_of_optimum": len(optimum_objections),
    }


def _utilisations_by_glop(matrix: DemandMatrix, seed: int) -> dict[str, float | None]:
    """Return the MLU of SMORE and of the optimum by GLOP, or None for too large a programme."""
    from testbed.routing.demands.path_sets import tree_path_set

    network = matrix.network
    demands = matrix.demands
    paths = tree_path_set(matrix, seed).heaviest(4).paths
    optimum = None
    smore = glop_best_rates(network, demands, paths)
    if len(demands) * len(network.links) <= MAX_VARIABLES:
        optimum = glop_optimum(network, demands)
    return {"smore:4": smore, "optimum": optimum}


@dataclass(frozen=True)
class _Programme:
    """A linear programme of GLOP that minimises the maximum link utilisation.

    Attributes:
        solver: The solver of ortools.
        utilisation: The variable of the MLU.
        link_rows: The constraint of each link: its flows minus the MLU times its capacity are at
            most 0.
    """

    solver: Any
    utilisation: Any
    link_rows: Sequence[Any]

    @classmethod
    def of_network(cls, network: Network) -> "_Programme":
        """Return the programme of a network, without flows."""
        from ortools.linear_solver import pywraplp

        solver = pywraplp.Solver.CreateSolver("GLOP")
        utilisation = solver.NumVar(0, solver.infinity(), "greatest")
        link_rows = []
        for link in network.links:
            link_row = solver.Constraint(-solver.infinity(), 0)
            link_row.SetCoefficient(utilisation, -link.capacity_bps / UNIT_BPS)
            link_rows.append(link_row)
        return cls(solver, utilisation, link_rows)

    def flow_variable(self) -> Any:
        """Return a new variable of a flow, in UNIT_BPS."""
        return self.solver.NumVar(0, self.solver.infinity(), "")

    def solve(self) -> float:
        """Return the smallest MLU.

        Raises:
            InputError: GLOP finds no optimum.
        """
        self.solver.Minimize(self.utilisation)
        if self.solver.Solve() != self.solver.OPTIMAL:
            raise InputError("GLOP found no optimum")
        return float(self.utilisation.solution_value())


def glop_optimum(network: Network, demands: Sequence[Demand]) -> float:
    """Return the smallest MLU of all routings.

    The programme has a variable per pair and link, and is meant for up to 20,000 variables. It is
    formulated differently from that of the method ``optimum``. Hosts do not forward.
    """
    programme = _Programme.of_network(network)
    solver = programme.solver
    hosts = {node.id for node in network.hosts}
    for source, sink, rate_bps in demands:
        balance = {node.id: solver.Constraint(0, 0) for node in network.nodes}
        rate = rate_bps / UNIT_BPS
        balance[source].SetBounds(rate, rate)
        balance[sink].SetBounds(-rate, -rate)
        other_hosts = hosts - {source, sink}
        for link, link_row in zip(network.links, programme.link_rows, strict=True):
            if link.source in other_hosts or link.target in other_hosts:
                continue
            flow = programme.flow_variable()
            balance[link.source].SetCoefficient(flow, 1)
            balance[link.target].SetCoefficient(flow, -1)
            link_row.SetCoefficient(flow, 1)
    return programme.solve()


def glop_best_rates(
    network: Network, demands: Sequence[Demand], paths: Sequence[Sequence[Sequence[int]]]
) -> float:
    """Return the smallest MLU if each pair may use some paths only.

    Args:
        network: The network.
        demands: The source, the sink and the rate of each pair.
        paths: The paths of each pair. A path is a sequence of indices of links.
    """
    programme = _Programme.of_network(network)
    for (_, _, rate_bps), pair_paths in zip(demands, paths, strict=True):
        rate = rate_bps / UNIT_BPS
        total = programme.solver.Constraint(rate, rate)
        for path in pair_paths:
            flow = programme.flow_variable()
            total.SetCoefficient(flow, 1)
            for link_index in path:
                programme.link_rows[link_index].SetCoefficient(flow, 1)
    return programme.solve()


def _one_flow_errors(name: str) -> Results:
    """Compare the link loads of one flow with those of its exact capillary route.

    Args:
        name: The network.

    Returns:
        The largest absolute difference of a link's load, a fraction of the flow: by the method
        ``fair`` (``fair_off``) and by ECMP (``ecmp_off``).
    """
    from testbed.routing.demands.methods import route_demands

    network = load_network(name)
    source, sink = FLOWS[name]
    matrix = matrices.given_matrix(network, "one flow", {(source, sink): 1e6})
    ecmp = _loads(network, source, sink, "ecmp")
    capillary = _loads(network, source, sink, "capillary")
    fair = route_demands(matrix, "fair").pair_shares(0)
    return {
        "fair_off": float(np.abs(fair - capillary).max()),
        "ecmp_off": float(np.abs(ecmp - capillary).max()),
    }


def _loads(network: Network, source: str, sink: str, method: str) -> FloatArray:
    """Return the load of each link (a fraction of the flow) on a route of one flow."""
    from testbed.routing.methods import route_by_name

    route = route_by_name(network, source, sink, method)
    return np.array([float(load) for load in route.loads])


def judge(rows: Rows) -> Verdict:
    """Check whether the routings are correct, and which of them are near the optimum."""
    return Verdict.of((*_correctness_checks(rows), *_quality_checks(rows)), _notes(rows))


def _correctness_checks(rows: Rows) -> list[Check]:
    """Check the routings, the proofs of their bounds, and the results of the other solver."""
    return [
        _check_violations(rows),
        _check_bound(rows),
        _check_solvers(rows),
        _check_certificates(rows),
    ]


def _check_violations(rows: Rows) -> Check:
    violations = 0
    routings = 0
    for row in rows:
        for rated in row["methods"].values():
            routings += 1
            violations += len(rated["violations"])
    return (
        Claim("violations found by the independent checker")
        .count(0, violations, "none: a count of errors")
        .noting(f"{routings} routings of {len(rows)} matrices")
    )


def _check_bound(rows: Rows) -> Check:
    over_bound = []
    for row in rows:
        bound = max(row["methods"]["optimum"]["bound"], 1e-12)
        over_bound.append(row["utilisation"] / bound - 1)
    ecmp = statistics.median(_figures_of(rows, "ecmp"))
    return (
        Claim("optimum over its proved bound, less 1, worst")
        .at_most(SOLVER_TOLERANCE, max(over_bound))
        .against(ecmp - 1, "a routing that is not optimal (ECMP, median)")
    )


def _check_solvers(rows: Rows) -> Check:
    """Check that GLOP finds the optima of HiGHS."""
    differences = []
    for row in rows:
        for method, glop_utilisation in row["again"].items():
            if glop_utilisation is not None:
                utilisation = row["methods"][method]["over_optimum"] * row["utilisation"]
                differences.append(abs(utilisation / glop_utilisation - 1))
    ratios = []
    trees = _figures_of(rows, "raecke")
    for tree_figure, smore_figure in zip(trees, _figures_of(rows, "smore:4"), strict=True):
        ratios.append(tree_figure / smore_figure)
    return (
        Claim("greatest utilisation by GLOP against HiGHS (optimum, SMORE), relative, worst")
        .at_most(SOLVER_TOLERANCE, max(differences))
        .against(
            statistics.median(ratios) - 1,
            "rates that are not the best for the same trees (median)",
        )
        .noting(f"{len(differences)} programmes")
    )


def _check_certificates(rows: Rows) -> Check:
    fillings = [row["filling"] for row in rows]
    return (
        Claim("objections to the certificates of max-min-fair rates")
        .equal(0, sum_of(fillings, "wrong"))
        .against(
            sum_of(fillings, "wrong_of_optimum"),
            "the rates that the optimum's routing gives, under the same certificates",
        )
        .noting(f"{sum_of(fillings, 'levels')} levels")
    )


def _quality_checks(rows: Rows) -> list[Check]:
    """Check which routings are as good as the optimum, or as the capillary route of one flow."""
    flows: Mapping[str, Results] = {row["network"]: row["flow"] for row in rows}
    fair_errors = [flow["fair_off"] for flow in flows.values()]
    ecmp_errors = [flow["ecmp_off"] for flow in flows.values()]
    smore = statistics.median(_figures_of(rows, "smore:4"))
    trees = statistics.median(_figures_of(rows, "raecke"))
    max_min_rate = min(_figures_of(rows, "max-min", "least_rate"))
    ecmp_rate = min(_figures_of(rows, "ecmp", "least_rate"))
    return [
        Claim("MLU of smore:4 over the optimum, median")
        .at_most(NEAR_OPTIMUM, smore)
        .against(trees, "the same trees with rates that do not know the demands"),
        Claim("least rate of max-min over the optimum's common one, least")
        .at_least(1 - PROGRAMME_TOLERANCE, max_min_rate)
        .against(ecmp_rate, "a routing that is not optimal (ECMP)"),
        Claim("loads of one flow: max-min-fair programme against the exact capillary route, worst")
        .at_most(PROGRAMME_TOLERANCE, max(fair_errors))
        .against(statistics.median(ecmp_errors), "another routing (ECMP, median)")
        .noting(f"{len(flows)} networks"),
    ]


def _notes(rows: Rows) -> list[str]:
    """Return a line per method with medians over the matrices.

    The last number is the method's processor time over that of capillary routing.
    """
    capillary_s = _figures_of(rows, "capillary", "seconds")
    notes = []
    for method in METHODS:
        over_optimum = _figures_of(rows, method)
        smallest_rate = statistics.median(_figures_of(rows, method, "least_rate"))
        throughput = statistics.median(_figures_of(rows, method, "throughput"))
        method_s = _figures_of(rows, method, "seconds")
        time_ratios = []
        for seconds, reference_s in zip(method_s, capillary_s, strict=True):
            time_ratios.append(seconds / max(reference_s, 1e-9))
        not_exposed = _figures_of(rows, method, "exposed").count(0)
        notes.append(
            f"{method}: MLU over optimum {statistics.median(over_optimum):.2f}, "
            f"worst {max(over_optimum):.2f}; "
            f"least rate {smallest_rate:.2f}, sum of rates {throughput:.2f}; "
            f"no pair exposed in {not_exposed} of {len(rows)}; "
            f"{statistics.median(method_s):.3f} s, "
            f"{statistics.median(time_ratios):.2f} times capillary's"
        )
    return notes


def figures(rows: Rows) -> Figures:
    """Draw the MLU over the optimum's, and the processor time, of each method."""
    seconds = _draw_methods(rows, "seconds", "processor s")
    seconds.axes[0].set_yscale("log")
    seconds.axes[0].autoscale(axis="y")
    return {
        "routings": _draw_methods(rows, "over_optimum", "MLU over the optimum's"),
        "seconds": seconds,
    }


def _draw_methods(rows: Rows, key: str, y: str) -> Figure:
    samples = {}
    for method in METHODS:
        samples["mean of the matrices", method] = _figures_of(rows, method, key)
    return draw_bars(f"{len(rows)} demand matrices", samples, y=y)


def _figures_of(rows: Rows, method: str, key: str = "over_optimum") -> list[float]:
    """Return a field of a method for each matrix, by default its MLU over the optimum's."""
    return [row["methods"][method][key] for row in rows]


STUDY = Study.of_module(
    __name__,
    name="comparers_routing",
    title="Routings of other authors compared with capillary routing",
    ror_code=describe_code(labels="random", m=20, tolerance=TOLERANCE, der=1e-5),
    answers="not in the documents: "
    "Gabrielyan 2007 compares capillary routing with a single path only",
    deviations=(
        "Gabrielyan 2007 routes one pair; "
        "demand matrices are ours, as are the networks other than Swiss-T1.",
        "SMORE's paths are the 4 heaviest per pair of our trees (seed 1); "
        "Kumar et al. 2018 have their own trees.",
        "Processor time is measured once for each method, on a machine with other work.",
    ),
)
