"""One question to one JSON-able row: what redundancy does a routing of this flow ask for (Gabrielyan 2007, section 4.3
and Appendix G).

The functions that campaigns, experiments and ``testbed ror`` share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from fec import FecError, fec_block_size, ror_breakdown
from fec.redundancy.block_size import as_fraction, stratified_block_size
from fec.redundancy.label_layout import best_layout, rest_block_size
from fec.redundancy.ror import RorBreakdown, ror_of_block_sizes
from testbed.errors import InputError
from testbed.model.routes import SplitRoute
from testbed.routing.label_split.spraying import interval_groups, spray
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.failures import pair_losses
from topologies import JsonObject

REED_SOLOMON_MOST = 255
"""Packets in the longest block of a Reed-Solomon code over GF(256)."""


def route_ror(route: SplitRoute, coding: Coding) -> JsonObject:
    """What ``testbed ror`` says of a route, ready for JSON.

    ``ror`` (None where infinite), ``ror_of_others`` (links that carry everything left out, as eq. 23 is printed),
    ``infinite_links`` (their names), ``loaded_links``, ``counted_links`` (loads of the tolerance or more),
    ``largest_load``, ``fec_tolerance`` (FEC_t; M / (1 - t) for large blocks).
    """
    terms = route_breakdown(route, coding)
    partial = [term for term in terms.per_load if term.overhead is not None]
    t = as_fraction(coding.tolerance, "tolerance")
    return {
        "ror": None if terms.infinite else terms.ror,
        "ror_of_others": terms.finite,
        "infinite_links": [route.network.links[route.loaded[i]].label for i in terms.infinite],
        "loaded_links": len(route.loaded),
        "counted_links": sum(term.load >= t for term in partial),
        "largest_load": float(max(route.loads)),
        "fec_tolerance": block_size_at_rest(coding, terms),
    }


def named_rors(route: SplitRoute, coding: Coding, terms: RorBreakdown) -> dict[str, float | None]:
    """``ror_eq23``: Gabrielyan 2007, eq. 23, of random labels; ``ror_label_order``: of stratified ones, the least N
    that decodes in any phase of a block (None for random labels). Both without the links that no code helps."""
    stratified = coding.labels == "stratified"
    stated = route_breakdown(route, replace(coding, labels="random")) if stratified else terms
    return {"ror_eq23": stated.finite, "ror_label_order": terms.finite if stratified else None}


def route_breakdown(route: SplitRoute, coding: Coding) -> RorBreakdown:
    """Block size and overhead of each loaded link, in the order of ``route.loaded``.

    Stratified labels: loads are those of the label intervals (within 2/65536 of the route's), sizes the exact bounds.
    """
    try:
        if coding.labels == "stratified":
            return _stratified_breakdown(route, coding)
        return ror_breakdown(
            [route.loads[i] for i in route.loaded],
            tolerance=coding.tolerance,
            source_packets=coding.source_packets,
            decoding_error_rate=coding.decoding_error_rate,
            large_blocks=coding.large_blocks,
        )
    except FecError as error:
        raise InputError(str(error)) from None


def block_size_at_rest(coding: Coding, terms: RorBreakdown) -> float:
    """FEC_t: packets sent per block of M at rest."""
    if terms.base_block_size is not None:
        return terms.base_block_size
    return float(coding.source_packets / (1 - as_fraction(coding.tolerance, "tolerance")))


@dataclass(frozen=True, kw_only=True)
class PairRor:
    """ROR over double failures (Appendix G). ``all_pairs``: the sum over every pair of the network's ``links`` links,
    those that carry nothing included; ``printed``: as eq. 53 prints it, over pairs of which both loads reach the
    tolerance. ``infinite_pairs`` cut everything between them and are left out of both sums."""

    all_pairs: float
    printed: float
    infinite_pairs: int


def pair_ror(route: SplitRoute, coding: Coding) -> PairRor:
    """ROR of double failures of links that carry anything, by the proportional model's loss(l1, l2), rounded to a
    millionth."""
    losses = pair_losses(route)
    t = coding.tolerance
    cost = _overhead_of(coding)
    total = printed = 0.0
    infinite = 0
    for a in range(len(losses)):
        for b in range(a):
            loss = round(float(losses[a, b]), 6)
            if loss >= 1:
                infinite += 1
                continue
            total += cost(loss)
            if min(losses[a, a], losses[b, b]) >= t and max(losses[a, a], losses[b, b]) < 1:
                printed += cost(loss)
    return PairRor(all_pairs=total, printed=printed, infinite_pairs=infinite)


def _overhead_of(coding: Coding) -> Callable[[float], float]:
    """FEC_p / FEC_t - 1 of a loss, 0 below the tolerance; a loss of everything counts 0 (it is counted elsewhere)."""
    m, der, t = coding.source_packets, coding.decoding_error_rate, coding.tolerance
    base = fec_block_size(m, t, der)

    @cache
    def cost(loss: float) -> float:
        if loss < t or loss >= 1:
            return 0.0
        return (
            (1 - t) / (1 - loss) - 1
            if coding.large_blocks
            else fec_block_size(m, loss, der) / base - 1
        )

    return cost


def _stratified_breakdown(route: SplitRoute, coding: Coding) -> RorBreakdown:
    split = spray(route)
    m = coding.source_packets
    loads = [split.load(i) for i in route.loaded]
    t = as_fraction(coding.tolerance, "tolerance")
    rule = best_layout(interval_groups(split), m, float(t)).rule
    sizes = [
        stratified_block_size(split.intervals(i), m, rule) if 0 < load < 1 else None
        for i, load in zip(route.loaded, loads, strict=True)
    ]
    tolerated = [
        size for size, load in zip(sizes, loads, strict=True) if size is not None and load < t
    ]
    base = max([rest_block_size(t, m, rule), *tolerated])
    return ror_of_block_sizes(loads, sizes, base, tolerance=coding.tolerance, source_packets=m)


def longest_block_over_rs_limit(terms: RorBreakdown) -> int | None:
    """The longest block that is too long for a Reed-Solomon code, or None."""
    sizes = [term.block_size for term in terms.per_load if term.block_size is not None]
    longest = max([*sizes, terms.base_block_size or 0])
    return longest if longest > REED_SOLOMON_MOST else None


def ror_by_tolerance(
    route: SplitRoute, tolerances: Sequence[float], m: int, der: float, *, large_blocks: bool
) -> list[float]:
    """ROR of one route at many tolerances, links that carry everything left out: block sizes are requested once.

    In floats; as ``route_ror``'s ``ror_of_others`` to rounding.
    """
    loads = sorted(load for load in (route.loads[i] for i in route.loaded) if load < 1)
    least = as_fraction(min(tolerances), "tolerance")
    needs = [
        (load, 1 / (1 - float(load)) if large_blocks else float(fec_block_size(m, load, der)))
        for load in loads
        if load >= least
    ]
    found = []
    for tolerance in tolerances:
        t = as_fraction(tolerance, "tolerance")
        base = float(1 / (1 - t) if large_blocks else fec_block_size(m, t, der))
        found.append(math.fsum(need / base - 1 for load, need in needs if load >= t))
    return found
