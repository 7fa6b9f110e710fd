"""From options to a download's plan: the last mile, routes there and back, the faults."""

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


def build_download(requested: DownloadOptions) -> DownloadPlan:
    """Hang a host behind the last mile on the sink, route to it, plan the faults.

    ``faults`` None: the most loaded link that is not the last mile goes down for the middle half of the download.
    Raises InputError or TopologyError for values that cannot be used.
    """
    network = known_network(requested.network)
    source, sink = read_node(requested.source, network), read_node(requested.sink, network)
    faults = None if requested.faults is None else read_faults(requested.faults, network)
    block_code(requested.code)
    try:
        plan = _plan(requested, network, source, sink)
        chosen = faults if faults is not None else _default_faults(plan, predict(plan).seconds)
        _check_impairments(plan.network, chosen)
        plan = replace(plan, faults=chosen)
        _check_rate(plan)
        seconds = predict(plan).seconds
        if math.isinf(seconds):
            raise InputError(
                "faults: no path remains before the file is complete; end a fault earlier, or choose another --routing"
            )
        plan.sender()  # refuses blocks that the code, or the payload id, cannot have
    except FecError as error:
        raise InputError(str(error)) from None
    return replace(plan, limit_s=2 * seconds + 5)


def _plan(requested: DownloadOptions, network: Network, source: str, sink: str) -> DownloadPlan:
    """The plan without faults, paced to fill the last mile, and where packets are lost up to what the slowest link
    carries."""
    whole, last = with_last_kilometre(network, sink, requested.last_mile_rate_bps)
    slowest_bps = min(
        (link.capacity_bps for link in network.links), default=requested.last_mile_rate_bps
    )
    arrival_pps = (
        FILL * requested.last_mile_rate_bps / (8 * (FRAME_OVERHEAD_BYTES + requested.symbol_bytes))
    )
    return DownloadPlan(
        network=whole,
        method=requested.routing,
        code=requested.code,
        forward=_extended(
            spray(route_by_name(network, source, sink, requested.routing)), whole, last
        ),
        backward=_begun(disjoint_return_split(network, source, sink), whole, last),
        last_link=last,
        parameters=LargeBlockParameters(
            symbol_bytes=requested.symbol_bytes,
            block_symbols=requested.block_symbols or (500 if requested.code == "raptorq" else 128),
            arrival_pps=arrival_pps,
            most_pps=arrival_pps * max(1.0, min(10.0, slowest_bps / requested.last_mile_rate_bps)),
        ),
        file_bytes=requested.file_bytes,
        faults=(),
        limit_s=1.0,
        seed=requested.seed,
        constant_rate=requested.constant_rate,
    )


def _check_rate(plan: DownloadPlan) -> None:
    """InputError where the rate that keeps the last mile full is more than a link before it carries: it would never be
    full."""
    for index in plan.forward.loaded:
        link = plan.network.links[index]
        need = FILL * plan.last_mile_rate_bps * float(plan.forward.load(index))
        if link.id != plan.last_link and need > link.capacity_bps:
            raise InputError(
                f"a last mile of {plan.last_mile_rate_bps / 1e6:g} Mbit/s puts {need / 1e6:.2f} Mbit/s on {link.label}, "
                f"which carries {link.capacity_bps / 1e6:g}; lower its rate (last_mile_rate_bps, --last-mile-rate), "
                "or raise the capacity"
            )


def _check_impairments(network: Network, faults: Sequence[Fault]) -> None:
    """A download's time is predicted from the share that is lost: InputError for a rate that changes, and for links
    that are always impaired."""
    for fault in faults:
        if any(isinstance(one, RateTrace) for one in fault.impaired_by):
            raise InputError(
                f"fault on {label_of(fault.link)}: no download is predicted over a rate trace; testbed stream runs it"
            )
    always = next((link for link in network.links if link.impairments), None)
    if always is not None:
        raise InputError(
            f"{always.label} is always impaired ({to_text(always.impaired_by)}): a download is predicted under timed "
            "faults only; give it as one, or take testbed stream"
        )


def _default_faults(plan: DownloadPlan, seconds: float) -> tuple[Fault, ...]:
    split = plan.forward
    others = [i for i in split.loaded if plan.network.links[i].id != plan.last_link]
    if not others:
        return ()
    worst = max(others, key=lambda i: (split.load(i), -i))
    return (Fault(link=plan.network.links[worst].id, start_s=seconds / 4, stop_s=seconds * 3 / 4),)


def _extended(split: LabelSplit, whole: Network, last: LinkId) -> LabelSplit:
    """The split with the last mile behind every path (its links keep their numbers: the new ones come last)."""
    index = whole.link_index[last]
    paths = tuple(replace(path, links=(*path.links, index)) for path in split.paths)
    return LabelSplit(network=whole, source=split.source, sink=last[1], paths=paths)


def _begun(split: LabelSplit, whole: Network, last: LinkId) -> LabelSplit:
    index = whole.link_index[reverse_of(last)]
    paths = tuple(replace(path, links=(index, *path.links)) for path in split.paths)
    return LabelSplit(network=whole, source=last[1], sink=split.sink, paths=paths)


def with_last_kilometre(network: Network, sink: str, rate_bps: float) -> tuple[Network, LinkId]:
    """The network with a host behind ``sink``, on a cable of ``rate_bps``; and the link that leads to it.

    Raises InputError where ``sink`` is a host itself.
    """
    if network.node(sink).kind == "host":
        raise InputError(f"sink {sink!r} is a host; expected the switch before the last mile")
    name = next(
        n
        for n in ("user", *(f"user{i}" for i in range(len(network.nodes))))
        if n not in network.node_index
    )
    links = tuple(
        Link(source=a, target=b, capacity_bps=rate_bps) for a, b in ((sink, name), (name, sink))
    )
    whole = replace(
        network, nodes=(*network.nodes, Node(id=name, kind="host")), links=(*network.links, *links)
    )
    return whole, (sink, name, 0)
