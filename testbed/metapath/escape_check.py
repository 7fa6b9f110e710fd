"""Checks whether FT-DRB's escape paths lead packets around several dead links at once.

An escape path is what a switch chooses for a packet that met a dead link. The check follows packets
through the flow rules.
"""

from collections.abc import Iterable, Sequence

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.errors import InputError
from testbed.faults.fault import Fault, overlapping
from testbed.metapath.escape_rules import EscapeRules, escape_rules_together
from testbed.metapath.labelled_paths import cable_number, labelled_path_pair, path_label
from testbed.metapath.plan import MetapathPlan
from testbed.model.wiring import Wiring, wire
from testbed.openflow.flow_table import RuleWalker
from topologies import LinkId, label_of


def check_escapes(plan: MetapathPlan) -> None:
    """Check that FT-DRB's escapes lead around the overlapping faults of a plan.

    Raises:
        InputError: Packets would find no path.
    """
    if plan.routing == "ft-drb" and overlapping(plan.faults):
        wiring = wire(plan.network, [plan.source, plan.sink])
        pair = labelled_path_pair(plan.network, plan.source, plan.sink)
        check_overlaps(wiring, escape_rules_together(wiring, pair), plan.faults)


def stranded_paths(wiring: Wiring, rules: EscapeRules, down: Iterable[LinkId]) -> tuple[int, ...]:
    """Return the known paths whose packets do not arrive while these cables are down.

    Such packets circulate until their TTL expires, or end at a switch without a live output.
    Packets in transit while a cable changes its state are not considered.

    Args:
        wiring: The switches and their ports.
        rules: The rules of one direction.
        down: Links of the cables that are down.
    """
    walker = RuleWalker(wiring, rules.rules, groups=rules.groups, down=down)
    paths = rules.known
    packet = {**walker.stream_packet(paths.source, paths.sink, STREAM_UDP_PORT), "ip_dscp": 0}
    host = wiring.host_at(paths.sink).name
    stranded = []
    for path in range(len(paths.paths)):
        labelled_packet = {**packet, "udp_src": path_label(path)}
        if walker.walk(paths.source, labelled_packet).host != host:
            stranded.append(path)
    return tuple(stranded)


def check_overlaps(
    wiring: Wiring,
    directions: Sequence[EscapeRules],
    faults: Sequence[Fault],
) -> None:
    """Check that the escapes lead around all faults that are active at the same time.

    Single faults are not checked here, because the verdict of the run judges them.

    Args:
        wiring: The switches and their ports.
        directions: The rules of the stream, and those of the reports in the other direction.
        faults: The faults of the plan.

    Raises:
        InputError: Packets would find no path.
    """
    ordered = sorted(faults, key=lambda fault: fault.start_s)
    for first in ordered:
        active = [fault for fault in ordered if fault.start_s <= first.start_s < fault.stop_s]
        cables = {cable_number(wiring.network, fault.link) for fault in active}
        if len(cables) < 2:
            continue
        for rules in directions:
            paths = rules.known
            stranded = stranded_paths(wiring, rules, [fault.link for fault in active])
            if stranded:
                links = " and ".join(label_of(fault.link) for fault in active)
                raise InputError(
                    f"faults at {first.start_s:g} s: with {links} down, packets from "
                    f"{paths.source!r} to {paths.sink!r} on {len(stranded)} of "
                    f"{len(paths.paths)} paths find no way (the first: path {stranded[0]}); let "
                    "these faults not overlap"
                )
