"""Texts about verdicts, runs, streams, faults and links, shared by pages and the terminal."""

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
    """Return the outcome of the checks of a fault as a mark.

    The mark is a tick, a cross, or a dash if no check is about the fault. A predicted outage is
    written out, because a tick beside a loss of 100 % could be misread.
    """
    if fault.passed is None:
        return NOTHING
    if not fault.passed:
        return "✗"
    return "outage, as predicted" if fault.predicted_loss >= 1 else "✓"


def state_of(verdict: Verdict | None) -> RunState:
    """Return the state of a run or stream; without a verdict it is unfinished."""
    if verdict is None:
        return "unfinished"
    if verdict.invalid is not None:
        return "invalid"
    return STATES[verdict.outcome]


def verdict_reason(verdict: Verdict | None, unfinished: str | None = None) -> str:
    """Return the reason of a verdict in one or two sentences.

    Args:
        verdict: The verdict, or None.
        unfinished: Why there is no verdict; by default, that the stream did not end.
    """
    if verdict is None:
        return f"There is no verdict: {unfinished or 'the stream did not end'}."
    failed = [check.name for check in verdict.checks if check.outcome == "fails"]
    inconclusive = [check.name for check in verdict.checks if check.outcome == "cannot-tell"]
    if verdict.invalid is not None:
        return f"Invalid measurement: {verdict.invalid}."
    if not verdict.checks:
        return "Nothing was checked, so nothing has passed."
    sentences = []
    if failed:
        checks = counted(len(verdict.checks), "check")
        sentences.append(f"{len(failed)} of {checks} failed: {listed(failed, 4)}.")
    if inconclusive:
        sentences.append(
            f"{len(inconclusive)} inconclusive: the data also fit the alternative: "
            f"{listed(inconclusive, 4)}."
        )
    if sentences:
        return " ".join(sentences)
    if len(verdict.checks) == 1:
        return "The one check holds."
    return (
        f"All {len(verdict.checks)} checks hold: prediction and measurement agree within the "
        "stated tolerances."
    )


def check_words(check: Check) -> str:
    """Return what a check compared, as "expected 2 ± 0.1, measured 2.05 (no code: 1.5); detail".

    The document's value and the alternative's are in parentheses.
    """
    figures = []
    if check.predicted is not None:
        expected = f"expected {RELATIONS.get(check.relation, '')}{check.predicted:.6g}"
        if check.tolerance:
            expected += f" ± {check.tolerance:.3g}"
        figures.append(expected)
    if check.measured is not None:
        measured = f"measured {check.measured:.6g}"
        if check.interval is not None:
            measured += f" [{check.interval[0]:.4g}, {check.interval[1]:.4g}]"
        if check.predicted is None and check.tolerance:
            measured += f", tolerance {check.tolerance:.3g}"
        figures.append(measured)
    values = []
    if check.document is not None:
        values.append(f"document: {check.document}")
    if check.rival is not None:
        values.append(f"{check.rival_note or 'alternative'}: {check.rival:.4g}")
    words = ", ".join(figures)
    if values:
        words += f" ({'; '.join(values)})"
    return "; ".join(filter(None, (words, check.detail)))


def check_context(check: Check) -> str:
    """Return the text beside the figures of a check in a table.

    It contains the interval, the document's value, the meaning of the rival, and the detail.
    """
    parts = []
    if check.interval is not None:
        parts.append(f"measured within {check.interval[0]:.4g} and {check.interval[1]:.4g}")
    if check.document is not None:
        parts.append(f"the document says {check.document}")
    if check.rival_note:
        # Without a figure of the rival, the note says why there is none.
        prefix = "" if check.rival is None else "rival: "
        parts.append(prefix + check.rival_note)
    if check.detail:
        parts.append(check.detail)
    return "; ".join(parts)


def run_title(run: LoadedRun) -> str:
    """Return a title that names the networks, the end points of a single stream, and the run."""
    sessions = [part.session for part in run.sessions]
    name = run.manifest.name or "run"
    if not sessions:
        return name.capitalize()
    if len(sessions) > 1 or not sessions[0].source:
        return f"{name}: {listed([session.title for session in sessions], 3)}"
    session = sessions[0]
    ends = f"{session.source} to {session.sink}"
    title = session.title
    if ends not in title:
        title += f", {ends}"
    return f"{title}: {name}"


def run_sentence(run: LoadedRun) -> str:
    """Describe the run in one sentence."""
    sessions = [part.session for part in run.sessions]
    if not sessions:
        return "No stream was recorded."
    titles = listed([session.title for session in sessions], 5)
    fabrics = sorted({FABRICS.get(session.fabric, session.fabric) for session in sessions})
    fault_count = sum(len(part.faults) for part in run.sessions)
    stream = "A coded stream" if len(sessions) == 1 else f"{len(sessions)} coded streams"
    context = "without a single fault: what"
    if fault_count:
        context = f"with {counted(fault_count, 'fault')}: for each, what"
    return (
        f"{stream} over {titles} ({', '.join(fabrics)}), {context} theory predicted and what was "
        "measured."
    )


def stream_sentence(part: SessionRun) -> str:
    """Describe the route, the coding and the faults of a stream."""
    session = part.session
    layers = max((link.layer for link in session.links), default=0)
    size = counted(len(session.links), "link")
    if layers:
        size += f", {counted(layers, 'layer')}"
    route = f"{describe_route(session.method)} ({size})"
    fabric = FABRICS.get(session.fabric, session.fabric)
    sentences = [f"From {session.source} to {session.sink} over {route}, {fabric}."]
    coding = _coding(part)
    if coding:
        sentences.append(coding)
    sentences.append(_fault_count(len(part.faults)))
    beyond_repair = _beyond_repair(part)
    if beyond_repair:
        sentences.append(beyond_repair)
    return " ".join(sentences)


def _fault_count(count: int) -> str:
    if count == 0:
        return "No fault."
    if count == 1:
        return "1 fault."
    return f"{count} faults one after another."


def ror_is_predicted(part: SessionRun) -> bool:
    """Return whether theory predicts a ROR for the stream.

    It does if any fault has a predicted block size or makes the ROR infinite, and if the stream is
    judged packet by packet under random failures. It does not for impairments (bursts, delayed
    packets): their ROR would be a sum without terms.
    """
    summary = part.summary
    if summary is None:
        return False
    infinite = bool(summary.infinite_links) and summary.ror_predicted is None
    random_failures = summary.figures.get("epochs", {}).get("faults", 0) > 0
    if infinite or random_failures:
        return True
    return any(fault.predicted_block_size is not None for fault in part.faults)


def ror_words(part: SessionRun) -> tuple[str, str]:
    """Return the predicted and the measured ROR as text."""
    summary = part.summary
    if summary is None:
        return NOTHING, NOTHING
    if not ror_is_predicted(part):
        return "unpredicted", NOTHING
    infinite = summary.infinite_links and summary.ror_predicted is None
    predicted = "infinite" if infinite else plain(summary.ror_predicted)
    return predicted, plain(summary.ror_measured)


def _beyond_repair(part: SessionRun) -> str:
    links = part.summary.infinite_links if part.summary else ()
    if not links:
        return ""
    verb = "carries" if len(links) == 1 else "carry"
    subject = f"{counted(len(links), 'link')} ({listed(links, 4)})"
    return f"{subject} {verb} every packet: no code makes up for that."


def _coding(part: SessionRun) -> str:
    parameters = part.session.parameters
    rate_pps = parameters.get("rate_pps")
    source_packets = parameters.get("source_packets")
    labels = parameters.get("labels")
    parts = []
    if isinstance(rate_pps, (int, float)):
        parts.append(f"{plain(float(rate_pps))} source packets a second")
    if isinstance(source_packets, int):
        parts.append(f"M = {source_packets} a block")
    if part.summary is not None and part.summary.base_block_size is not None:
        parts.append(f"N = {plain(part.summary.base_block_size)} at rest")
    if isinstance(labels, str):
        parts.append(f"{labels} labels")
    return f"{', '.join(parts)}." if parts else ""


def when(iso: str) -> str:
    """Return an ISO time as "21 November 2026, 04:50 UTC"; any other text is unchanged."""
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    zone = (time.tzname() or "").replace("UTC+00:00", "UTC")
    return f"{time.day} {month_name[time.month]} {time.year}, {time:%H:%M} {zone}".strip()


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun, as in "1 link" and "2 links".

    Args:
        count: The count.
        noun: The noun in the singular.
        many: The plural, if it is not formed with an s.
    """
    plural = many or f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def listed(texts: Sequence[str], limit: int) -> str:
    """Return the texts as "a, b and c"; those beyond the limit are only counted."""
    if len(texts) > limit:
        return ", ".join(texts[:limit]) + f" and {len(texts) - limit} more"
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def over_bound(fault: FaultRecord) -> str:
    """Return the bound on N and the packets needed beyond it, as in "23+1".

    The layout of labels may need more packets than the load alone. The text is empty if it does
    not.
    """
    needed = fault.predicted_block_size
    bound = fault.bound_block_size
    if needed is None or bound is None or needed <= bound:
        return ""
    return f"{plain(bound)}+{plain(needed - bound)}"


def suspected_cables(fault: FaultRecord) -> str:
    """Return the cables that the sender suspected.

    A question mark follows if the sender was unsure, and an exclamation mark if it was wrong.
    """
    if fault.diagnosis is None:
        return NOTHING
    cables = list(fault.diagnosis["cables"])
    text = ", ".join(cables[:2])
    if len(cables) > 2:
        text += f" +{len(cables) - 2}"
    if not fault.diagnosis["certain"]:
        text += " ?"
    if not fault.diagnosis["right"]:
        text += " !"
    return text


def fault_title(number: int, fault: FaultRecord) -> str:
    """Return the tooltip of a fault: its time, and its predicted and measured loss."""
    times = f"{fault.start_s:g} s to {fault.stop_s:g} s"
    predicted = percent(fault.predicted_loss)
    measured = percent(fault.measured_loss)
    return (
        f"fault {number}: {printable(fault.link)} {fault.kind}, {times}\n"
        f"loss predicted {predicted}, measured {measured}"
    )


def link_title(load: LinkLoad, faults: Sequence[tuple[int, FaultRecord]], link: Json) -> str:
    """Return the tooltip of a link.

    Args:
        load: Load, layer and label intervals of the link.
        faults: The faults of the link with their numbers.
        link: The link in the document of the network, with its capacity and delay.
    """
    facts = [f"{printable(load.label)}: load {exact(load.load)}"]
    if load.layer:
        facts.append(f"layer {load.layer}")
    if load.intervals:
        facts.append(f"{len(load.intervals)} label intervals")
    capacity, delay = shape_words(link)
    titles = [fault_title(number, fault) for number, fault in faults]
    return "\n".join([", ".join(facts), f"{capacity}, delay {delay}", *titles])


def shape_words(link: Json) -> tuple[str, str]:
    """Return capacity and delay of a link as text; impairments follow the delay.

    Args:
        link: The link in the document of a network.
    """
    capacity_bps = link.get("capacity_bps")
    capacity = NOTHING
    if capacity_bps is not None:
        heading, factor = column("capacity_bps", [capacity_bps])
        unit = heading.partition("(")[2].rstrip(")")
        capacity = f"{cell(capacity_bps, factor)} {unit}"

    delay_s = link.get("delay_s")
    delay = "none" if not delay_s else f"{cell(1e3 * delay_s)} ms"
    impairments = link.get("impairments")
    if impairments:
        delay += f"; {to_text(known_impairments(impairments))}"
    return capacity, delay


def shaped_links(network: Json) -> dict[tuple[str, str, int], Json]:
    """Return the links in the document of a network by (source, target, key).

    A link of an undirected network is found under both of its directions.
    """
    links = {}
    for link in network.get("links", ()):
        links[link["source"], link["target"], link.get("key", 0)] = link
    if network.get("directed", True):
        return links
    reverse = {}
    for (source, target, key), link in links.items():
        reverse[target, source, key] = link
    return reverse | links


def link_words(network: Json) -> str:
    """Return the capacities and delays of all links in one sentence, as values or ranges.

    >>> slow = {"capacity_bps": 1e7, "delay_s": 0.0}
    >>> fast = {"capacity_bps": 2e7, "delay_s": 0.0}
    >>> link_words({"links": [slow, fast]})
    'Links carry 10 Mbit/s to 20 Mbit/s; delay: none.'
    """
    links = list(network.get("links", ()))
    if not links:
        return ""
    by_capacity = sorted(links, key=lambda link: link.get("capacity_bps") or 0.0)
    by_delay = sorted(links, key=lambda link: link.get("delay_s") or 0.0)
    capacities = dict.fromkeys(shape_words(link)[0] for link in (by_capacity[0], by_capacity[-1]))
    delays = dict.fromkeys(shape_words(link)[1] for link in (by_delay[0], by_delay[-1]))
    return f"Links carry {' to '.join(capacities)}; delay: {' to '.join(delays)}."


def exact(load: Fraction) -> str:
    """Return a load as a percentage, with the fraction before it if that is short."""
    percentage = percent(float(load))
    fraction = str(load)
    return f"{fraction} = {percentage}" if len(fraction) <= 11 else percentage


def packet_lines(part: SessionRun) -> list[str]:
    """Return lines about the packets of a stream without faults: sent, lost, recovered, delay.

    There are none for a stream with faults, because the table of faults has the figures.
    """
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
    residual_share = f"{100 * totals['residual_share']:.3f} %"
    lines.append(f"residual loss: {totals['residual']} source packets ({residual_share})")
    return lines


def _block_size_words(totals: Json) -> str:
    sizes = totals["block_size"]
    source_packets = totals["source_packets_of_block"]
    if sizes["most"] == source_packets:
        return f"M = {source_packets}, no parity"
    if sizes["least"] == sizes["most"]:
        return f"M = {source_packets}, N = {sizes['most']}"
    return (
        f"M = {source_packets}, N = {sizes['least']} to {sizes['most']} (mean {sizes['mean']:.1f})"
    )
