"""What the live page of streams draws: the loads of their links, and the faults that are to come."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace

from testbed.live.events import RunView
from testbed.live.run_views import network_view, planned_fault_record, predicted_loss
from testbed.model.run_records import session_record
from testbed.stream.plan import StreamPlan
from topologies.network import LinkId
from topologies.text.json_types import JsonObject


def streams_view(plans: Sequence[StreamPlan], title: str) -> RunView:
    """Several streams at once: loads are shares of the links' capacities, and M is the first one's. A stream by itself:
    its route, loads are shares of the stream, and each fault has the share that it takes by itself."""
    first = plans[0]
    loads: Counter[LinkId] = Counter()
    for plan in plans:
        loads.update({plan.network.links[i].id: plan.forward.load(i) for i in plan.forward.loaded})
    lasts: JsonObject = {"duration_s": first.duration_s, "source_packets": first.stream.source_packets}
    view = network_view(title, first.network, loads, first.faults, **lasts)
    if len(plans) > 1:
        return view
    intervals = {i: first.forward.intervals(i) for i in first.forward.loaded}
    return replace(
        view,
        links=session_record(first.exact_route, session=0, fabric="", intervals=intervals).links,
        faults=tuple(planned_fault_record(f, predicted_loss(f, loads), first.duration_s) for f in first.faults),
        source=first.source,
        sink=first.sink,
        method=first.method,
        share="stream",
        parameters={
            name: value for name, value in asdict(first.stream).items() if isinstance(value, (int, float, str))
        },
    )
