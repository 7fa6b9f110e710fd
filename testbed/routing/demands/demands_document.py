"""The JSON object of ``testbed demands`` and ``testbed.demands`` for a demand matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.sparse import csr_array

from testbed.errors import InputError
from testbed.routing.demands.matrix import (
    DemandMatrix,
    RoutedDemands,
    checked,
    fair_rates,
    given_matrix,
    gravity_matrix,
    uniform_matrix,
)
from testbed.routing.demands.matrix_files import read_matrix_file
from testbed.routing.demands.methods import timed_routings
from testbed.routing.demands.redundancy import total_ror, unavoidable_links
from testbed.routing.redundancy.coding import Coding
from topologies import JsonObject, Network, link_fields
from topologies.files.formats import read_topohub_demands


def read_matrix(
    network: Network, name: str, matrix: str, between: str, total_bps: float | None
) -> DemandMatrix:
    """Return the demand matrix of a network.

    Args:
        network: The network.
        name: Name by which the caller loaded the network; "own" demands come from there.
        matrix: "uniform", "gravity", "own" or a file.
        between: The end points of a uniform or gravity matrix, "switches" or "hosts".
        total_bps: Sum of all demands in bits per second, to which the matrix is scaled, or None.

    Raises:
        InputError: There are no such demands or end points.
    """
    if matrix in ("uniform", "gravity"):
        demands = _model_matrix(network, matrix, between)
    elif matrix == "own":
        demands = _own_matrix(network, name)
    else:
        hint = "give uniform, gravity, own or a file of demands"
        demands = read_matrix_file(matrix, network, hint)
    return demands if total_bps is None else demands.scaled_to(total_bps)


def _model_matrix(network: Network, model: str, between: str) -> DemandMatrix:
    """Return the uniform or the gravity matrix between the network's switches or hosts."""
    nodes = network.hosts if between == "hosts" else network.switches
    ends = [node.id for node in nodes]
    if len(ends) < 2:
        raise InputError(
            f"network {network.name!r} has {len(ends)} {between}; choose other end points with "
            "--end-points"
        )
    if model == "uniform":
        return uniform_matrix(network, ends)
    return gravity_matrix(network, ends)


def _own_matrix(network: Network, name: str) -> DemandMatrix:
    """Return the demands that topohub has for the network."""
    family, _, key = name.partition(":")
    rates = read_topohub_demands(key) if family == "topohub" else {}
    if not rates:
        raise InputError(
            f"--matrix own: {name} has no demands; take one of topohub:sndlib/..., or --matrix "
            "gravity"
        )
    return given_matrix(network, "own", rates)


def demands_document(
    matrix: DemandMatrix,
    methods: Sequence[str],
    coding: Coding,
    *,
    seed: int,
    links: bool,
    now: Callable[[], float],
) -> tuple[JsonObject, dict[str, RoutedDemands]]:
    """Return the object of ``testbed demands --json``, and the routing of each method.

    Args:
        matrix: The demands.
        methods: Names of routing methods. The optimum and capillary routing are always computed.
        coding: How each pair's stream is coded.
        seed: Seed of the routing trees.
        links: Whether the load of every link is listed.
        now: The clock that measures how long a method takes, in seconds.
    """
    all_methods = list(dict.fromkeys(("optimum", "capillary", *methods)))
    routings = {}
    duration_s = {}
    for method, routed, method_s in timed_routings(matrix, all_methods, seed, now):
        routings[method] = routed
        duration_s[method] = method_s
    optimum = routings["optimum"]
    forced = unavoidable_links(routings["capillary"])
    rows = []
    for method in methods:
        routed = routings[method]
        row: JsonObject = {"method": method} | _figures(routed, optimum, coding, forced)
        row["seconds"] = round(duration_s[method], 4)
        row["violations"] = list(checked(routed).violations)
        if links:
            row |= link_list(routed)
        rows.append(row)
    best = checked(optimum)
    document = {
        "network": matrix.network.name,
        "matrix": matrix.name,
        "pairs": len(matrix.pairs),
        "omitted_pairs": matrix.left_out,
        "total_bps": matrix.total_bps,
        "single_link_pairs": int((forced.sum(axis=1) > 0).sum()),
        "optimum": {
            "utilisation": best.utilisation,
            "bound": best.bound,
            "proved": best.bound >= best.utilisation * (1 - 1e-5),
        },
        "coding": {
            "static_tolerance": coding.tolerance,
            "source_packets": coding.source_packets,
            "decoding_error_rate": coding.decoding_error_rate,
            "labels": coding.labels,
            "large_blocks": coding.large_blocks,
        },
        "methods": rows,
    }
    return document, {method: routings[method] for method in methods}


def _figures(
    routed: RoutedDemands, optimum: RoutedDemands, coding: Coding, forced: csr_array
) -> JsonObject:
    """Return the figures of a routing.

    Args:
        routed: The routing.
        optimum: The multicommodity optimum, to compare with.
        coding: How each pair's stream is coded.
        forced: The result of ``unavoidable_links``.
    """
    redundancy = total_ror(routed, coding, forced)
    rates = fair_rates(routed)
    return {
        "utilisation": routed.greatest_utilisation,
        "over_optimum": routed.greatest_utilisation / optimum.greatest_utilisation,
        "mean_links": float(routed.loads_bps.sum()) / routed.matrix.total_bps,
        "throughput_bps": float(rates.sum()),
        "min_rate": float((rates / routed.matrix.rates).min()),
        "ror": None if redundancy.exposed else redundancy.total,
        "ror_without_exposed": redundancy.of_others,
        "ror_weighted": None if redundancy.exposed else redundancy.weighted,
        "exposed_pairs": redundancy.exposed,
    }


def link_list(routed: RoutedDemands) -> JsonObject:
    """Return the load of every link of a routing, under ``links``."""
    rows = []
    links = routed.matrix.network.links
    loads_bps = routed.loads_bps.tolist()
    utilisations = routed.utilisations.tolist()
    for link, load_bps, utilisation in zip(links, loads_bps, utilisations, strict=True):
        rows.append(link_fields(link.id) | {"load_bps": load_bps, "utilisation": utilisation})
    return {"links": rows}
