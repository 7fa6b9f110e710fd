"""Computes the rows of a unit of a campaign.

For each method it computes the route, and for each tolerance, block and equation the redundancy
overall requirement, ROR (Gabrielyan 2007, eq. 20 to 29).
"""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from testbed.campaigns.description import Campaign, Unit
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import are_disjoint
from testbed.routing.methods import route_by_name
from testbed.routing.redundancy.route_ror import ror_by_tolerance
from topologies import JsonObject, Network, NoPathError, load_network

Row = JsonObject
# Number of random pairs that are tried. If too few of them are suitable, there is no pair.
MAX_DRAWS = 10_000

# Name and type of each column. ``ror`` is None if it is infinite. ``ror_of_others`` omits the links
# that carry the complete flow, as eq. 23 is printed. ``infinite_links`` counts these links.
# ``state`` is "ok", "no path" or "no pair" (no random pair was found). Without a route, the columns
# of ROR, links and load are None.
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


def unit_rows(campaign: Campaign, unit: Unit) -> list[Row]:
    """Return the rows of a unit.

    They are in the order of the campaign's methods, tolerances, m, der and large_blocks.

    Raises:
        InputError: The network, an end point or a method does not exist.
    """
    network = load_network(unit.network)
    pair = unit.pair or drawn_pair(network, unit.seed, unit.draw, campaign.minimum_paths)
    common: Row = {
        "unit": unit.index,
        "network": unit.network,
        "seed": unit.seed,
        "frame": unit.frame,
    }
    source, sink = pair or ("", "")
    common |= {"source": source, "sink": sink}
    rows: list[Row] = []
    for method in campaign.methods:
        route = None
        state = "no pair"
        if pair is not None:
            state = "ok"
            try:
                route = route_by_name(network, *pair, method)
            except NoPathError:
                state = "no path"
        rows += _method_rows(campaign, common | {"method": method, "state": state}, route)
    return rows


def drawn_pair(
    network: Network, seed: int, draw: int, minimum_paths: int
) -> tuple[str, str] | None:
    """Return a random pair of switches, or of nodes if the network has no switches.

    Args:
        network: The network.
        seed: Seed of the sequence of pairs.
        draw: Number of the pair in the sequence, from 0.
        minimum_paths: Pairs with fewer edge-disjoint paths are skipped.

    Returns:
        None if ``MAX_DRAWS`` random pairs contain too few suitable ones.

    Raises:
        InputError: The network has fewer than two nodes.
    """
    ends = [node.id for node in network.nodes if node.kind == "switch"]
    if not ends:
        ends = [node.id for node in network.nodes]
    if len(ends) < 2:
        raise InputError(
            f"network {network.name}: a pair needs two nodes, it has {len(ends)}; "
            "give pairs in the campaign"
        )
    out_degree = Counter(link.source for link in network.links)
    in_degree = Counter(link.target for link in network.links)
    rng = random.Random(f"{seed}/{network.name}")
    pairs: set[tuple[str, str]] = set()
    for _ in range(MAX_DRAWS):
        source, sink = rng.sample(ends, 2)
        # The degrees exclude most pairs quickly.
        if min(out_degree[source], in_degree[sink]) < minimum_paths or (source, sink) in pairs:
            continue
        if not are_disjoint(network, source, sink, minimum_paths):
            continue
        pairs.add((source, sink))
        if len(pairs) > draw:
            return source, sink
    return None


def _method_rows(campaign: Campaign, common: Row, route: SplitRoute | None) -> list[Row]:
    """Return the rows of one method.

    The ROR equals that of ``fec.redundancy.ror.ror``, up to rounding: it is a sum of floats.

    Args:
        campaign: The campaign.
        common: The columns that all rows share.
        route: The route, or None if there is none.
    """
    loads = []
    if route is not None:
        loads = [route.loads[i] for i in route.loaded]
    full_links = loads.count(Fraction(1))
    if loads:
        common = common | {
            "infinite_links": full_links,
            "loaded_links": len(loads),
            "largest_load": float(max(loads)),
        }
    cases = list(itertools.product(campaign.m, campaign.der, campaign.large_blocks))
    rors_by_case: list[Sequence[float] | None] = [None] * len(cases)
    if route is not None and loads:
        for k, (m, der, large_blocks) in enumerate(cases):
            rors_by_case[k] = ror_by_tolerance(
                route, campaign.tolerances, m, der, large_blocks=large_blocks
            )
    rows = []
    for i, tolerance in enumerate(campaign.tolerances):
        for (m, der, large_blocks), rors in zip(cases, rors_by_case, strict=True):
            row = common | {
                "tolerance": tolerance,
                "m": m,
                "der": der,
                "large_blocks": large_blocks,
            }
            if rors is not None:
                row["ror_of_others"] = rors[i]
                row["ror"] = None if full_links else rors[i]
            rows.append({name: row.get(name) for name in COLUMNS})
    return rows
