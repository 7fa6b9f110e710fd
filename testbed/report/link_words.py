"""What a page says of a link in words: its load, capacity and delay, and the faults that were on it."""

from collections.abc import Sequence
from fractions import Fraction

from testbed.model.naming.printable import printable
from testbed.model.run_records import FaultRecord, LinkLoad
from testbed.report.column_units import NOTHING, cell, column, percent
from topologies.impairments import known_impairments, to_text
from topologies.text.json_types import Json


def fault_title(number: int, fault: FaultRecord) -> str:
    """What the pointer is shown of a fault: when it was, and both losses."""
    losses = f"loss predicted {percent(fault.predicted_loss)}, measured {percent(fault.measured_loss)}"
    return f"fault {number}: {printable(fault.link)} {fault.kind}, {fault.start_s:g} s to {fault.stop_s:g} s\n{losses}"


def link_title(load: LinkLoad, faults: Sequence[tuple[int, FaultRecord]], link: Json) -> str:
    """What the pointer is shown of a link: load, layer, label intervals, capacity and delay, and each fault."""
    words = [f"{printable(load.label)}: load {exact(load.load)}"]
    words += [f"layer {load.layer}"] if load.layer else []
    words += [f"{len(load.intervals)} label intervals"] if load.intervals else []
    capacity, delay = shape_words(link)
    titles = [fault_title(number, fault) for number, fault in faults if fault.skipped is None]
    return "\n".join([", ".join(words), f"{capacity}, delay {delay}", *titles])


def shape_words(link: Json) -> tuple[str, str]:
    """Capacity and delay of a link as a network's document has it, and behind the delay what impairs it."""
    capacity, delay_s = link.get("capacity_bps"), link.get("delay_s")
    heading, factor = column("capacity_bps", [capacity])
    written = NOTHING if capacity is None else f"{cell(capacity, factor)} {heading.partition('(')[2].rstrip(')')}"
    delay = "none" if not delay_s else f"{cell(1e3 * delay_s)} ms"
    impaired = link.get("impairments")
    return written, f"{delay}; {to_text(known_impairments(impaired))}" if impaired else delay


def shaped_links(network: Json) -> dict[tuple[str, str, int], Json]:
    """(source, target, key) -> the link of a network's document; in an undirected one each stands for both
    directions."""
    found = {(li["source"], li["target"], li.get("key", 0)): li for li in network.get("links", ())}
    if network.get("directed", True):
        return found
    return {(b, a, key): link for (a, b, key), link in found.items()} | found


def link_words(network: Json) -> str:
    """Capacities and delays of all links in one sentence: what they share, or from what to what they go.

    >>> link_words({"links": [{"capacity_bps": 1e7, "delay_s": 0.0}, {"capacity_bps": 2e7, "delay_s": 0.0}]})
    'Links carry 10 Mbit/s to 20 Mbit/s; delay: none.'
    """
    links = list(network.get("links", ()))
    if not links:
        return ""
    by = [sorted(links, key=lambda link: link.get(name) or 0.0) for name in ("capacity_bps", "delay_s")]
    capacity, delay = (
        list(dict.fromkeys((shape_words(one[0])[k], shape_words(one[-1])[k]))) for k, one in enumerate(by)
    )
    return f"Links carry {' to '.join(capacity)}; delay: {' to '.join(delay)}."


def exact(load: Fraction) -> str:
    """A load as a fraction where that is short, and as per cent."""
    written = f"{load.numerator}/{load.denominator}" if load.denominator > 1 else str(load.numerator)
    return f"{written} = {percent(float(load))}" if len(written) <= 11 else percent(float(load))
