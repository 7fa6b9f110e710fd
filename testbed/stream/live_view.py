"""What the live page of a stream draws: the route of its (first) plan, and the faults that are to come."""

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction

from testbed.live.events import RunView
from testbed.live.run_views import network_view, planned_fault_record, predicted_loss
from testbed.model.run_records import network_document, session_record
from testbed.stream.plan import StreamPlan
from topologies.network import LinkId


def stream_view(plan: StreamPlan, title: str) -> RunView:
    """Loads are shares of the stream; each fault with the share that it takes by itself."""
    network = plan.network
    loads = {network.links[i].id: plan.forward.load(i) for i in plan.forward.loaded}
    intervals = {i: plan.forward.intervals(i) for i in plan.forward.loaded}
    session = session_record(plan.exact_route, session=0, fabric="", intervals=intervals)
    return RunView(
        title=title,
        network=network_document(network),
        links=session.links,
        faults=tuple(planned_fault_record(f, predicted_loss(f, loads), plan.duration_s) for f in plan.faults),
        source=plan.source,
        sink=plan.sink,
        method=plan.method,
        share="stream",
        duration_s=plan.duration_s,
        source_packets=plan.stream.source_packets,
        parameters={name: value for name, value in asdict(plan.stream).items() if isinstance(value, (int, float, str))},
    )


def streams_view(plans: Sequence[StreamPlan], title: str) -> RunView:
    """Several streams at once: loads are shares of the links' capacities, and M is the first one's."""
    first = plans[0]
    loads: dict[LinkId, Fraction] = {}
    for plan in plans:
        for i in plan.forward.loaded:
            link = plan.network.links[i].id
            loads[link] = loads.get(link, Fraction(0)) + plan.forward.load(i)
    return network_view(
        title,
        first.network,
        loads,
        first.faults,
        duration_s=first.duration_s,
        source_packets=first.stream.source_packets,
    )
