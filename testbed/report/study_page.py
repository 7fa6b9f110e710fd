"""The page of a study: verdict, figures and the table of its points.

It is one self-contained HTML file like the page of a stream.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain

from testbed.model.run_records import Manifest, group_sessions, record_from_json
from testbed.model.verdict import Verdict
from testbed.report import page
from testbed.report.answers import table_section
from testbed.report.column_units import cell, column, is_series
from testbed.report.comparison import compare_methods
from testbed.report.drawing.stream_figures import route_figure
from testbed.report.drawing.svg_figures import caption_in, inlined
from testbed.report.markup import Markup, join, tag
from testbed.report.sections import checks_block, scrolling, stream_figure, table
from testbed.report.wording import counted, state_of, verdict_reason
from topologies.text.json_types import Json

# Up to this number of points, each point is a column.
FEW_ROWS = 4
# Rows of the table. The file beside the page has all of them.
MAX_ROWS = 500

# Field -> (heading with its unit, factor to divide its values by).
Columns = Mapping[str, tuple[str, float]]


def build_study_page(
    manifest: Manifest, rows: Sequence[Json], verdict: Verdict | None, figures: Mapping[str, str]
) -> str:
    """Return the page of a study as text; the same records always give the same page.

    Args:
        manifest: The manifest of the run.
        rows: The points.
        verdict: The verdict, or None if the study did not end.
        figures: The SVG documents of the figures by name.
    """
    state = state_of(verdict)
    clips: list[str] = []
    for row in rows:
        if isinstance(row.get("clips"), list):
            clips += row["clips"]
    title = f"{state.replace('-', ' ').capitalize()}: {manifest.name} {manifest.run}".strip()
    head = page.page_head(title, plays=bool(clips))
    drawings = []
    for name, drawing in figures.items():
        drawings.append(page.picture(drawing, caption_in(drawing, name), class_="across"))
    main = tag(
        "main",
        drawn_network(manifest.study.get("drawn", ())),
        drawings,
        [page.clip(clip) for clip in clips],
        _methods(manifest.name, rows),
        _closing(manifest, rows, verdict),
    )
    footer = page.page_footer("Generated from the points next to this page; ")
    return page.whole_page(head, _header(manifest, rows, verdict), main, footer)


def _header(manifest: Manifest, rows: Sequence[Json], verdict: Verdict | None) -> Markup:
    study = manifest.study
    title = study_title(manifest)
    subtitle = tag("p", title, class_="soft") if "of" in study else None
    question = tag("p", study["answers"], class_="lead") if study.get("answers") else None
    unfinished = None if verdict is not None else "the study did not end"
    return page.page_header(
        manifest,
        study.get("of") or title,
        state_of(verdict),
        [counted(len(rows), "point")],
        subtitle,
        question,
        tag("p", verdict_reason(verdict, unfinished), class_="lead"),
        _description(study),
    )


def _closing(manifest: Manifest, rows: Sequence[Json], verdict: Verdict | None) -> Markup:
    file_names = ["points.jsonl", "manifest.json"]
    if verdict is not None:
        file_names.append("verdict.json")
    return tag(
        "section",
        tag("h2", "Checks"),
        checks_block(verdict) if verdict is not None else None,
        tag("h2", "Points"),
        _point_table(rows),
        tag("h2", "Data"),
        page.files_list(file_names),
        page.machine_details(manifest),
        class_="closing",
    )


def drawn_network(records: Sequence[Json]) -> Markup | None:
    """Return a drawing of the network with the planned routes or loads.

    Args:
        records: The records of a stream. None is returned if there are none.
    """
    runs = group_sessions([record_from_json(record, "drawn") for record in records])
    if not runs:
        return None
    drawings = inlined("drawn", lambda: {"route": route_figure(runs[0])})
    if not drawings:
        return None
    kind = "route" if runs[0].session.source else "network"
    drawing, caption = drawings["route"]
    return stream_figure(kind, drawing, caption)


def _methods(name: str, rows: Sequence[Json]) -> Markup | None:
    """Return a table that compares the methods of a campaign, or None for another study."""
    if not name.startswith("campaign-"):
        return None
    common = any("mean_ror_of_common_rows" in row for row in rows)
    mean = "mean_ror_of_common_rows" if common else "mean_ror"
    compared = compare_methods(name, rows, (mean,), ("tolerance", "m", "der", "large_blocks"))
    if compared is None or not compared.shown_names:
        return None
    return table_section(compared.as_table())


def study_title(manifest: Manifest) -> str:
    """Return the title of a study, or its name if it has no title."""
    name = manifest.name.replace("_", " ")
    campaign = re.fullmatch(r"campaign-(.+)-[0-9a-f]{12}", name)
    if campaign is not None:
        return f"Campaign: {campaign[1]}"
    return str(manifest.study.get("title") or name or "Study")


def _description(study: Json) -> Markup | None:
    """Return what was measured, and the deviations from the document."""
    if not study:
        return None
    measured = page.fact_list({"Measured": study["does"]}) if study.get("does") else None
    code = None
    if study.get("ror_code"):
        code = tag("p", f"Every ROR here is that of {study['ror_code']}.", class_="soft")
    return join([measured, code, page.differences(study.get("deviations", ()))])


def _point_table(rows: Sequence[Json]) -> Markup:
    """Return the table of points, preceded by the values that all points share."""
    if not rows:
        return tag("p", "No point was measured.", class_="soft")
    shown = rows[:MAX_ROWS]
    names, series = _fields(shown)
    columns = {}
    for name in names:
        columns[name] = column(name, [row.get(name) for row in shown])
    parts: list[Markup] = []
    constant = _constant_fields(shown, names) if len(shown) > FEW_ROWS else []
    if constant and len(constant) < len(names):
        facts = {}
        for name in constant:
            heading, factor = columns.pop(name)
            facts[heading] = cell(shown[0][name], factor)
        parts += [tag("p", "Common to all points:", class_="soft"), page.fact_list(facts)]
    layout = _side_by_side if len(shown) <= FEW_ROWS else _row_by_row
    parts.append(layout(shown, columns))
    if series:
        headings = ", ".join(column(name, [])[0] for name in series)
        parts.append(tag("p", f"Series, in points.jsonl: {headings}.", class_="soft"))
    if len(rows) > MAX_ROWS:
        text = f"{len(rows) - MAX_ROWS} more points are in points.jsonl beside this page."
        parts.append(tag("p", text, class_="soft"))
    return join(parts)


def _fields(rows: Sequence[Json]) -> tuple[list[str], list[str]]:
    """Return the fields that a table can show, and those that contain series.

    Fields that are empty in every row are left out, and so is the verdict, which the page shows
    elsewhere.
    """
    names = []
    series = []
    for name in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(name) for row in rows]
        if name == "verdict" or all(value in (None, [], {}) for value in values):
            continue
        if any(is_series(value) for value in values):
            series.append(name)
        else:
            names.append(name)
    return names, series


def _constant_fields(rows: Sequence[Json], names: Sequence[str]) -> list[str]:
    """Return the fields that every row contains with the same value."""
    constant = []
    for name in names:
        first_value = rows[0].get(name)
        # A row without the field differs from every value, also from None.
        if all(row.get(name, ...) == first_value for row in rows):
            constant.append(name)
    return constant


def _row_by_row(rows: Sequence[Json], columns: Columns) -> Markup:
    """Return a table with one row per point."""
    headings = []
    for name, (heading, _) in columns.items():
        numeric = all(isinstance(row.get(name), (int, float, type(None))) for row in rows)
        headings.append((heading, "n" if numeric else ""))
    body = []
    for row in rows:
        body.append([cell(row.get(name), factor) for name, (_, factor) in columns.items()])
    return table(headings, body, "Points")


def _side_by_side(rows: Sequence[Json], columns: Columns) -> Markup:
    """Return a table with one column per point.

    Few points fit the width of the page in this way, however many fields they have.
    """
    body = []
    for name, (heading, factor) in columns.items():
        cells = [tag("td", cell(row.get(name), factor), class_="n") for row in rows]
        body.append(tag("tr", tag("th", heading, scope="row"), cells))
    return scrolling(tag("table", tag("tbody", body), class_="beside"), "Points")
