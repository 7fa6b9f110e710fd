"""Whether prepared escapes carry a pair's packets past a given set of dead links: walks of the rules, no switch."""

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
    """InputError where faults of the plan overlap and FT-DRB's escapes do not lead round them."""
    if plan.routing == "ft-drb" and overlapping(plan.faults):
        wiring = wire(plan.network, [plan.source, plan.sink])
        pair = labelled_path_pair(plan.network, plan.source, plan.sink)
        check_overlaps(wiring, escape_rules_together(wiring, pair), plan.faults)


def stranded_paths(wiring: Wiring, rules: EscapeRules, down: Iterable[LinkId]) -> tuple[int, ...]:
    """The known paths whose packets do not arrive while these links' cables are down: handed round until their hops are
    spent, or at a switch without a way on. Packets that are under way while a cable's state changes are not looked
    at."""
    walker = RuleWalker(wiring, rules.rules, groups=rules.groups, down=down)
    known = rules.known
    packet = {**walker.stream_packet(known.source, known.sink, STREAM_UDP_PORT), "ip_dscp": 0}
    host = wiring.host_at(known.sink).name
    labels = ((k, path_label(k)) for k in range(len(known.paths)))
    return tuple(
        k
        for k, label in labels
        if walker.walk(known.source, {**packet, "udp_src": label}).host != host
    )


def check_overlaps(
    wiring: Wiring, directions: Sequence[EscapeRules], faults: Sequence[Fault]
) -> None:
    """InputError where faults are in force at once that the escapes do not lead round; one by itself is the verdict's
    matter.

    ``directions``: rules of the stream, and of the reports on their way back.
    """
    ordered = sorted(faults, key=lambda f: f.start_s)
    for first in ordered:
        together = [f for f in ordered if f.start_s <= first.start_s < f.stop_s]
        if len({cable_number(wiring.network, f.link) for f in together}) < 2:
            continue
        for rules in directions:
            known, stranded = rules.known, stranded_paths(wiring, rules, [f.link for f in together])
            if stranded:
                words = " and ".join(label_of(f.link) for f in together)
                raise InputError(
                    f"faults at {first.start_s:g} s: with {words} down, packets from {known.source!r} to "
                    f"{known.sink!r} on {len(stranded)} of {len(known.paths)} paths find no way (the first: path "
                    f"{stranded[0]}); let these faults not overlap"
                )
