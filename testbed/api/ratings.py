"""``testbed.ror`` and ``testbed.demands``: the redundancy that routings need, without a run."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Literal

from testbed.errors import InputError, UsageError, require_type
from testbed.model.naming.names import NetworkLike, NodeName, known_link, known_network, known_node
from testbed.model.options.option import build
from testbed.model.routes import SplitRoute
from topologies import Json, JsonObject, LinkId, Network, label_of
from topologies.text.shown import Shown

if TYPE_CHECKING:
    from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands
    from testbed.routing.redundancy.coding import RatedCoding

Labels = Literal["random", "stratified"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RorResult(Shown):
    """The redundancy overall requirement (ROR) of a route.

    Attributes:
        route: The route that is rated.
        document: The object that ``testbed ror --json`` prints.
    """

    route: SplitRoute
    document: Json

    @property
    def ror(self) -> float:
        """The ROR for the order of labels in use; infinite if a link carries the complete flow."""
        return math.inf if self.document["ror"] is None else float(self.document["ror"])

    @property
    def infinite_links(self) -> tuple[str, ...]:
        """The links that carry the complete flow. No code can make up for their failure."""
        return tuple(self.document["infinite_links"])

    @property
    def rows(self) -> tuple[Json, ...]:
        """Load, block size and overhead of each loaded link."""
        return tuple(self.document["per_link"])

    def __float__(self) -> float:
        return self.ror

    def __repr__(self) -> str:
        route = self.route
        ends = f"{route.source!r} to {route.sink!r} of {route.network.name}, {route.method}"
        return f"RorResult({ends}: ROR {self.ror:.4g}, {self.document['labels']} labels)"


@dataclass(frozen=True, kw_only=True, repr=False)
class DemandsResult(Shown):
    """The routes and figures of each routing for a demand matrix.

    Attributes:
        document: The object that ``testbed demands --json`` prints.
        routed: For each method, how it routes the matrix.
    """

    document: Json
    routed: Mapping[str, RoutedDemands]

    @property
    def network(self) -> Network:
        """The network whose pairs are routed."""
        return next(iter(self.routed.values())).matrix.network

    @property
    def rows(self) -> tuple[Json, ...]:
        """Utilisation, throughput and redundancy of each method."""
        return tuple(self.document["methods"])

    def __repr__(self) -> str:
        methods = ", ".join(self.routed)
        pairs = self.document["pairs"]
        return f"DemandsResult({self.document['network']}, {pairs} pairs: {methods[:80]})"


def ror(  # noqa: PLR0913 - a keyword for each option of the command
    network: NetworkLike | SplitRoute,
    source: NodeName | None = None,
    sink: NodeName | None = None,
    routing: str = "capillary",
    *,
    layers: int | None = None,
    tolerance: float = 0.05,
    source_packets: int = 20,
    decoding_error_rate: float = 1e-5,
    labels: Labels | None = None,
    large_blocks: bool = False,
    code: str = "any",
    down: Sequence[str | LinkId | tuple[NodeName, NodeName]] = (),
    failure_duration_s: float | None = None,
    failure_interval_s: float | None = None,
) -> RorResult:
    """Compute the redundancy overall requirement (ROR) of a routing, link by link.

    The ROR is the sum, over the links of a route, of the extra packets that the sender needs while
    that link is down.

    Args:
        network: A network, or anything that ``testbed.network`` takes; or the route itself.
        source: The node where the flow starts; None for a route.
        sink: The node where it ends; None for a route.
        routing: The routing method, as for ``testbed ror --routing``.
        layers: Number of layers of capillary routing that are computed; None for all.
        tolerance: The share of losses that the code tolerates at any time.
        source_packets: Source packets of a block, M.
        decoding_error_rate: How often a block with random labels may fail.
        labels: The order of labels, "stratified" (default) or "random" (default of large blocks).
        large_blocks: Whether blocks are so large that equation 29 holds.
        code: "any", "reed-solomon" or "raptorq"; a block that is too long for it is refused.
        down: Links that are down at the same time. ``document["failure"]`` describes the loss.
        failure_duration_s: Duration of a failure in seconds. With ``failure_interval_s``,
            ``document["overlap"]`` contains the ROR with overlapping failures.
        failure_interval_s: Mean time between two failures of one link, in seconds.

    Raises:
        InputError: A name is unknown, or a value is outside its range.

    >>> round(ror("swiss-t1", "s1", "s6").ror, 3), ror("ring:4", "s0", "s1", "single").ror
    (1.591, inf)
    """
    from testbed.routing.methods import route_by_name
    from testbed.routing.redundancy.ror_document import (
        CODES,
        failure_durations,
        full_method_name,
        ror_document,
    )

    if code not in CODES:
        raise InputError(f"code {code!r}; give {', '.join(CODES)}")
    require_type(routing, str, "routing", 'the name of a routing method, such as "capillary"')
    coding = _coding(tolerance, source_packets, decoding_error_rate, labels, large_blocks)
    durations = failure_durations(failure_duration_s, failure_interval_s)
    if isinstance(network, SplitRoute):
        route = network
        routing = network.method
    elif source is None or sink is None:
        raise UsageError("ror: give source and sink")
    else:
        resolved = known_network(network)
        ends = known_node(source, resolved), known_node(sink, resolved)
        name = full_method_name(routing, coding, layers)
        route = route_by_name(resolved, *ends, name)
    failed = [label_of(known_link(link, route.network)) for link in _links(down)]
    document = ror_document(route, routing, coding, code=code, failed=failed, durations=durations)
    return RorResult(route=route, document=document)


def demands(  # noqa: PLR0913 - a keyword for each option of the command
    network: NetworkLike,
    matrix: str | PathLike[str] | Mapping[tuple[NodeName, NodeName], float] = "gravity",
    routing: str | Sequence[str] | None = None,
    *,
    end_points: Literal["switches", "hosts"] = "switches",
    total_rate_bps: float | None = None,
    tolerance: float = 0.05,
    source_packets: int = 20,
    decoding_error_rate: float = 1e-5,
    labels: Labels | None = None,
    large_blocks: bool = False,
    seed: int = 1,
    links: bool = False,
) -> DemandsResult:
    """Route all pairs of a network at once, and compare each routing with the optimum.

    Args:
        network: A network, or anything that ``testbed.network`` takes.
        matrix: "gravity", "uniform", "own" (the demands that come with a network of topohub), a
            file, or a dictionary from pairs of nodes to bits per second.
        routing: A routing method or several, as for ``testbed demands --routing``; None for the
            usual ones.
        end_points: The nodes of a gravity or uniform matrix, "switches" or "hosts".
        total_rate_bps: The sum in bits per second to which the matrix is scaled.
        tolerance: The share of losses that the code tolerates at any time.
        source_packets: Source packets of a block, M.
        decoding_error_rate: How often a block with random labels may fail.
        labels: The order of labels, "stratified" (default) or "random" (default of large blocks).
        large_blocks: Whether blocks are so large that equation 29 holds.
        seed: Seed of the routing trees.
        links: Whether ``rows`` list the load of every link as well.

    Raises:
        InputError: A name is unknown, or a value is outside its range.

    >>> result = demands("ring:4", "uniform", "ecmp", labels="random")
    >>> [(row["method"], row["utilisation"]) for row in result.rows]
    [('ecmp', 0.2)]
    """
    from testbed.routing.demands.demands_document import demands_document
    from testbed.routing.demands.methods import USUAL_METHODS, demand_routing

    if end_points not in ("switches", "hosts"):
        raise InputError(f"end_points {end_points!r}; give switches or hosts")
    methods = [routing] if isinstance(routing, str) else list(routing or USUAL_METHODS)
    for method in methods:
        require_type(method, str, "routing", "the name of a routing method, or several")
        demand_routing(method)
    coding = _coding(tolerance, source_packets, decoding_error_rate, labels, large_blocks)
    rates = _matrix(network, matrix, end_points, total_rate_bps)
    document, routed = demands_document(
        rates, methods, coding, seed=seed, links=links, now=time.perf_counter
    )
    return DemandsResult(document=document, routed=routed)


def _coding(
    tolerance: float,
    source_packets: int,
    decoding_error_rate: float,
    labels: Labels | None,
    large_blocks: bool,
) -> RatedCoding:
    from testbed.routing.redundancy.coding import RatedCoding

    values: JsonObject = {
        "tolerance": tolerance,
        "source_packets": source_packets,
        "decoding_error_rate": decoding_error_rate,
        "large_blocks": large_blocks,
    }
    if labels is not None:
        values["labels"] = labels
    return build(RatedCoding, values)


def _links(down: object) -> Sequence[str | LinkId]:
    if isinstance(down, str):
        return [down]
    require_type(down, Sequence, "down", 'a list of links such as ["s1->s2"]')
    return list(down)  # type: ignore[call-overload, no-any-return]


def _matrix(
    network: NetworkLike, matrix: object, end_points: str, total_rate_bps: float | None
) -> DemandMatrix:
    from testbed.routing.demands.demands_document import read_matrix
    from testbed.routing.demands.matrix import given_matrix

    resolved = known_network(network)
    if isinstance(matrix, Mapping):
        rates = {}
        for pair, rate in matrix.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise UsageError(f"matrix: {pair!r} is no pair; give (source, sink)")
            ends = known_node(pair[0], resolved), known_node(pair[1], resolved)
            rates[ends] = require_type(rate, (int, float), "matrix", "bits per second")
        given = given_matrix(resolved, "given", rates)
        return given if total_rate_bps is None else given.scaled_to(total_rate_bps)
    require_type(
        matrix, (str, PathLike), "matrix", "gravity, uniform, own, a file, or a dictionary of pairs"
    )
    name = network if isinstance(network, str) else resolved.name
    return read_matrix(resolved, name, fspath(matrix), end_points, total_rate_bps)  # type: ignore[call-overload]
