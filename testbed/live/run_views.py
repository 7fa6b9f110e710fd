"""Views for the live page, from the network, the link loads and the faults of a workload."""

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
    """Return a view of a network with loads.

    Args:
        title: Title of the page.
        network: The network.
        loads: Loads of links in any unit. The view has them relative to the largest load.
        faults: The planned faults.
        duration_s: Planned duration of the run.
    """
    # If all loads are 0, they are divided by 1.
    largest = max(loads.values(), default=1) or 1
    links = tuple(
        LinkLoad(source=source, target=target, key=key, load=Fraction(load) / Fraction(largest))
        for (source, target, key), load in loads.items()
    )
    records = tuple(planned_fault_record(fault, 0.0, duration_s) for fault in faults)
    document = network_document(network)
    return RunView(
        title=title, network=document, links=links, faults=records, duration_s=duration_s
    )


def split_view(title: str, split: LabelSplit, faults: Sequence[Fault]) -> RunView:
    """Return a view of a stream, whose loads are the shares of its packets by the label split."""
    loads = {split.network.links[index].id: split.load(index) for index in split.loaded}
    view = network_view(title, split.network, loads, faults)
    return replace(view, source=split.source, sink=split.sink)


def idle_network_view(title: str, network: Network, control: str = "") -> RunView:
    """Return a view of a network without loads, whose future traffic is unknown.

    Args:
        title: Title of the page.
        network: The network.
        control: Name under which the network takes requests, or empty if it does not.
    """
    loads = {link.id: 0 for link in network.links}
    return replace(network_view(title, network, loads), control=control)


def planned_fault_record(fault: Fault, loss: float, end_s: float) -> FaultRecord:
    """Return the record of a fault that has not begun.

    Args:
        fault: The fault.
        loss: The share of the stream that it will lose.
        end_s: End of a permanent fault in the record.
    """
    stop_s = max(end_s, fault.start_s) if fault.permanent else fault.stop_s
    return FaultRecord(
        session=0,
        link=label_of(fault.link),
        kind=fault.kind,
        start_s=fault.start_s,
        stop_s=stop_s,
        predicted_loss=loss,
    )


def predicted_loss(fault: Fault, loads: Mapping[LinkId, Fraction | int]) -> float:
    """Return the share of a stream with these loads that the fault loses by itself."""
    affected = [fault.link]
    if fault.direction == "both":
        affected.append(reverse_of(fault.link))
    share = fault.loss_fraction if fault.kind in ("loss", "impaired") else 1.0
    return share * max((float(loads.get(link, 0)) for link in affected), default=0.0)
