"""What the report says in words: verdicts, what was run, what a stream was, what a link carries; pure, shared by
page and terminal."""

from calendar import month_name
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from testbed.model.naming.printable import printable
from testbed.model.route_names import describe_route
from testbed.model.run_records import FaultRecord, LinkLoad, LoadedRun, SessionRun
from testbed.model.stored_runs import STATES, RunState
from testbed.model.verdict import Check, CheckOutcome, Verdict
from testbed.report.column_units import NOTHING, cell, column, percent, plain
from topologies.impairments import known_impairments, to_text
from topologies.text.json_types import Json

FABRICS = {
    "emulation": "real packets through virtual switches",
    "simulator": "simulated in virtual time",
}
OUTCOMES: dict[CheckOutcome, str] = {
    "holds": "passed",
    "fails": "FAILED",
    "cannot-tell": "CANNOT TELL",
}
RELATIONS = {"at-least": "at least ", "at-most": "at most "}
OUTCOME_MARKS: dict[CheckOutcome, str] = {"holds": "✓", "fails": "✗", "cannot-tell": "?"}
OUTCOME_CLASSES: dict[CheckOutcome, str] = {
    "holds": "ok",
    "fails": "no",
    "cannot-tell": "cannot-tell",
}
MARKS: dict[RunState, str] = {
    "passed": "✓",
    "failed": "✗",
    "cannot-tell": "?",
    "invalid": "!",
    "unfinished": "…",
}


def fault_mark(fault: FaultRecord) -> str:
    """What the checks about the fault say: a tick, in words where nothing got by and nothing was to; a cross; a dash
    where none judges it."""
    if fault.passed is None:
        return NOTHING
    if not fault.passed:
        return "✗"
    return "outage, as predicted" if fault.predicted_loss >= 1 else "✓"


def state_of(verdict: Verdict | None) -> RunState:
    """One word for a verdict; None is a run or stream without one."""
    if verdict is None:
        return "unfinished"
    if verdict.invalid is not None:
        return "invalid"
    return STATES[verdict.outcome]


def verdict_reason(verdict: Verdict | None, unfinished: str | None = None) -> str:
    """The reason of a verdict in one or two sentences."""
    if verdict is None:
        return f"There is no verdict: {unfinished or 'the stream did not end'}."
    failed = [c.name for c in verdict.checks if c.outcome == "fails"]
    unsure = [c.name for c in verdict.checks if c.outcome == "cannot-tell"]
    if verdict.invalid is not None:
        return f"Invalid measurement: {verdict.invalid}."
    if not verdict.checks:
        return "Nothing was checked, so nothing has passed."
    words = []
    if failed:
        words.append(
            f"{len(failed)} of {counted(len(verdict.checks), 'check')} failed: {listed(failed, 4)}."
        )
    if unsure:
        words.append(
            f"{len(unsure)} inconclusive: the data also fit the alternative: {listed(unsure, 4)}."
        )
    if words:
        return " ".join(words)
    if len(verdict.checks) == 1:
        return "The one check holds."
    return f"All {len(verdict.checks)} checks hold: prediction and measurement agree within the stated tolerances."


def check_words(check: Check) -> str:
    """What a check compared, as one sentence after its name: figures, the document's, the rival's, detail."""
    words = []
    if check.predicted is not None:
        words.append(f"predicted {RELATIONS.get(check.relation, '')}{check.predicted:.6g}")
    if check.measured is not None:
        between = (
            "" if check.interval is None else f" [{check.interval[0]:.4g}, {check.interval[1]:.4g}]"
        )
        words.append(f"measured {check.measured:.6g}{between}")
    if check.tolerance:
        words.append(f"tolerance {check.tolerance:.3g}")
    if check.document is not None:
        words.append(f"the document says {check.document}")
    if check.rival is not None:
        words.append(f"{check.rival_note or 'the rival'} would be {check.rival:.4g}")
    return "; ".join([*words, *([check.detail] if check.detail else [])])


def check_context(check: Check) -> str:
    """What stands next to a check's figures in a table: uncertainty, the document's words, what the rival is,
    detail."""
    between = (
        ""
        if check.interval is None
        else f"measured within {check.interval[0]:.4g} and {check.interval[1]:.4g}"
    )
    stated = "" if check.document is None else f"the document says {check.document}"
    rival = (
        f"rival: {check.rival_note}"
        if check.rival_note and check.rival is not None
        else check.rival_note
    )
    return "; ".join(filter(None, (between, stated, rival, check.detail)))


def run_title(run: LoadedRun) -> str:
    """Networks, ends and what was run."""
    sessions, name = [part.session for part in run.sessions], run.manifest.name or "run"
    if len(sessions) == 1 and (one := sessions[0]).source:
        ends = f"{one.source} to {one.sink}"
        return f"{one.title}{'' if ends in one.title else f', {ends}'}: {name}"
    return (
        f"{name}: {listed([one.title for one in sessions], 3)}" if sessions else name.capitalize()
    )


def run_sentence(run: LoadedRun) -> str:
    """The run in one sentence."""
    sessions = [part.session for part in run.sessions]
    if not sessions:
        return "No stream was recorded."
    titles = listed([s.title for s in sessions], 5)
    fabrics = sorted({FABRICS.get(s.fabric, s.fabric) for s in sessions})
    faults = sum(len(part.faults) for part in run.sessions)
    stream = "A coded stream" if len(sessions) == 1 else f"{len(sessions)} coded streams"
    context = (
        f"with {counted(faults, 'fault')}: for each, what"
        if faults
        else "without a single fault: what"
    )
    return f"{stream} over {titles} ({', '.join(fabrics)}), {context} theory predicted and what was measured."


def stream_sentence(part: SessionRun) -> str:
    """Where the stream went, how it was coded and what failed, in words."""
    session = part.session
    layers = max((link.layer for link in session.links), default=0)
    route = f"{describe_route(session.method)} ({counted(len(session.links), 'link')}" + (
        f", {counted(layers, 'layer')})" if layers else ")"
    )
    words = f"From {session.source} to {session.sink} over {route}, {FABRICS.get(session.fabric, session.fabric)}."
    coding = _coding(part)
    made = len(part.faults)
    faults = (
        counted(made, "fault") + " one after another" * (made > 1) if part.faults else "No fault"
    )
    return " ".join(filter(None, (words, coding, faults + ".", _beyond_repair(part))))


def ror_is_predicted(part: SessionRun) -> bool:
    """Whether a fault has a block size by theory, or the run is judged packet by packet under random failures;
    impairments (bursts, late packets) have none, and a ROR of the run would be the sum of nothing."""
    summary = part.summary
    if summary is None:
        return False
    infinite = bool(summary.infinite_links) and summary.ror_predicted is None
    random_failures = summary.figures.get("epochs", {}).get("faults", 0) > 0
    return (
        infinite or random_failures or any(f.predicted_block_size is not None for f in part.faults)
    )


def ror_words(part: SessionRun) -> tuple[str, str]:
    """ROR, predicted and measured."""
    summary = part.summary
    if summary is None or not ror_is_predicted(part):
        return (NOTHING if summary is None else "unpredicted"), NOTHING
    infinite = summary.infinite_links and summary.ror_predicted is None
    return "infinite" if infinite else plain(summary.ror_predicted), plain(summary.ror_measured)


def _beyond_repair(part: SessionRun) -> str:
    links = part.summary.infinite_links if part.summary else ()
    if not links:
        return ""
    verb = "carries" if len(links) == 1 else "carry"
    return f"{counted(len(links), 'link')} ({listed(links, 4)}) {verb} every packet: no code makes up for that."


def _coding(part: SessionRun) -> str:
    given = part.session.parameters
    parts = []
    if isinstance(rate := given.get("rate_pps"), (int, float)):
        parts.append(f"{plain(float(rate))} source packets a second")
    if isinstance(m := given.get("source_packets"), int):
        parts.append(f"M = {m} a block")
    if part.summary is not None and part.summary.base_block_size is not None:
        parts.append(f"N = {plain(part.summary.base_block_size)} at rest")
    if isinstance(labels := given.get("labels"), str):
        parts.append(f"{labels} labels")
    return (", ".join(parts) + ".") if parts else ""


def when(iso: str) -> str:
    """ISO time to "21 November 2026, 04:50 UTC"; text that is no time stays as it is."""
    try:
        at = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = at.tzname() or ""
    return f"{at.day} {month_name[at.month]} {at.year}, {at:%H:%M} {zone.replace('UTC+00:00', 'UTC')}".strip()


def counted(count: int, noun: str, many: str = "") -> str:
    """1 link, 2 links; ``many``: where the plural is another."""
    return f"{count} {noun if count == 1 else many or f'{noun}s'}"


def listed(words: Sequence[str], most: int) -> str:
    """a, b and c; the rest counted."""
    if len(words) > most:
        return ", ".join(words[:most]) + f" and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def over_bound(fault: FaultRecord) -> str:
    """Where the layout of labels asks for more packets than the load alone: the bound and how many more, "23+1"; else
    nothing."""
    needed, bound = fault.predicted_block_size, fault.bound_block_size
    return (
        ""
        if needed is None or bound is None or needed <= bound
        else f"{plain(bound)}+{plain(needed - bound)}"
    )


def suspected_cables(fault: FaultRecord) -> str:
    """The cables that the sender took for broken, with a question mark where it was unsure, an exclamation mark where
    wrong."""
    if fault.diagnosis is None:
        return NOTHING
    cables = list(fault.diagnosis["cables"])
    named = ", ".join(cables[:2]) + (f" +{len(cables) - 2}" if len(cables) > 2 else "")
    return (
        named
        + ("" if fault.diagnosis["certain"] else " ?")
        + ("" if fault.diagnosis["right"] else " !")
    )


def fault_title(number: int, fault: FaultRecord) -> str:
    """What the pointer is shown of a fault: when it was, and both losses."""
    losses = (
        f"loss predicted {percent(fault.predicted_loss)}, measured {percent(fault.measured_loss)}"
    )
    return f"fault {number}: {printable(fault.link)} {fault.kind}, {fault.start_s:g} s to {fault.stop_s:g} s\n{losses}"


def link_title(load: LinkLoad, faults: Sequence[tuple[int, FaultRecord]], link: Json) -> str:
    """What the pointer is shown of a link: load, layer, label intervals, capacity and delay, and each fault."""
    words = [f"{printable(load.label)}: load {exact(load.load)}"]
    words += [f"layer {load.layer}"] if load.layer else []
    words += [f"{len(load.intervals)} label intervals"] if load.intervals else []
    capacity, delay = shape_words(link)
    titles = [fault_title(number, fault) for number, fault in faults]
    return "\n".join([", ".join(words), f"{capacity}, delay {delay}", *titles])


def shape_words(link: Json) -> tuple[str, str]:
    """Capacity and delay of a link as a network's document has it, and behind the delay what impairs it."""
    capacity, delay_s = link.get("capacity_bps"), link.get("delay_s")
    heading, factor = column("capacity_bps", [capacity])
    written = (
        NOTHING
        if capacity is None
        else f"{cell(capacity, factor)} {heading.partition('(')[2].rstrip(')')}"
    )
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
    by = [
        sorted(links, key=lambda link: link.get(name) or 0.0)
        for name in ("capacity_bps", "delay_s")
    ]
    capacity, delay = (
        list(dict.fromkeys((shape_words(one[0])[k], shape_words(one[-1])[k])))
        for k, one in enumerate(by)
    )
    return f"Links carry {' to '.join(capacity)}; delay: {' to '.join(delay)}."


def exact(load: Fraction) -> str:
    """A load as a fraction where that is short, and as per cent."""
    written = (
        f"{load.numerator}/{load.denominator}" if load.denominator > 1 else str(load.numerator)
    )
    return f"{written} = {percent(float(load))}" if len(written) <= 11 else percent(float(load))


def packet_lines(part: SessionRun) -> list[str]:
    """Return lines that say what became of a stream's packets, if no table of faults does."""
    totals = part.summary.figures.get("packets") if part.summary else None
    if not totals or part.faults or not totals["sent"]:
        return []
    lines = [
        f"{totals['sent']} packets sent for {totals['source']} source packets; "
        f"{_block_size_words(totals)}",
        f"{totals['lost']} packets lost ({100 * totals['lost_share']:.2f} %); "
        f"{totals['recovered']} lost source packets recovered",
    ]
    for link in totals["lost_by_link"]:
        if link["crossed"]:
            share = f"{100 * link['lost_share']:.2f} %"
            lines.append(f"  {link['link']}: {link['lost']} of {link['crossed']} lost ({share})")
    delays = totals["delay_s"]
    if delays["median"] is not None:
        lines.append(
            f"delay {1000 * delays['median']:.1f} ms (median), {1000 * delays['p95']:.1f} ms (95 %)"
        )
    lines.append(
        f"residual loss: {totals['residual']} source packets ({100 * totals['residual_share']:.3f} %)"
    )
    return lines


def _block_size_words(totals: Json) -> str:
    sizes = totals["block_size"]
    m = totals["source_packets_of_block"]
    if sizes["most"] == m:
        return f"M = {m}, no parity"
    if sizes["least"] == sizes["most"]:
        return f"M = {m}, N = {sizes['most']}"
    return f"M = {m}, N = {sizes['least']} to {sizes['most']} (mean {sizes['mean']:.1f})"
