"""The pairs that send at once in ``demand_loads``, and their plans under a routing: pair by pair, or one that knows all
demands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from testbed.faults.fault import Fault
from testbed.routing.demands.matrix import given_matrix
from testbed.routing.demands.methods import route_demands
from testbed.routing.demands.pair_routes import pair_route
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import build_stream, build_together, check_concurrent, ordered_for_route
from topologies.network import LinkId

PAIRS: Mapping[str, Sequence[tuple[str, str, float]]] = {
    "optical-cloud": (
        ("x1", "x14", 300),
        ("x2", "x12", 200),
        ("x3", "x10", 250),
        ("x5", "x9", 150),
        ("x7", "x13", 200),
    ),
    "swiss-t1": (("s1", "s6", 300), ("s2", "s5", 200), ("s4", "s7", 250), ("s3", "s8", 150)),
}
"""Source, sink and source packets a second: as many pairs as there are nodes for, each node an end of one stream at
most."""
JOINT = ("smore:4", "optimum", "least-ror:1.2")
"""Routings that know all demands of a network."""
SYMBOL_BYTES = 1000
FAULT_S = (7.0, 12.0)
DURATION_S = {True: 15.5, False: 8.0}
"""With a cable cut, and without."""


def planned(network: str, method: str, seed: int, *, cutting: bool) -> tuple[list[StreamPlan], LinkId | None]:
    """(plan of each pair, link that fails or None): where one is cut, it is the one that the pairs load most."""
    requests = [
        StreamOptions(
            network,
            source,
            sink,
            method="single" if method in JOINT else method,
            rate_pps=rate,
            symbol_bytes=SYMBOL_BYTES,
            playback_s=1.0,
            hold_s=0.5,
            faults=(),
            duration_s=DURATION_S[cutting],
            seed=seed,
        )
        for source, sink, rate in PAIRS[network]
    ]
    cut = None
    if cutting:
        cut = _shared_link(_routed([build_stream(request) for request in requests], method))
        fault = Fault(link=cut, kind="down", start_s=FAULT_S[0], stop_s=FAULT_S[1])
        requests = [replace(request, faults=(fault,)) for request in requests]
    together = _routed(build_together(requests), method)
    check_concurrent(together)
    return together, cut


def _routed(plans: Sequence[StreamPlan], method: str) -> list[StreamPlan]:
    """The plans under a routing that knows all demands; as they are under any other."""
    if method not in JOINT:
        return list(plans)
    rates = {(plan.source, plan.sink): plan.stream.rate_pps for plan in plans}
    routed = route_demands(given_matrix(plans[0].network, "pairs at once", rates), method)
    found = []
    for pair, plan in enumerate(plans):
        split, route = pair_route(routed, pair)
        stream = ordered_for_route(split, plan.stream)
        found.append(replace(plan, method=method, forward=split, stream=stream, route=route))
    return found


def _shared_link(plans: Sequence[StreamPlan]) -> LinkId:
    """The link of the greatest sum of shares that no pair has all of its flow on."""
    network = plans[0].network
    shares = [[float(plan.forward.load(i)) for plan in plans] for i in range(len(network.links))]
    best = max((i for i, own in enumerate(shares) if max(own) < 0.6), key=lambda i: (sum(shares[i]), -i))
    return network.links[best].id
