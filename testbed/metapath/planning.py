"""Builds the plan of an uncoded stream from its options: its faults and its duration."""

from collections.abc import Sequence

from testbed.errors import InputError
from testbed.faults.fault import Fault, FaultKind
from testbed.faults.reading import read_faults
from testbed.metapath.escape_check import check_escapes
from testbed.metapath.options import EACH_LINK, MetapathOptions, MetapathPlanOptions
from testbed.metapath.plan import MetapathPlan
from testbed.model.naming.names import known_network
from topologies import Network
from topologies.routing_tables import static_routing

# Times of ``each_cable_faults``: before the first fault, duration of each fault, and interval.
WARM_UP_S = 1.0
LASTS_S = 1.0
EVERY_S = 2.5


def build_metapath(requested: MetapathPlanOptions) -> MetapathPlan:
    """Build the plan of a stream from its options.

    Raises:
        InputError: An option is invalid, or FT-DRB's escapes do not lead around overlapping faults.
        TopologyError: The network is invalid.
    """
    network = known_network(requested.network)
    for node in (requested.source, requested.sink):
        network.node(node)
    faults = _faults(requested, network)
    duration_s = requested.duration_s
    if not duration_s:
        duration_s = default_duration_s(faults, requested.rate_pps, requested.options)
    plan = MetapathPlan(
        network=network,
        faults=faults,
        duration_s=duration_s,
        source=requested.source,
        sink=requested.sink,
        routing=requested.routing,
        rate_pps=requested.rate_pps,
        packet_bytes=requested.packet_bytes,
        options=requested.options,
        background_bps=requested.background_bps,
        seed=requested.seed,
    )
    check_escapes(plan)
    return plan


def _faults(requested: MetapathPlanOptions, network: Network) -> tuple[Fault, ...]:
    faults = requested.faults
    if isinstance(faults, str) and faults.startswith("poisson:"):
        raise InputError(
            f"--faults {faults}: with --routing {requested.routing} give each-link, none or a file"
        )
    if faults != EACH_LINK:
        return read_faults(faults, network, hint="give each-link, none or a JSON file")
    return each_cable_faults(
        network,
        requested.source,
        requested.sink,
        kind=requested.fault_kind,
        max_faults=requested.max_faults,
    )


def default_duration_s(faults: Sequence[Fault], rate_pps: float, options: MetapathOptions) -> float:
    """Return a duration in which the source can react to every fault and to its repair.

    The stream goes on after the end of the last fault until the source can have found out. A
    permanent fault counts as one of a second.

    Args:
        faults: The faults; without any, the stream lasts about two seconds.
        rate_pps: Packets per second.
        options: The options of the source.
    """
    last_stop_s = 0.0 if faults else 1.0
    for fault in faults:
        stop_s = fault.stop_s
        if fault.permanent:
            stop_s = fault.start_s + LASTS_S
        last_stop_s = max(last_stop_s, stop_s)
    return last_stop_s + max(0.8, 1.5 * options.probe_every / rate_pps)


def each_cable_faults(
    network: Network,
    source: str,
    sink: str,
    *,
    kind: FaultKind = "down",
    max_faults: int | None = None,
) -> tuple[Fault, ...]:
    """Return one fault for each cable between switches of the minimal path, one after another.

    Each fault lasts a second, and a second and a half pass between two faults.

    Args:
        network: The network.
        source: The node that sends.
        sink: The node that receives.
        kind: The kind of the faults.
        max_faults: Maximum number of faults; None for all.
    """
    inner = []
    for link in static_routing(network)(source, sink):
        if network.node(link[0]).kind == "switch" and network.node(link[1]).kind == "switch":
            inner.append(link)
    faults = []
    for number, link in enumerate(inner[:max_faults]):
        start_s = WARM_UP_S + number * EVERY_S
        faults.append(Fault(link=link, kind=kind, start_s=start_s, stop_s=start_s + LASTS_S))
    return tuple(faults)
