"""The document of ``testbed demands`` and ``testbed.demands`` for a demand matrix."""

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
        name: How the caller names the network, which says where "own" demands are.
        matrix: "uniform", "gravity", "own" or a file.
        between: The end points of a uniform or gravity matrix, "switches" or "hosts".
        total_bps: The sum to which the matrix is scaled, or None.
    """
    ends = [node.id for node in (network.hosts if between == "hosts" else network.switches)]
    if matrix in ("uniform", "gravity"):
        if len(ends) < 2:
            raise InputError(
                f"network {network.name!r} has {len(ends)} {between}; choose other ends by --end-points"
            )
        demands = (uniform_matrix if matrix == "uniform" else gravity_matrix)(network, ends)
    elif matrix == "own":
        family, _, key = name.partition(":")
        rates = read_topohub_demands(key) if family == "topohub" else {}
        if not rates:
            raise InputError(
                f"--matrix own: {name} has no demands; take one of topohub:sndlib/..., or --matrix gravity"
            )
        demands = given_matrix(network, "own", rates)
    else:
        hint = "give uniform, gravity, own or a file of demands"
        demands = read_matrix_file(matrix, network, hint)
    return demands if total_bps is None else demands.scaled_to(total_bps)


def demands_document(
    matrix: DemandMatrix,
    methods: Sequence[str],
    coding: Coding,
    *,
    seed: int,
    links: bool,
    now: Callable[[], float],
) -> tuple[JsonObject, dict[str, RoutedDemands]]:
    """Return the object of ``testbed demands --json``, and what each method routes.

    Args:
        matrix: The demands.
        methods: Routing methods; the optimum and capillary routing are computed in any case.
        coding: How each pair's stream is coded.
        seed: Seed of the routing trees.
        links: Whether the load of every link is listed.
        now: The clock that measures how long a method takes, in seconds.
    """
    every = list(dict.fromkeys(("optimum", "capillary", *methods)))
    timed = {name: (routed, s) for name, routed, s in timed_routings(matrix, every, seed, now)}
    optimum, forced = timed["optimum"][0], unavoidable_links(timed["capillary"][0])
    rated, found = [], {}
    for method in methods:
        found[method], taken = timed[method]
        rated.append(
            _rated(found[method], method, taken, optimum, (coding, forced))
            | (link_list(found[method]) if links else {})
        )
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
        }
        | {"labels": coding.labels, "large_blocks": coding.large_blocks},
        "methods": rated,
    }
    return document, found


def _rated(
    routed: RoutedDemands,
    method: str,
    seconds: float,
    optimum: RoutedDemands,
    rating: tuple[Coding, csr_array],
) -> JsonObject:
    found, redundancy = checked(routed), total_ror(routed, *rating)
    rates = fair_rates(routed)
    return {
        "method": method,
        "utilisation": routed.greatest_utilisation,
        "over_optimum": routed.greatest_utilisation / optimum.greatest_utilisation,
        "mean_links": float(routed.loads_bps.sum()) / routed.matrix.total_bps,
        "throughput_bps": float(rates.sum()),
        "min_rate": float((rates / routed.matrix.rates).min()),
        "ror": None if redundancy.exposed else redundancy.total,
        "ror_without_exposed": redundancy.of_others,
        "ror_weighted": None if redundancy.exposed else redundancy.weighted,
        "exposed_pairs": redundancy.exposed,
        "seconds": round(seconds, 4),
        "violations": list(found.violations),
    }


def link_list(routed: RoutedDemands) -> JsonObject:
    """Return the load of every link of a routing, under ``links``."""
    rows = zip(
        routed.matrix.network.links,
        routed.loads_bps.tolist(),
        routed.utilisations.tolist(),
        strict=True,
    )
    return {
        "links": [
            link_fields(link.id) | {"load_bps": load, "utilisation": used}
            for link, load, used in rows
        ]
    }
