"""Several streams at once on switches, and what the counters of the switches' interfaces say that each link carried
meanwhile.

An interface counts everything that it sends: coded packets, and the loss reports of streams that flow the other way,
which come the more often the more seems to be lost. Reports are taken off by what the sinks really sent: every report
goes once over each return path, whose links are known, and a sink's host sends nothing else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.emulation.control.fault_injection import FaultInjector
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.label_split import LabelSplit
from testbed.model.progress import Progress
from testbed.openflow.rules import split_rules
from testbed.stream.emulated.fabric import here_for, streams_over
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import check_concurrent
from testbed.stream.prediction.active_faults import RETURN_LABELS
from topologies.network import LinkId

SAMPLE_S = 0.5


@dataclass(frozen=True, kw_only=True)
class LinkCounts:
    """Packets sent onto each link since the network was up, ``at_s`` after the streams' start, and loss reports sent by
    each stream's sink (a node) over all its return paths."""

    at_s: float
    sent: Mapping[LinkId, int]
    reports: Mapping[str, int]


def streams_with_link_counts(
    plans: Sequence[StreamPlan], installed: Sequence[LabelSplit] | None = None
) -> tuple[tuple[StreamMeasurements, ...], tuple[LinkCounts, ...]]:
    """Run the plans together, counters read every SAMPLE_S; inside the sandbox only.

    ``installed``: label splits that the switches get in place of the plans' own, for a control that is to be found out.
    Errors are those of ``EmulatedStreamFabric.run_together``.
    """
    check_concurrent(plans)
    carried_out = plans
    if installed is not None:
        carried_out = [
            replace(plan, forward=split) for plan, split in zip(plans, installed, strict=True)
        ]
    samples: list[LinkCounts] = []
    with here_for(*plans) as platform:
        for number, plan in enumerate(carried_out):
            rules, routes = split_rules(platform.wiring, plan.forward, plan.backward)
            platform.install(rules, plan_id=number + 1)
            platform.route(routes)

        def sample(progress: Progress) -> None:
            if progress.done_s > 0 and (
                not samples or progress.done_s - samples[-1].at_s >= SAMPLE_S - 0.05
            ):
                counted = {
                    link: found[0] for link, found in platform.network.link_counters().items()
                }
                reports = {plan.sink: _sent_by(platform.network, plan.sink) for plan in plans}
                samples.append(LinkCounts(at_s=progress.done_s, sent=counted, reports=reports))

        found = streams_over(platform, plans, sample, FaultInjector(platform.network))
    return found, tuple(samples)


def _sent_by(network: EmulatedNetwork, node: str) -> int:
    """Packets that the node's host has sent into the network, over all its interfaces."""
    found = network.namespaces.netlink_of(network.wiring.host_at(node).name).counters()
    return sum(one.sent_packets for name, one in found.items() if name != "lo")


def measured_rates(
    samples: Sequence[LinkCounts],
    window_s: tuple[float, float],
    plans: Sequence[StreamPlan],
    down: Collection[LinkId] = (),
) -> Mapping[LinkId, float]:
    """Coded packets a second on each link between the first and the last sample within the window.

    Each sink must be the end of one stream only. A report whose return path leads over a link that is ``down`` was
    counted up to there.
    """
    inside = [one for one in samples if window_s[0] <= one.at_s <= window_s[1]]
    first, last = inside[0], inside[-1]
    coded = {link: float(packets - first.sent[link]) for link, packets in last.sent.items()}
    for plan in plans:
        each = (last.reports[plan.sink] - first.reports[plan.sink]) / len(RETURN_LABELS)
        for label in RETURN_LABELS:
            for index in plan.backward.path_of(label).links:
                link = plan.network.links[index].id
                if link in down:
                    break
                coded[link] -= each
    return {link: packets / (last.at_s - first.at_s) for link, packets in coded.items()}
