"""The page of a study: verdict, figures, the table of its points; one self-contained file like the page of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.model.run_records import Manifest
from testbed.model.verdict import Verdict
from testbed.report.drawing.axes import seconds_in_words
from testbed.report.drawing.svg_figures import caption_in
from testbed.report.markup import Markup, join, tag
from testbed.report.page import differences, fact_list, page_head, picture
from testbed.report.quantities import cell, column
from testbed.report.sections import badge, checks_block, scrolling
from testbed.report.wording import counted, state_of, when, why

MAX_ROWS = 500
"""Rows beyond this number are left to the file beside the page."""


def build_study_page(
    manifest: Manifest, rows: Sequence[Mapping[str, Any]], verdict: Verdict | None, figures: Mapping[str, str]
) -> str:
    """The whole page as text. ``figures``: name -> SVG document. Deterministic: the same records give the same page."""
    state = state_of(verdict)
    head = page_head(f"{state.replace('-', ' ').capitalize()}: {manifest.name} {manifest.run}".strip())
    unfinished = None if verdict is not None else "the study did not end"
    facts = [when(manifest.started), f"seed {manifest.seed}", counted(len(rows), "point")]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    header = tag(
        "header",
        tag("p", " · ".join(fact.replace(" ", "\u00a0") for fact in facts if fact), class_="kicker"),
        tag("div", tag("h1", study_title(manifest)), badge(state), class_="headline"),
        tag("p", manifest.study["answers"], class_="lead") if manifest.study.get("answers") else None,
        tag("p", why(verdict, unfinished), class_="lead"),
        _what_it_is(manifest.study),
        tag("p", tag("code", manifest.command), class_="soft"),
    )
    parts = [picture(drawing, caption_in(drawing, name), class_="across") for name, drawing in figures.items()]
    closing = tag(
        "section",
        tag("h2", "Checks"),
        checks_block(verdict) if verdict is not None else None,
        tag("h2", "Points"),
        _point_table(rows),
        tag(
            "details", tag("summary", "Machine and versions"), fact_list(manifest.machine), fact_list(manifest.versions)
        ),
        class_="closing",
    )
    footer = tag(
        "footer", tag("p", "Drawn from the points beside this page; ", tag("code", "testbed report"), " draws it anew.")
    )
    return (
        "<!doctype html>\n"
        + tag("html", head, tag("body", header, tag("main", parts, closing), footer), lang="en")
        + "\n"
    )


def study_title(manifest: Manifest) -> str:
    """Its title in words, or its name."""
    return str(manifest.study.get("title") or manifest.name.replace("_", " ") or "Study")


def _what_it_is(study: Mapping[str, Any]) -> Markup | None:
    """What was run, and where that differs from the document."""
    if not study:
        return None
    measured = fact_list({"Measured": study["does"]}) if study.get("does") else None
    return join([measured, differences(study.get("deviations", ()))])


def _point_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    if not rows:
        return tag("p", "No point was measured.", class_="soft")
    shown = rows[:MAX_ROWS]
    names = list(dict.fromkeys(key for row in shown for key in row))
    columns = {name: column(name, [row.get(name) for row in shown]) for name in names}
    numeric = {name: all(isinstance(row.get(name), (int, float, type(None))) for row in shown) for name in names}
    head = tag("tr", [tag("th", columns[n][0], class_="n" if numeric[n] else None, scope="col") for n in names])
    body = [
        tag("tr", [tag("td", cell(row.get(n), columns[n][1]), class_="n" if numeric[n] else "wrap") for n in names])
        for row in shown
    ]
    more = f"{len(rows) - MAX_ROWS} more points are in points.jsonl beside this page." if len(rows) > MAX_ROWS else ""
    table = scrolling(tag("table", tag("thead", head), tag("tbody", body)), "Points")
    return join([table, tag("p", more, class_="soft") if more else None])
