"""The parts of one session on the page: figures with captions and legend, tables, checks."""

import re
from collections.abc import Iterable, Sequence

from testbed.model.code_description import describe_stream_code
from testbed.model.run_records import FaultRecord, SessionRun
from testbed.model.stored_runs import RunState
from testbed.model.verdict import Check, Verdict
from testbed.report.column_units import NOTHING, milliseconds, percent, plain
from testbed.report.drawing.session_figures import drawn_until_s, session_figures
from testbed.report.drawing.svg_figures import inlined, without_matplotlib
from testbed.report.markup import Markup, escape, join, tag
from testbed.report.wording import (
    MARKS,
    OUTCOME_CLASSES,
    OUTCOME_MARKS,
    check_context,
    counted,
    exact,
    fault_mark,
    over_bound,
    ror_is_predicted,
    ror_words,
    shape_words,
    shaped_links,
    state_of,
    stream_sentence,
    suspected_cables,
    verdict_reason,
)
from topologies import lists_by_key
from topologies.text.json_types import Json

FIGURES = {
    "route": "Network and route",
    "network": "Network and loads",
    "loss": "Loss",
    "block-size": "Block size",
    "timeline": "Loss and redundancy over time",
    "loads": "Loads of the busiest links over time",
}
"""Figure of a session -> its heading."""
TERMS = {
    "ROR": "redundancy overall requirement: the extra packets that failures of a route's links ask for, summed",
    "FEC_t": "packets a block by which the sender makes up for the static tolerance",
    "N": "packets of a block with its parity",
    "M": "source packets of a block",
    "DER": "decoding error rate: the share of blocks that may stay undecodable",
    "MLU": "maximum link utilisation: the load of the fullest link, as a share of its capacity",
    "Rival": "what would be measured if the claim were false",
    "Undecodable blocks": "blocks of which fewer packets arrived than decoding takes",
    "Port status": "when the switch itself reported that its cable was cut",
    "Label intervals": "ranges of the 65,536 labels whose packets take this link",
    "bottleneck load": "transfers over the most loaded link: no schedule has fewer time frames",
    "liquid throughput": "what transfers reach together while every bottleneck link is busy all the time",
}
"""What a page explains in place."""
PER_PATH = "per_path"
"""The summary figure that is shown as a table of its own."""


def session_section(part: SessionRun, *, alone: bool = False) -> Markup:
    """One session, whole; ``alone``: what the page's head says of it is not said again."""
    session = part.session
    verdict = part.summary.verdict if part.summary else None
    name = f"session-{session.session}"
    return tag(
        "section",
        tag(
            "div",
            tag("h2", session.title, id=f"{name}-title"),
            None if alone else badge(state_of(verdict), small=True),
            class_="headline",
        ),
        tag("p", stream_sentence(part)),
        tag("p", verdict_reason(verdict), class_=state_of(verdict))
        if state_of(verdict) != "passed" and not alone
        else None,
        _tiles(part),
        _figures(part),
        _fault_table(part),
        _path_table(part),
        _link_table(part),
        checks_block(verdict) if verdict else None,
        id=name,
        class_="session",
        aria_labelledby=f"{name}-title",
    )


def badge(state: RunState, *, small: bool = False) -> Markup:
    """The verdict in a word with its mark."""
    mark = tag("span", MARKS[state], aria_hidden="true")
    return tag(
        "span", mark, state.replace("-", " ").capitalize(), class_=f"badge-word {state}" + (" small" if small else "")
    )


def scrolling(table: Markup, label: str) -> Markup:
    """A table that scrolls sideways where it does not fit, by keyboard too."""
    return tag("div", table, class_="scroll", role="region", tabindex=0, aria_label=label)


def table(
    columns: Iterable[tuple[str, str]],
    rows: Iterable[Markup | Iterable[object]],
    label: str,
    *,
    name: str | None = None,
) -> Markup:
    """A scrolling table. ``columns``: the heading of each and the class of its cells; ``rows``: whole ones, or what
    their cells hold (an element ``td``: the cell itself)."""
    kinds = [(words, kind or None) for words, kind in columns]
    head = [tag("th", tag("span", explained(words)), class_=kind, scope="col") for words, kind in kinds]
    body = [
        row
        if isinstance(row, Markup)
        else tag("tr", [_cell(one, kind) for one, (_, kind) in zip(row, kinds, strict=True)])
        for row in rows
    ]
    return scrolling(tag("table", tag("thead", tag("tr", head)), tag("tbody", body), class_=name), label)


def explained(words: str) -> Markup:
    """Words with the first term that they name explained."""
    for term, meaning in TERMS.items():
        if found := re.search(rf"\b{term}\b", words):
            before, after = words[: found.start()], words[found.end() :]
            return join([before, tag("abbr", term, title=meaning), after])
    return escape(words)


def _cell(content: object, kind: str | None) -> Markup:
    own = isinstance(content, Markup) and content.startswith("<td")
    return Markup(content) if own else tag("td", content, class_=kind)


def worst_deviation(faults: Sequence[FaultRecord]) -> float | None:
    """Largest |measured - predicted| loss, a fraction; None where none was measured."""
    return max((abs(f.measured_loss - f.predicted_loss) for f in faults if f.measured_loss is not None), default=None)


def _tiles(part: SessionRun) -> Markup:
    summary = part.summary
    tiles: list[tuple[str, str, str]] = []
    done = part.faults
    if done:
        agree = sum(f.loss_agrees for f in done)
        tiles.append(("Losses as predicted", f"{agree} of {len(done)}", ""))
        worst = worst_deviation(done)
        points = NOTHING if worst is None else f"{plain(worst * 100)} points"
        tiles.append(("Largest deviation of a loss", points, "measured against predicted"))
    if summary is not None:
        tiles += [_ror_tile(part)] if ror_is_predicted(part) else []
        lost = sum(f.undecodable_blocks for f in done)
        transient = sum(f.transient_blocks_lost for f in done)
        tiles.append(("Undecodable blocks", str(lost), f"and {transient} lost before the sender could know"))
    reactions = sorted(f.reaction_s for f in done if f.reaction_s is not None)
    if reactions:
        middle = reactions[len(reactions) // 2]
        tiles.append(("Reaction, median", milliseconds(middle), f"slowest {milliseconds(reactions[-1])}"))
    return tag(
        "dl",
        [
            tag("div", tag("dt", explained(name)), tag("dd", value, tag("small", more) if more else None))
            for name, value, more in tiles
        ],
        class_="tiles",
    )


def _ror_tile(part: SessionRun) -> tuple[str, str, str]:
    assert part.summary is not None
    words, (predicted, measured) = describe_stream_code(part.session.parameters), ror_words(part)
    code = f"; {words}" if words else ""
    if predicted == "infinite":
        more, links = "" if measured == NOTHING else f"measured {measured}; ", len(part.summary.infinite_links)
        return (
            "ROR, predicted",
            predicted,
            f"{more}{links} link{'s carry' if links > 1 else ' carries'} every packet{code}",
        )
    return "ROR, measured", measured, f"predicted {predicted}{code}"


def _figures(part: SessionRun) -> Markup:
    """Route and scatters beside each other, the timeline below."""
    name = f"drawing-{part.session.session}"
    drawn = inlined(name, lambda: session_figures(part))
    if not drawn:
        return tag("p", without_matplotlib(), id=name, class_="soft")
    found = {kind: session_figure(kind, *one, id=name if kind == "route" else None) for kind, one in drawn.items()}
    ended, lasted = drawn_until_s(part), part.session.duration_s
    timeline = found.pop("timeline", None)
    later = None
    if timeline is not None and lasted - ended >= 1:
        words = f"Nothing is sent after {plain(ended, 1)} s: until {plain(lasted, 1)} s the receiver waits for late"
        later = tag("p", f"{words} packets.", class_="soft")
    route = found.pop("route")
    return join([tag("div", route, tag("div", *found.values(), class_="scatters"), class_="figures"), timeline, later])


def session_figure(kind: str, drawing: Markup, caption: str, **attributes: object) -> Markup:
    """A figure of a session with its heading and its caption; ``attributes`` are those of the element."""
    shown = {"class_": "across" if kind in ("timeline", "loads") else None} | attributes
    return tag("figure", tag("h3", FIGURES[kind]), drawing, tag("figcaption", caption), **shown)


def _numeric(*names: str) -> list[tuple[str, str]]:
    """Columns of numbers."""
    return [(name, "n") for name in names]


_AGREES = {True: "agrees", False: "does not agree", None: "not judged"}
FAULT_COLUMNS = (
    ("Fault", ""),
    ("Agrees", "hidden-words"),
    ("Link", ""),
    ("Kind", ""),
    *_numeric("Loss predicted", "Loss measured", "N predicted", "N measured", "Reaction"),
    ("Suspected by the sender", ""),
    *_numeric("Diagnosis certain after", "Port status", "Undecodable blocks", "Blocks lost before the reaction"),
    *_numeric("Packets after the playback deadline"),
)


def _fault_table(part: SessionRun) -> Markup | None:
    if not part.faults:
        return None
    rows = [_fault_row(number, fault) for number, fault in enumerate(part.faults, start=1)]
    faults = table(FAULT_COLUMNS, rows, f"Faults of {part.session.title}", name="faults")
    return join([tag("h3", "Faults, prediction beside measurement"), faults])


def _fault_row(number: int, fault: FaultRecord) -> Markup:
    name = f"{fault.session}-{number}"
    first = tag("a", number, href=f"#drawing-{fault.session}", data_fault=name, aria_label=f"fault {number}")
    mark = tag("span", fault_mark(fault), aria_label=_AGREES[fault.passed], role="img")
    name_of = {True: "ok", False: "no", None: "soft"}[fault.passed]
    cells = [tag("td", first), tag("td", mark, class_=name_of), tag("td", fault.link), tag("td", fault.kind)]
    port = None if fault.port_status_s is None else fault.port_status_s - fault.start_s
    reaction = milliseconds(fault.reaction_s) if fault.reacted else "none"
    if fault.reaction_s is not None and fault.reaction_uncertainty_s:
        reaction += f" ± {milliseconds(fault.reaction_uncertainty_s)}"
    certain_s = None if fault.diagnosis is None else fault.diagnosis.get("certain_after_s")
    figures = (
        percent(fault.predicted_loss),
        _measured_loss(fault),
        _with_more(plain(fault.predicted_block_size), over_bound(fault)),
        _with_range(fault),
        reaction,
        suspected_cables(fault),
        milliseconds(certain_s),
        milliseconds(port),
        fault.undecodable_blocks,
        f"{fault.transient_blocks_lost} of {fault.transient_blocks}"
        if fault.transient_blocks
        else fault.transient_blocks_lost,
        fault.late_packets,
    )
    cells += [tag("td", value, class_="n") for value in figures]
    return tag("tr", cells, data_fault=name)


def _with_more(written: str, more: str | None) -> Markup:
    """A figure, and in brackets what belongs to it."""
    return tag("span", written, *((" ", tag("span", f"[{more}]", class_="sub")) if more else ()))


def _measured_loss(fault: FaultRecord) -> Markup:
    known = fault.measured_loss is not None and fault.interval is not None
    spread = " to ".join(plain(end * 100) for end in fault.interval or ()) if known else None
    return _with_more(percent(fault.measured_loss), spread)


def _with_range(fault: FaultRecord) -> Markup:
    known = fault.measured_block_size is not None
    spread = " to ".join(map(plain, fault.size_range or ())) if known else None
    return _with_more(plain(fault.measured_block_size), spread)


def _link_table(part: SessionRun) -> Markup | None:
    links = sorted(part.session.links, key=lambda link: (-link.load, link.label))
    if not links:
        return None
    numbers = lists_by_key((fault.link, str(number)) for number, fault in enumerate(part.faults, start=1))
    shaped = shaped_links(part.session.network)
    columns = (("Link", ""), *_numeric("Capacity", "Delay", "Load", "Layer", "Label intervals", "Faults"))
    rows = [
        (
            link.label,
            *shape_words(shaped.get((link.source, link.target, link.key), {})),
            exact(link.load),
            link.layer or NOTHING,
            len(link.intervals) or NOTHING,
            ", ".join(numbers.get(link.label, ())) or NOTHING,
        )
        for link in links
    ]
    words = f"All {len(links)} loaded links" if len(links) > 1 else "The loaded link"
    return tag("details", tag("summary", words), table(columns, rows, f"Links of {part.session.title}"))


def _path_table(part: SessionRun) -> Markup | None:
    """Prediction, packet logs and loss reports by path, where the summary has them (``per_path``)."""
    paths: Sequence[Json] = (part.summary.figures if part.summary else {}).get(PER_PATH, ())
    if not paths:
        return None
    losses = ("Labels", "Sent", "Loss predicted", "Loss measured", "Reported lost", "Reported come")
    columns = (*_numeric("Path"), ("Links", ""), *_numeric(*losses))
    rows = []
    for path in paths:
        share, *shares = (percent(path[k]) for k in ("share", "predicted_loss", "measured_loss"))
        reported = [NOTHING if path[k] is None else path[k] for k in ("reported_lost", "reported_came")]
        links = " ".join(path["links"]) or NOTHING
        rows.append((path["path"] or "others", links, share, path["sent"], *shares, *reported))
    caption = (
        "Predicted from the faults of each path's links, measured from the packet logs of both ends, and as the"
        " receiver's reports showed the sender by gaps in the path's numbers."
    )
    listed = table(columns, rows, f"Paths of {part.session.title}")
    return tag("details", tag("summary", f"Loss by path, {counted(len(paths), 'path')}"), tag("p", caption), listed)


def checks_block(verdict: Verdict) -> Markup:
    """Failed checks in the open, the others folded away, then the notes."""
    failed = [c for c in verdict.checks if not c.passed]
    passed = [c for c in verdict.checks if c.passed]
    parts: list[Markup] = []
    if failed:
        parts.append(tag("h3", f"Checks that did not pass ({len(failed)} of {len(verdict.checks)})"))
        parts.append(_check_table(failed, "Checks that did not pass"))
    if passed:
        summary = tag("summary", f"{counted(len(passed), 'check')} passed")
        parts.append(tag("details", summary, _check_table(passed, "Checks that passed")))
    if verdict.notes:
        parts += [tag("h3", "Notes"), tag("ul", [tag("li", note) for note in verdict.notes], class_="plain")]
    return join(parts)


def _check_table(checks: Sequence[Check], label: str) -> Markup:
    columns = (
        ("Outcome", "hidden-words"),
        ("Check", "wrap"),
        *_numeric("Predicted", "Measured", "Tolerance", "Rival"),
        ("Detail", "wrap soft"),
    )
    rows = [
        (
            tag("td", OUTCOME_MARKS[check.outcome], class_=OUTCOME_CLASSES[check.outcome]),
            check.name,
            *(plain(v, 5) for v in (check.predicted, check.measured, check.tolerance, check.rival)),
            check_context(check),
        )
        for check in checks
    ]
    return table(columns, rows, label)
