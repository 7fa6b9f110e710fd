"""Linear programmes of routing once more, by another solver (GLOP of OR-tools) and in another form: a flow a pair, link
by link."""

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.errors import InputError
from testbed.routing.demands.checker import Demand
from topologies.network import Network

UNIT_BPS = 1e6


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


def glop_best_rates(network: Network, demands: Sequence[Demand], paths: Sequence[Sequence[Sequence[int]]]) -> float:
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
