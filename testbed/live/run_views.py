"""From what every workload has (a network, loads of its links, faults) to the scene of its live page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from testbed.faults.fault import Fault
from testbed.live.events import RunView
from testbed.model.label_split import LabelSplit
from testbed.model.run_records import FaultRecord, LinkLoad, network_document
from topologies import LinkId, Network, label_of, reverse_of


def network_view(
    title: str,
    network: Network,
    loads: Mapping[LinkId, Fraction | int],
    faults: Sequence[Fault] = (),
    duration_s: float = 0.0,
) -> RunView:
    """The network with the given links loaded, relative to the busiest one."""
    most = max(loads.values(), default=1) or 1  # nothing is loaded: all are 0 of 1
    links = tuple(
        LinkLoad(source=a, target=b, key=key, load=Fraction(load) / Fraction(most))
        for (a, b, key), load in loads.items()
    )
    records = tuple(planned_fault_record(fault, 0.0, duration_s) for fault in faults)
    document = network_document(network)
    return RunView(
        title=title, network=document, links=links, faults=records, duration_s=duration_s
    )


def split_view(title: str, split: LabelSplit, faults: Sequence[Fault]) -> RunView:
    """A pair's packets over their label split: loads are shares of them."""
    loads = {split.network.links[i].id: split.load(i) for i in split.loaded}
    return replace(
        network_view(title, split.network, loads, faults), source=split.source, sink=split.sink
    )


def idle_network_view(title: str, network: Network, control: str = "") -> RunView:
    """The network with all its links and no loads: what is about to run is not known."""
    return replace(
        network_view(title, network, {link.id: 0 for link in network.links}), control=control
    )


def planned_fault_record(fault: Fault, loss: float, end_s: float) -> FaultRecord:
    """A fault before it comes; ``loss``: what it will take of the stream; one without an end lasts until ``end_s``."""
    stop_s = fault.stop_s if not fault.permanent else max(end_s, fault.start_s)
    return FaultRecord(
        session=0,
        link=label_of(fault.link),
        kind=fault.kind,
        start_s=fault.start_s,
        stop_s=stop_s,
        predicted_loss=loss,
    )


def predicted_loss(fault: Fault, loads: Mapping[LinkId, Fraction | int]) -> float:
    """Share of a stream with these loads that the fault, alone, takes."""
    hit = [fault.link, reverse_of(fault.link)] if fault.direction == "both" else [fault.link]
    share = fault.loss_fraction if fault.kind in ("loss", "impaired") else 1.0
    return share * max((float(loads.get(link, 0)) for link in hit), default=0.0)
