"""The JSON object of ``testbed ror`` and ``testbed.ror`` for one route."""

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

# Erasure codes that the caller can name; "any" does not limit the block size.
CODES = ("any", "reed-solomon", "raptorq")


def full_method_name(method: str, coding: Coding, layers: int | None = None) -> str:
    """Return the name of a routing method together with its parameter.

    Args:
        method: Name of the method. ``least-fec`` gets the tolerance of the coding.
        coding: How the stream is coded.
        layers: Number of layers of capillary routing, or None.

    Raises:
        InputError: Layers are given for another method than "capillary".
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
    """Return both durations, or None if neither is given.

    Args:
        failure_s: Duration of a failure in seconds.
        between_s: Mean time between two failures of one link in seconds.

    Raises:
        InputError: Only one of the two is given.
    """
    if failure_s is None and between_s is None:
        return None
    if failure_s is None or between_s is None:
        raise InputError(
            "give --failure-duration and --failure-interval together: how long a failure lasts, "
            "how far apart they are"
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
        code: One of ``CODES``.
        failed: Links that are down at the same time, as ``a->b``; the object gets the loss.
        durations: Duration of a failure and mean time between two failures of one link, in
            seconds; the object gets the ROR with overlapping failures.

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
            _link_row(route, i, term, coding)
            for i, term in zip(route.loaded, terms.per_load, strict=True)
        ],
        "note": _note_on_long_blocks(terms, code),
    }
    if failed:
        document["failure"] = _failure(route, failed, coding)
    if durations is not None:
        failure_s, between_s = durations
        document["overlap"] = _overlap(route, coding, failure_s, between_s)
    return document


def _link_row(route: SplitRoute, link: int, term: LoadOverhead, coding: Coding) -> JsonObject:
    """Return the row of one link of the route."""
    load = route.loads[link]
    return {
        **link_fields(route.network.links[link].id),
        "load": _load_text(load),
        "load_float": float(load),
        "block_size": term.block_size,
        "block_size_lower_bound": _block_size_lower_bound(term, coding),
        "overhead": None if term.overhead is None else float(term.overhead),
    }


def _load_text(load: Fraction) -> str:
    """Return the load as an exact fraction, or as a float if it comes from a solver."""
    return str(load) if load.denominator < 10**12 else repr(float(load))


def _note_on_long_blocks(terms: RorBreakdown, code: str) -> str | None:
    """Return a note if a block is too long for Reed-Solomon codes, else None.

    Raises:
        InputError: Such a block exists and the code is "reed-solomon".
    """
    longest = longest_block_over_rs_limit(terms)
    if longest is None or code == "raptorq":
        return None
    text = (
        f"blocks of up to N = {longest} packets: Reed-Solomon codes have at most "
        f"{REED_SOLOMON_MOST}; use RaptorQ (--code raptorq), or fewer source packets "
        "(--source-packets)"
    )
    if code == "reed-solomon":
        raise InputError(text)
    return text


def _block_size_lower_bound(term: LoadOverhead, coding: Coding) -> int | None:
    """Return the smallest N with which any stratified order of labels survives a link's failure.

    Returns:
        The number of packets per block; None if no block size helps or the labels are random.
    """
    if coding.labels != "stratified" or term.block_size is None:
        return None
    at_rest = block_size_bound(float(coding.tolerance), coding.source_packets)
    return max(at_rest, block_size_bound(float(term.load), coding.source_packets))


def _failure(route: SplitRoute, names: Sequence[str], coding: Coding) -> JsonObject:
    """Return the loss while links are down, in both models, and the block size that it needs.

    Args:
        route: The route.
        names: The links, as ``a->b``.
        coding: How the stream is coded.
    """
    try:
        links = [read_link(name, route.network) for name in names]
    except InputError as error:
        raise InputError(f"--down: {error}") from None
    failed = [route.network.link_index[link] for link in links]
    loss = rates.failure_loss(route, failed)
    on_switches = rates.interval_loss(spray(route), failed)
    block_size = None
    if loss < 1:
        block_size = fec_block_size(coding.source_packets, loss, coding.decoding_error_rate)
    return {
        "links": [label_of(link) for link in links],
        "loss": float(loss),
        "loss_by_label_intervals": float(on_switches),
        "block_size": block_size,
    }


def _overlap(route: SplitRoute, coding: Coding, failure_s: float, between_s: float) -> JsonObject:
    """Return how often failures overlap, and the ROR with two at once (appendix G).

    Args:
        route: The route.
        coding: How the stream is coded.
        failure_s: Duration of a failure in seconds.
        between_s: Mean time between two failures of one link in seconds.
    """
    links = len(route.loaded)
    single_ror = route_ror(route, coding)["ror_of_others"]
    double = pair_ror(route, coding)
    k1_of_two = rates.single_share_of_two(links, failure_s, between_s)
    unavailable = rates.unavailability(failure_s, between_s)
    return {
        "links": links,
        "overlap_probability": rates.overlap_probability(links, failure_s, between_s),
        "k1": rates.single_share(links, failure_s, between_s),
        "k1_of_two": k1_of_two,
        "k2_of_two": 1 - k1_of_two,
        "ror_1": single_ror,
        "ror_2": double.all_pairs,
        "ror_2_as_printed": double.printed,
        "infinite_pairs": double.infinite_pairs,
        "ror": rates.overlapping_ror(single_ror, double.all_pairs, links, unavailable),
        "ror_as_printed": k1_of_two * single_ror + (1 - k1_of_two) * double.printed,
    }
