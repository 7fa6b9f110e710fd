"""From a network and options to the plan of a plain stream: which cables fail, and for how long it goes on."""

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

WARM_UP_S, LASTS_S, EVERY_S = 1.0, 1.0, 2.5
"""Of ``each_cable_faults``: before the first fault, how long each lasts, from one to the next."""


def build_metapath(requested: MetapathPlanOptions) -> MetapathPlan:
    """The plan. Raises InputError or TopologyError where an option cannot be used, or where faults overlap that
    FT-DRB's escapes do not lead round."""
    network = known_network(requested.network)
    for node in (requested.source, requested.sink):
        network.node(node)
    faults = _faults(requested, network)
    lasts_s = requested.duration_s or default_duration_s(
        faults, requested.rate_pps, requested.options
    )
    names = (
        "source",
        "sink",
        "routing",
        "rate_pps",
        "packet_bytes",
        "options",
        "background_bps",
        "seed",
    )
    own = {name: getattr(requested, name) for name in names}
    plan = MetapathPlan(network=network, faults=faults, duration_s=lasts_s, **own)
    check_escapes(plan)
    return plan


def _faults(requested: MetapathPlanOptions, network: Network) -> tuple[Fault, ...]:
    given = requested.faults
    if isinstance(given, str) and given.startswith("poisson:"):
        raise InputError(
            f"--faults {given}: with --routing {requested.routing} give each-link, none or a file"
        )
    if given != EACH_LINK:
        return read_faults(given, network, hint="give each-link, none or a JSON file")
    ends = (requested.source, requested.sink)
    return each_cable_faults(network, *ends, kind=requested.fault_kind, most=requested.max_faults)


def default_duration_s(faults: Sequence[Fault], rate_pps: float, options: MetapathOptions) -> float:
    """Until the last failure is over (1 s without any), or has lasted a while where it is for good, and then until the
    source can have found that out."""
    ends = [f.start_s + LASTS_S if f.permanent else f.stop_s for f in faults]
    return max(ends, default=1.0) + max(0.8, 1.5 * options.probe_every / rate_pps)


def each_cable_faults(
    network: Network, source: str, sink: str, *, kind: FaultKind = "down", most: int | None = None
) -> tuple[Fault, ...]:
    """Each cable between switches of the minimal path fails by itself for a second, with a second and a half between.

    ``most``: only the first so many.
    """
    path = static_routing(network)(source, sink)
    inner = [x for x in path if network.node(x[0]).kind == network.node(x[1]).kind == "switch"]
    starts = (WARM_UP_S + k * EVERY_S for k in range(len(inner)))
    return tuple(
        Fault(link=link, kind=kind, start_s=start_s, stop_s=start_s + LASTS_S)
        for link, start_s in zip(inner[:most], starts, strict=False)
    )
