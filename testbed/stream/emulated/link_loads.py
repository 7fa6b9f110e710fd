"""Several streams at once on switches, and what the counters of the switches' interfaces say that each link carried meanwhile.

An interface counts packets and bytes of everything that it sends: coded packets, which are all of one size, and loss reports, which come more
often the more seems to be lost. Reports are told apart by their size: their mean is that of the links which carry reports only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.emulation.control.fault_injection import CableBreaker
from testbed.model.label_split import LabelSplit
from testbed.model.progress import Progress
from testbed.stream.emulated.fabric import plan_rules, running_network, streams_over
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import HEADERS_BYTES, check_together
from topologies.network import LinkId

SAMPLE_S = 0.5


@dataclass(frozen=True, kw_only=True)
class LinkCounts:
    """(packets, bytes) sent onto each link since the network was up, ``at_s`` after the streams' start."""

    at_s: float
    sent: Mapping[LinkId, tuple[int, int]]


def streams_with_link_counts(
    plans: Sequence[StreamPlan], installed: Sequence[LabelSplit] | None = None
) -> tuple[tuple[StreamMeasurements, ...], tuple[LinkCounts, ...]]:
    """Run the plans together, counters read every SAMPLE_S; inside the sandbox only.

    ``installed``: label splits that the switches get in place of the plans' own, for a control that is to be found out. Errors are those
    of ``EmulatedStreamFabric.run_together``.
    """
    check_together(plans)
    carried_out = plans
    if installed is not None:
        carried_out = [replace(plan, forward=split) for plan, split in zip(plans, installed, strict=True)]
    samples: list[LinkCounts] = []
    with running_network(*plans) as network:
        for number, plan in enumerate(carried_out):
            network.controller.install(plan_rules(plan, network.wiring), plan_id=number + 1)

        def sample(progress: Progress) -> None:
            if progress.done_s > 0 and (not samples or progress.done_s - samples[-1].at_s >= SAMPLE_S - 0.05):
                counted = {link: found[:2] for link, found in network.net.link_counters().items()}
                samples.append(LinkCounts(at_s=progress.done_s, sent=counted))

        found = streams_over(network, plans, sample, CableBreaker(network.net))
    return found, tuple(samples)


def measured_rates(
    samples: Sequence[LinkCounts], window_s: tuple[float, float], symbol_bytes: int, idle: Collection[LinkId]
) -> Mapping[LinkId, float]:
    """Coded packets a second on each link between the first and the last sample within the window.

    All streams have symbols of ``symbol_bytes``; ``idle`` are links on which no coded packet is expected by any of the routings that are
    to be told apart: what they carry is taken for reports.
    """
    inside = [one for one in samples if window_s[0] <= one.at_s <= window_s[1]]
    first, last = inside[0], inside[-1]
    grown = {
        link: (packets - first.sent[link][0], size - first.sent[link][1]) for link, (packets, size) in last.sent.items()
    }
    reports = sum(grown[link][0] for link in idle)
    report_bytes = sum(grown[link][1] for link in idle) / reports if reports else 0.0
    frame_bytes, lasts = symbol_bytes + HEADERS_BYTES, last.at_s - first.at_s
    return {
        link: max(0.0, (size - report_bytes * packets) / (frame_bytes - report_bytes)) / lasts
        for link, (packets, size) in grown.items()
    }
