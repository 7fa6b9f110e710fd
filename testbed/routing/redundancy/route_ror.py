"""The redundancy that a route requires (Gabrielyan 2007, section 4.3 and appendix G).

Campaigns, experiments and ``testbed ror`` share these functions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
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

# Number of packets in the longest block of a Reed-Solomon code over GF(256).
REED_SOLOMON_MOST = 255

# Losses of pairs are rounded to this many digits, so that equal losses share one block size.
_PAIR_LOSS_DIGITS = 6


def route_ror(route: SplitRoute, coding: Coding) -> JsonObject:
    """Return the ROR of a route, and the figures that explain it, ready for JSON.

    The keys are:

    - ``ror``: the ROR, None if it is infinite;
    - ``ror_of_others``: the ROR without links that carry the complete flow (equation 23);
    - ``infinite_links``: the names of these links;
    - ``loaded_links``: number of links with a load;
    - ``counted_links``: number of links whose load is at least the tolerance;
    - ``largest_load``: the largest load;
    - ``fec_tolerance``: the block size FEC_t without failures, or M / (1 - t) for large blocks.
    """
    terms = route_breakdown(route, coding)
    tolerance = as_fraction(coding.tolerance, "tolerance")
    counted_links = 0
    for term in terms.per_load:
        if term.overhead is not None and term.load >= tolerance:
            counted_links += 1
    return {
        "ror": None if terms.infinite else terms.ror,
        "ror_of_others": terms.finite,
        "infinite_links": [route.network.links[route.loaded[i]].label for i in terms.infinite],
        "loaded_links": len(route.loaded),
        "counted_links": counted_links,
        "largest_load": float(max(route.loads)),
        "fec_tolerance": block_size_at_rest(coding, terms),
    }


def named_rors(route: SplitRoute, coding: Coding, terms: RorBreakdown) -> dict[str, float | None]:
    """Return the ROR of the document, and the ROR of the chosen order of labels.

    Both omit the links that no code can protect.

    Args:
        route: The route.
        coding: How the stream is coded.
        terms: The breakdown of the route's ROR for this coding.

    Returns:
        ``ror_eq23``: Gabrielyan 2007, equation 23, for random labels. ``ror_label_order``: the same
        for stratified labels, with the smallest N that can be decoded in any phase of a block; None
        if the coding has random labels.
    """
    if coding.labels != "stratified":
        return {"ror_eq23": terms.finite, "ror_label_order": None}
    random_terms = route_breakdown(route, replace(coding, labels="random"))
    return {"ror_eq23": random_terms.finite, "ror_label_order": terms.finite}


def route_breakdown(route: SplitRoute, coding: Coding) -> RorBreakdown:
    """Return the block size and overhead of each loaded link, in the order of ``route.loaded``.

    For stratified labels, the loads are those of the label intervals (within 2/65536 of the
    route's loads), and the block sizes are exact bounds.

    Raises:
        InputError: A value of the coding is out of its bounds.
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
    """Return FEC_t: the number of packets sent per block of M when no link is down."""
    if terms.base_block_size is not None:
        return terms.base_block_size
    return float(coding.source_packets / (1 - as_fraction(coding.tolerance, "tolerance")))


@dataclass(frozen=True, kw_only=True)
class PairRor:
    """The ROR over double failures (appendix G).

    Attributes:
        all_pairs: The sum over every pair of the network's links, including links without load.
        printed: The sum as equation 53 is printed: over pairs of which both loads reach the
            tolerance.
        infinite_pairs: Number of pairs whose failure disconnects source and sink. Both sums omit
            them.
    """

    all_pairs: float
    printed: float
    infinite_pairs: int


def pair_ror(route: SplitRoute, coding: Coding) -> PairRor:
    """Return the ROR of double failures of loaded links.

    The loss of a pair is loss(l1, l2) of the proportional model, rounded to a millionth.
    """
    losses = pair_losses(route)
    overhead = _overhead_of_loss(coding)
    all_pairs = 0.0
    printed = 0.0
    infinite_pairs = 0
    for a in range(len(losses)):
        for b in range(a):
            loss = round(float(losses[a, b]), _PAIR_LOSS_DIGITS)
            if loss >= 1:
                infinite_pairs += 1
                continue
            all_pairs += overhead(loss)
            smaller_load = min(losses[a, a], losses[b, b])
            larger_load = max(losses[a, a], losses[b, b])
            if smaller_load >= coding.tolerance and larger_load < 1:
                printed += overhead(loss)
    return PairRor(all_pairs=all_pairs, printed=printed, infinite_pairs=infinite_pairs)


def _overhead_of_loss(coding: Coding) -> Callable[[float], float]:
    """Return a function from a loss p to FEC_p / FEC_t - 1.

    The function returns 0 for a loss below the tolerance. It also returns 0 for the loss of the
    complete flow, which callers count separately.
    """
    tolerance = coding.tolerance
    source_packets = coding.source_packets
    error_rate = coding.decoding_error_rate
    base_block_size = fec_block_size(source_packets, tolerance, error_rate)

    @cache
    def overhead(loss: float) -> float:
        if loss < tolerance or loss >= 1:
            return 0.0
        if coding.large_blocks:
            return (1 - tolerance) / (1 - loss) - 1
        return fec_block_size(source_packets, loss, error_rate) / base_block_size - 1

    return overhead


def _stratified_breakdown(route: SplitRoute, coding: Coding) -> RorBreakdown:
    """Return the breakdown of the ROR for stratified labels, in their best layout."""
    split = spray(route)
    source_packets = coding.source_packets
    tolerance = as_fraction(coding.tolerance, "tolerance")
    rule = best_layout(interval_groups(split), source_packets, float(tolerance)).rule
    loads = [split.load(i) for i in route.loaded]
    block_sizes: list[int | None] = []
    # Without failures, the block must also tolerate losses below the tolerance.
    base_block_size = rest_block_size(tolerance, source_packets, rule)
    for link, load in zip(route.loaded, loads, strict=True):
        if not 0 < load < 1:
            block_sizes.append(None)
            continue
        block_size = stratified_block_size(split.intervals(link), source_packets, rule)
        block_sizes.append(block_size)
        if load < tolerance:
            base_block_size = max(base_block_size, block_size)
    return ror_of_block_sizes(
        loads,
        block_sizes,
        base_block_size,
        tolerance=coding.tolerance,
        source_packets=source_packets,
    )


def longest_block_over_rs_limit(terms: RorBreakdown) -> int | None:
    """Return the size of the longest block if it is too long for a Reed-Solomon code, or None."""
    sizes = [term.block_size for term in terms.per_load if term.block_size is not None]
    longest = max([*sizes, terms.base_block_size or 0])
    return longest if longest > REED_SOLOMON_MOST else None


def ror_by_tolerance(
    route: SplitRoute, tolerances: Sequence[float], m: int, der: float, *, large_blocks: bool
) -> list[float]:
    """Return the ROR of a route at each tolerance, without the links that carry the complete flow.

    The block size of each load is computed only once. The results are floats that equal
    ``ror_of_others`` of ``route_ror`` up to rounding.

    Args:
        route: The route.
        tolerances: The static tolerances.
        m: Number of source packets per block.
        der: Decoding error rate.
        large_blocks: Use the block sizes of equation 29.
    """
    loaded = [route.loads[i] for i in route.loaded]
    smallest_tolerance = as_fraction(min(tolerances), "tolerance")
    # Loads with their block sizes; those of large blocks are in units of M.
    block_sizes: list[tuple[Fraction, float]] = []
    for load in sorted(loaded):
        if not smallest_tolerance <= load < 1:
            continue
        if large_blocks:
            size = 1 / (1 - float(load))
        else:
            size = float(fec_block_size(m, load, der))
        block_sizes.append((load, size))
    rors = []
    for value in tolerances:
        tolerance = as_fraction(value, "tolerance")
        if large_blocks:
            base = float(1 / (1 - tolerance))
        else:
            base = float(fec_block_size(m, tolerance, der))
        terms = [size / base - 1 for load, size in block_sizes if load >= tolerance]
        rors.append(math.fsum(terms))
    return rors
