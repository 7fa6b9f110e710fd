"""One unit of a campaign to its rows: route once a method, then ROR for every tolerance, block and equation (Gabrielyan
2007, eq. 20 to 29)."""

import itertools
import random
from collections import Counter

from testbed.campaigns.description import Campaign, Unit
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import are_disjoint
from testbed.routing.methods import route_by_name
from testbed.routing.redundancy.route_ror import ror_by_tolerance
from topologies import JsonObject, Network, NoPathError, load_network

Row = JsonObject
MAX_DRAWS = 10_000

COLUMNS = {
    "unit": int,
    "network": str,
    "seed": int,
    "frame": int,
    "source": str,
    "sink": str,
    "method": str,
    "tolerance": float,
    "m": int,
    "der": float,
    "large_blocks": bool,
    "ror": float,
    "ror_of_others": float,
    "infinite_links": int,
    "loaded_links": int,
    "largest_load": float,
    "state": str,
}
"""Name and kind of each column. ``ror`` is None where infinite; ``ror_of_others`` leaves out links that carry
everything, as eq. 23 is printed; ``state`` is "ok", "no path" (then all figures are None) or "no pair" (none could be
drawn)."""


def unit_rows(campaign: Campaign, unit: Unit) -> list[Row]:
    """All rows of one unit, in the order of the campaign's methods, tolerances, m, der, large_blocks.

    Raises InputError for a network, end point or method that there is not.
    """
    network = load_network(unit.network)
    pair = unit.pair or drawn_pair(network, unit.seed, unit.draw, campaign.minimum_paths)
    common: Row = {
        "unit": unit.index,
        "network": unit.network,
        "seed": unit.seed,
        "frame": unit.frame,
    }
    common |= {"source": pair[0] if pair else "", "sink": pair[1] if pair else ""}
    rows: list[Row] = []
    for method in campaign.methods:
        route = None
        state = "ok" if pair else "no pair"
        if pair is not None:
            try:
                route = route_by_name(network, *pair, method)
            except NoPathError:
                state = "no path"
        rows += _method_rows(campaign, common | {"method": method, "state": state}, route)
    return rows


def drawn_pair(
    network: Network, seed: int, draw: int, minimum_paths: int
) -> tuple[str, str] | None:
    """The ``draw``-th pair of a sequence that the seed fixes, among switches (nodes where there are none).

    Only pairs with ``minimum_paths`` edge-disjoint paths count; None where ten thousand draws found too few.
    """
    ends = [node.id for node in network.nodes if node.kind == "switch"] or [
        node.id for node in network.nodes
    ]
    if len(ends) < 2:
        raise InputError(
            f"network {network.name}: a pair needs two nodes, it has {len(ends)}; give pairs in the campaign"
        )
    out, into = (
        Counter(link.source for link in network.links),
        Counter(link.target for link in network.links),
    )
    generator = random.Random(f"{seed}/{network.name}")
    found: dict[tuple[str, str], None] = {}
    for _ in range(MAX_DRAWS):
        source, sink = generator.sample(ends, 2)
        if min(out[source], into[sink]) < minimum_paths or (source, sink) in found:
            continue
        if not are_disjoint(network, source, sink, minimum_paths):
            continue
        found[(source, sink)] = None
        if len(found) > draw:
            return source, sink
    return None


def _method_rows(campaign: Campaign, common: Row, route: SplitRoute | None) -> list[Row]:
    """ROR as ``fec.redundancy.ror.ror`` gives it, the sums in floats."""
    loads = [] if route is None else [route.loads[i] for i in route.loaded]
    forced = sum(load == 1 for load in loads)
    known = (
        {"infinite_links": forced, "loaded_links": len(loads), "largest_load": float(max(loads))}
        if loads
        else {}
    )
    cases = list(itertools.product(campaign.m, campaign.der, campaign.large_blocks))
    rors = [
        ror_by_tolerance(route, campaign.tolerances, m, der, large_blocks=large)
        for m, der, large in cases
        if route is not None and loads
    ]
    rows = []
    for at, tolerance in enumerate(campaign.tolerances):
        for (m, der, large), ror in itertools.zip_longest(cases, rors):
            row = (
                common | known | {"tolerance": tolerance, "m": m, "der": der, "large_blocks": large}
            )
            if ror is not None:
                row |= {"ror_of_others": ror[at], "ror": None if forced else ror[at]}
            rows.append({name: row.get(name) for name in COLUMNS})
    return rows
