"""The document of ``testbed ror`` and ``testbed.ror`` for one route."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fec.redundancy.block_size import fec_block_size
from fec.redundancy.label_layout import block_size_bound
from fec.redundancy.ror import LoadOverhead, RorBreakdown
from testbed.errors import InputError
from testbed.model.naming.names import read_link
from testbed.model.routes import SplitRoute
from testbed.routing.label_split.spraying import spray
from testbed.routing.redundancy import failures as rates
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.route_ror import (
    REED_SOLOMON_MOST,
    block_size_at_rest,
    longest_block_over_rs_limit,
    named_rors,
    pair_ror,
    route_breakdown,
    route_ror,
)
from topologies import JsonObject, label_of, link_fields

CODES = ("any", "reed-solomon", "raptorq")


def full_method_name(method: str, coding: Coding, layers: int | None = None) -> str:
    """Return a routing method with the number that belongs to it.

    Args:
        method: A method; ``least-fec`` alone is the least for the tolerance of the coding.
        coding: How the stream is coded.
        layers: Number of layers of capillary routing, or None.
    """
    if method == "least-fec":
        return f"least-fec:{coding.tolerance!r}"
    if layers is None:
        return method
    if method != "capillary":
        raise InputError(f"routing method {method!r} takes no layers; only 'capillary' does")
    return f"capillary:{layers}"


def failure_durations(
    failure_s: float | None, between_s: float | None
) -> tuple[float, float] | None:
    """Return both durations, or None if none is given; InputError if one is missing."""
    if failure_s is None and between_s is None:
        return None
    if failure_s is None or between_s is None:
        raise InputError(
            "give --failure-duration and --failure-interval together: how long a failure lasts, how far apart they are"
        )
    return failure_s, between_s


def ror_document(
    route: SplitRoute,
    method: str,
    coding: Coding,
    *,
    code: str = "any",
    failed: Sequence[str] = (),
    durations: tuple[float, float] | None = None,
) -> JsonObject:
    """Return the object of ``testbed ror --json``.

    Args:
        route: The route that is rated.
        method: The routing method as the caller names it.
        coding: How the stream is coded.
        code: One of ``CODES``; blocks that are too long for it are refused.
        failed: Links whose failure together is described, as ``a->b``.
        durations: Duration of a failure and mean time between two failures of one link, to weigh
            overlapping failures.

    Raises:
        InputError: A link is unknown, or a block is too long for the code.
    """
    terms = route_breakdown(route, coding)
    links = route.network.links
    document: JsonObject = {
        "network": route.network.name,
        "source": route.source,
        "sink": route.sink,
        "method": method,
        "static_tolerance": coding.tolerance,
        "source_packets": coding.source_packets,
        "decoding_error_rate": coding.decoding_error_rate,
        "large_blocks": coding.large_blocks,
        "labels": coding.labels,
        "ror": None if terms.infinite else terms.ror,
        **named_rors(route, coding, terms),
        "infinite_links": [links[route.loaded[i]].label for i in terms.infinite],
        "fec_tolerance": block_size_at_rest(coding, terms),
        "per_link": [
            {
                **link_fields(links[i].id),
                "load": _load_text(route.loads[i]),
                "load_float": float(route.loads[i]),
                "block_size": term.block_size,
                "block_size_lower_bound": _bound(term, coding),
                "overhead": None if term.overhead is None else float(term.overhead),
            }
            for i, term in zip(route.loaded, terms.per_load, strict=True)
        ],
        "note": _too_long(terms, code),
    }
    if failed:
        document["failure"] = _failure(route, failed, coding)
    if durations is not None:
        document["overlap"] = _overlap(route, coding, durations)
    return document


def _load_text(load: Fraction) -> str:
    """Return the load as an exact fraction, or as a number if a solver made the fraction."""
    return str(load) if load.denominator < 10**12 else repr(float(load))


def _too_long(terms: RorBreakdown, code: str) -> str | None:
    """Return a note if a block is longer than a Reed-Solomon code can be."""
    longest = longest_block_over_rs_limit(terms)
    if longest is None or code == "raptorq":
        return None
    text = (
        f"blocks of up to N = {longest} packets: Reed-Solomon codes have at most {REED_SOLOMON_MOST}; "
        "use RaptorQ (--code raptorq), or fewer source packets (--source-packets)"
    )
    if code == "reed-solomon":
        raise InputError(text)
    return text


def _bound(term: LoadOverhead, coding: Coding) -> int | None:
    """Return the smallest N that any stratified order of labels needs for a link's failure.

    It is None if no block size helps or the labels are random.
    """
    if coding.labels != "stratified" or term.block_size is None:
        return None
    at_rest = block_size_bound(float(coding.tolerance), coding.source_packets)
    return max(at_rest, block_size_bound(float(term.load), coding.source_packets))


def _failure(route: SplitRoute, names: Sequence[str], coding: Coding) -> JsonObject:
    """Return the loss while these links are down, by both models, and the block size for it."""
    try:
        links = [read_link(name, route.network) for name in names]
    except InputError as error:
        raise InputError(f"--down: {error}") from None
    failed = [route.network.link_index[link] for link in links]
    loss = rates.failure_loss(route, failed)
    on_switches = rates.interval_loss(spray(route), failed)
    m, der = coding.source_packets, coding.decoding_error_rate
    return {
        "links": [label_of(link) for link in links],
        "loss": float(loss),
        "loss_by_label_intervals": float(on_switches),
        "block_size": fec_block_size(m, loss, der) if loss < 1 else None,
    }


def _overlap(route: SplitRoute, coding: Coding, times: tuple[float, float]) -> JsonObject:
    """Return how often failures of the route overlap, and ROR with two at once (Appendix G)."""
    links = len(route.loaded)
    one = route_ror(route, coding)["ror_of_others"]
    two = pair_ror(route, coding)
    share = rates.single_share_of_two(links, *times)
    unavailable = rates.unavailability(*times)
    return {
        "links": links,
        "overlap_probability": rates.overlap_probability(links, *times),
        "k1": rates.single_share(links, *times),
        "k1_of_two": share,
        "k2_of_two": 1 - share,
        "ror_1": one,
        "ror_2": two.all_pairs,
        "ror_2_as_printed": two.printed,
        "infinite_pairs": two.infinite_pairs,
        "ror": rates.overlapping_ror(one, two.all_pairs, links, unavailable),
        "ror_as_printed": share * one + (1 - share) * two.printed,
    }
