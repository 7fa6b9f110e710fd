"""Rules of one version of a split: the first switch marks each packet with the version, all others apply that version's
rules.

Theory of operation (per-packet consistency: Reitblatt et al., SIGCOMM 2012). A change from one split to another has two
phases. First the new version's *inner* rules are installed; they match a mark that no packet carries yet, so that
nothing changes. When every switch has confirmed, the *entry* rules of the first switches are installed above the old
ones, and from then on each packet that comes in is marked with the new version. A packet so follows the old split or
the new one and never a mixture, however switches and messages overtake each other, and a change takes two rounds of
messages whatever the network's depth. The old version's rules go when the last packets that carry its mark have
arrived.
"""

from dataclasses import dataclass, replace

from testbed.errors import InputError
from testbed.model.label_split import LabelSplit
from testbed.model.wiring import Wiring
from testbed.openflow.rules import STREAM_PRIORITY, FlowRule, Match, stream_rules

VERSIONS = 63
"""Values of the six-bit field (DSCP) that carries a version; 0 is a packet that has none yet."""
_FIRST_PRIORITY = 1000
_MAX_CHANGES = 60_000


@dataclass(frozen=True, kw_only=True)
class VersionedRules:
    """``inner``: install first, they touch no packet yet. ``entry``: of the first switches; from then on the version is
    in force."""

    inner: tuple[FlowRule, ...]
    entry: tuple[FlowRule, ...]


def versioned_rules(wiring: Wiring, split: LabelSplit, *, number: int, udp_port: int) -> VersionedRules:
    """The pair's labelled stream over the split as version ``number`` (0, 1, ...; the mark is number modulo 63, plus
    1).

    Entry rules of a higher number win over those of a lower one. A version's rules must have gone before its mark comes
    again. The pair's other packets find no rule. Raises InputError where the split cannot be written as rules.
    """
    if not 0 <= number < _MAX_CHANGES:
        raise InputError(f"version {number} of a plan; a run has at most {_MAX_CHANGES}")
    mark = number % VERSIONS + 1
    entries = _entries(wiring, split)
    entered = {wiring.network.links[i].target for i in split.loaded if wiring.network.links[i].source != split.source}
    inner, entry = [], []
    for rule in stream_rules(wiring, split, udp_port=udp_port):
        if rule.priority != STREAM_PRIORITY:
            continue
        node = entries.get(rule.dpid)
        if node is not None:
            entry.append(
                replace(
                    rule,
                    priority=_FIRST_PRIORITY + number,
                    match=_marked(rule.match, 0),
                    set_fields=(*rule.set_fields, ("ip_dscp", mark)),
                )
            )
        if node is None or node in entered:
            inner.append(replace(rule, match=_marked(rule.match, mark)))
    return VersionedRules(inner=tuple(inner), entry=tuple(entry))


def _entries(wiring: Wiring, split: LabelSplit) -> dict[int, str]:
    """Datapath id -> node of the switches at which packets of the source come in."""
    network = wiring.network
    if network.node(split.source).kind == "switch":
        return {wiring.switch_at(split.source).dpid: split.source}
    behind = {network.links[i].target for i in split.loaded if network.links[i].source == split.source}
    return {wiring.switch_at(node).dpid: node for node in sorted(behind)}


def _marked(match: Match, mark: int) -> Match:
    return (match[0], ("ip_dscp", mark), *match[1:])
