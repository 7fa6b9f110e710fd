"""Builds the plan of a download from its options: the last mile, the routes and the faults."""

import math
from collections.abc import Sequence
from dataclasses import replace

from fec import FecError
from fec.protocol.large_blocks import LargeBlockParameters
from testbed.download.codes import block_code
from testbed.download.options import DownloadOptions
from testbed.download.plan import FILL, FRAME_OVERHEAD_BYTES, DownloadPlan
from testbed.download.prediction import predict
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.reading import read_faults
from testbed.model.label_split import LabelSplit
from testbed.model.naming.names import known_network, read_node
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import disjoint_return_split, spray
from topologies import Link, LinkId, Network, Node, label_of, reverse_of
from topologies.impairments import RateTrace, to_text

# The sender raises its rate by this factor at most.
_MAX_RATE_INCREASE = 10.0
# Default number of source symbols per block: for RaptorQ, and for other codes. A Reed-Solomon block
# has at most 255 symbols, and needs room for parity.
_RAPTORQ_BLOCK = 500
_DEFAULT_BLOCK = 128


def build_download(requested: DownloadOptions) -> DownloadPlan:
    """Build a plan: connect a host to the sink by the last mile, route to it, and plan the faults.

    Without ``faults``, the most loaded link before the last mile goes down for the middle half of
    the download.

    Raises:
        InputError: A value is invalid, or no path remains before the file is complete.
        TopologyError: The network is invalid.
    """
    network = known_network(requested.network)
    source = read_node(requested.source, network)
    sink = read_node(requested.sink, network)
    faults = None
    if requested.faults is not None:
        faults = read_faults(requested.faults, network)
    # Reject an unknown code before anything is planned.
    block_code(requested.code)
    try:
        plan = _plan_without_faults(requested, network, source, sink)
        if faults is None:
            faults = _default_faults(plan, predict(plan).seconds)
        _check_impairments(plan.network, faults)
        plan = replace(plan, faults=faults)
        _check_rate(plan)
        seconds = predict(plan).seconds
        if math.isinf(seconds):
            raise InputError(
                "faults: no path remains before the file is complete; end a fault earlier, or "
                "choose another --routing"
            )
        # The sender rejects blocks that are too long for the code or for the payload id.
        plan.sender()
    except FecError as error:
        raise InputError(str(error)) from None
    return replace(plan, limit_s=2 * seconds + 5)


def _plan_without_faults(
    requested: DownloadOptions,
    network: Network,
    source: str,
    sink: str,
) -> DownloadPlan:
    """Return the plan without faults.

    The sender fills the last mile. If packets are lost, it may raise its rate up to the capacity of
    the slowest link, but at most tenfold.
    """
    rate_bps = requested.last_mile_rate_bps
    extended_network, last = with_last_kilometre(network, sink, rate_bps)
    slowest_bps = min((link.capacity_bps for link in network.links), default=rate_bps)
    packet_bits = 8 * (FRAME_OVERHEAD_BYTES + requested.symbol_bytes)
    arrival_pps = FILL * rate_bps / packet_bits
    max_increase = max(1.0, min(_MAX_RATE_INCREASE, slowest_bps / rate_bps))
    block_symbols = requested.block_symbols
    if not block_symbols:
        block_symbols = _RAPTORQ_BLOCK if requested.code == "raptorq" else _DEFAULT_BLOCK
    forward = spray(route_by_name(network, source, sink, requested.routing))
    backward = disjoint_return_split(network, source, sink)
    return DownloadPlan(
        network=extended_network,
        method=requested.routing,
        code=requested.code,
        forward=_append_last_mile(forward, extended_network, last),
        backward=_prepend_last_mile(backward, extended_network, last),
        last_link=last,
        parameters=LargeBlockParameters(
            symbol_bytes=requested.symbol_bytes,
            block_symbols=block_symbols,
            arrival_pps=arrival_pps,
            max_pps=arrival_pps * max_increase,
        ),
        file_bytes=requested.file_bytes,
        faults=(),
        limit_s=1.0,
        seed=requested.seed,
        constant_rate=requested.constant_rate,
    )


def _check_rate(plan: DownloadPlan) -> None:
    """Raise InputError if a link before the last mile is too slow to keep the last mile full."""
    for index in plan.forward.loaded:
        link = plan.network.links[index]
        required_bps = FILL * plan.last_mile_rate_bps * float(plan.forward.load(index))
        if link.id != plan.last_link and required_bps > link.capacity_bps:
            raise InputError(
                f"a last mile of {plan.last_mile_rate_bps / 1e6:g} Mbit/s puts "
                f"{required_bps / 1e6:.2f} Mbit/s on {link.label}, which carries "
                f"{link.capacity_bps / 1e6:g}; lower its rate (last_mile_rate_bps, "
                "--last-mile-rate), or raise the capacity"
            )


def _check_impairments(network: Network, faults: Sequence[Fault]) -> None:
    """Raise InputError for impairments under which no download is predicted.

    The prediction needs the share of packets lost over time. A rate that changes, and links that
    are always impaired, are not supported.
    """
    for fault in faults:
        if any(isinstance(impairment, RateTrace) for impairment in fault.impaired_by):
            raise InputError(
                f"fault on {label_of(fault.link)}: no download is predicted over a rate trace; "
                "testbed stream runs it"
            )
    for link in network.links:
        if link.impairments:
            raise InputError(
                f"{link.label} is always impaired ({to_text(link.impaired_by)}): a download is "
                "predicted under timed faults only; give it as one, or take testbed stream"
            )


def _default_faults(plan: DownloadPlan, duration_s: float) -> tuple[Fault, ...]:
    """Return a fault of the most loaded link before the last mile, in the middle half."""
    split = plan.forward
    candidates = [i for i in split.loaded if plan.network.links[i].id != plan.last_link]
    if not candidates:
        return ()
    # Of equally loaded links the first in the network is taken.
    most_loaded = min(candidates, key=lambda i: (-split.load(i), i))
    link = plan.network.links[most_loaded].id
    return (Fault(link=link, start_s=duration_s / 4, stop_s=duration_s * 3 / 4),)


# The two functions below keep the link numbers of a split: the links of the last mile were appended
# to the links of the network.


def _append_last_mile(split: LabelSplit, network: Network, last: LinkId) -> LabelSplit:
    """Return the split with the last mile at the end of every path."""
    index = network.link_index[last]
    paths = tuple(replace(path, links=(*path.links, index)) for path in split.paths)
    return LabelSplit(network=network, source=split.source, sink=last[1], paths=paths)


def _prepend_last_mile(split: LabelSplit, network: Network, last: LinkId) -> LabelSplit:
    """Return the split of the other direction, with the last mile at the start of every path."""
    index = network.link_index[reverse_of(last)]
    paths = tuple(replace(path, links=(index, *path.links)) for path in split.paths)
    return LabelSplit(network=network, source=last[1], sink=split.sink, paths=paths)


def with_last_kilometre(network: Network, sink: str, rate_bps: float) -> tuple[Network, LinkId]:
    """Return the network with a host behind ``sink``, and the link that leads to it.

    Args:
        network: The network.
        sink: The switch before the last mile.
        rate_bps: The rate of the last mile, in both directions.

    Raises:
        InputError: ``sink`` is a host itself.
    """
    if network.node(sink).kind == "host":
        raise InputError(f"sink {sink!r} is a host; expected the switch before the last mile")
    names = ["user", *(f"user{i}" for i in range(len(network.nodes)))]
    name = next(name for name in names if name not in network.node_index)
    host = Node(id=name, kind="host")
    there = Link(source=sink, target=name, capacity_bps=rate_bps)
    back = Link(source=name, target=sink, capacity_bps=rate_bps)
    extended_network = replace(
        network, nodes=(*network.nodes, host), links=(*network.links, there, back)
    )
    return extended_network, (sink, name, 0)
