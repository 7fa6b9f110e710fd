"""One unit of a campaign to its rows: route once a method, then ROR for every tolerance, block and equation (Gabrielyan
2007, eq. 20 to 29)."""

import bisect
import itertools
import math
import random
from collections import Counter

from fec.redundancy.block_size import as_fraction, fec_block_size
from testbed.campaigns.description import Campaign, Unit
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.baselines import disjoint_paths
from testbed.routing.methods import route_by_name
from topologies.catalog import load_network
from topologies.errors import NoPathError
from topologies.network import Network
from topologies.text.json_types import JsonObject

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
    common: Row = {"unit": unit.index, "network": unit.network, "seed": unit.seed, "frame": unit.frame}
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


def drawn_pair(network: Network, seed: int, draw: int, minimum_paths: int) -> tuple[str, str] | None:
    """The ``draw``-th pair of a sequence that the seed fixes, among switches (nodes where there are none).

    Only pairs with ``minimum_paths`` edge-disjoint paths count; None where ten thousand draws found too few.
    """
    ends = [node.id for node in network.nodes if node.kind == "switch"] or [node.id for node in network.nodes]
    if len(ends) < 2:
        raise InputError(
            f"network {network.name}: a pair needs two nodes, it has {len(ends)}; give pairs in the campaign"
        )
    out, into = Counter(link.source for link in network.links), Counter(link.target for link in network.links)
    generator = random.Random(f"{seed}/{network.name}")
    found: dict[tuple[str, str], None] = {}
    for _ in range(MAX_DRAWS):
        source, sink = generator.sample(ends, 2)
        if min(out[source], into[sink]) < minimum_paths or (source, sink) in found:
            continue
        if not _joined(network, source, sink, minimum_paths):
            continue
        found[(source, sink)] = None
        if len(found) > draw:
            return source, sink
    return None


def _joined(network: Network, source: str, sink: str, paths: int) -> bool:
    try:
        return disjoint_paths(network, source, sink, paths).method == f"disjoint:{paths}"
    except NoPathError:
        return False


def _method_rows(campaign: Campaign, common: Row, route: SplitRoute | None) -> list[Row]:
    """ROR as ``fec.redundancy.ror.ror`` gives it; each load's block size is requested once, the sums are in floats."""
    loads = [] if route is None else sorted(route.loads[i] for i in route.loaded)
    forced = sum(load == 1 for load in loads)
    partial = loads[: len(loads) - forced]
    ratios = [1 / (1 - float(load)) for load in partial]
    known = {"infinite_links": forced, "loaded_links": len(loads), "largest_load": float(loads[-1])} if loads else {}
    sizes = {
        (m, der): [fec_block_size(m, load, der) if load >= least else 0 for load in partial]
        for least in [as_fraction(min(campaign.tolerances), "tolerance")]
        for m, der in itertools.product(campaign.m, campaign.der)
    }
    rows = []
    for tolerance, m, der, large in itertools.product(
        campaign.tolerances, campaign.m, campaign.der, campaign.large_blocks
    ):
        row = common | known | {"tolerance": tolerance, "m": m, "der": der, "large_blocks": large}
        if loads:
            t = as_fraction(tolerance, "tolerance")
            first = bisect.bisect_left(partial, t)
            base = 1 / (1 - t) if large else fec_block_size(m, t, der)
            terms = [amount / float(base) - 1 for amount in (ratios if large else sizes[m, der])[first:]]
            row |= {"ror_of_others": math.fsum(terms), "ror": None if forced else math.fsum(terms)}
        rows.append({name: row.get(name) for name in COLUMNS})
    return rows
